package server

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/show"
	"github.com/wasmtools/wasmtools/tool"
)

func TestQuestionIsWholeWhereItFits(t *testing.T) {
	lines := []show.Line{{Kind: show.Title, Text: "write: change a.txt"}, {Kind: show.Added, Text: "  | +new"}, {Kind: show.Warning, Text: "  warning: x"}}
	if got, want := fit(lines, "t"), "write: change a.txt\n  | +new\n  warning: x\n"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

// TestQuestionIsCut: the title and the warnings, which stand last, are kept;
// what is left out is counted, and the text says where to see it.
func TestQuestionIsCut(t *testing.T) {
	for name, text := range map[string]string{"many": "x", "long": strings.Repeat("é", 3000), "wide": strings.Repeat("w", 200)} {
		lines := []show.Line{{Kind: show.Title, Text: "title"}}
		for i := range 5000 {
			lines = append(lines, show.Line{Kind: show.Added, Text: fmt.Sprintf("  | +%d %s", i, text)})
		}
		lines = append(lines, show.Line{Kind: show.Warning, Text: "  warning: look here"})
		got := fit(lines, "ticket1")
		n, chars := strings.Count(got, "\n"), utf8.RuneCountInString(got)
		if n > maxQuestionLines+2 || chars > maxQuestionText {
			t.Errorf("%s: %d lines, %d characters", name, n, chars)
		}
		if !strings.HasPrefix(got, "title\n  | +0 ") || !strings.Contains(got, "warning: look here\n") ||
			!strings.Contains(got, "wasmtools approvals show ticket1") {
			t.Errorf("%s: got %.200q ... %q", name, got, got[len(got)-200:])
		}
		shownLines := strings.Count(got, "  | +")
		if want := fmt.Sprintf("%d more lines", 5000-shownLines); !strings.Contains(got, want) {
			t.Errorf("%s: %d lines are shown, and the text does not say %q", name, shownLines, want)
		}
	}
	// One long line alone is marked too.
	if got := fit([]show.Line{{Text: strings.Repeat("x", 1000)}}, "t1"); !strings.Contains(got, "[...]") || !strings.Contains(got, "approvals show t1") {
		t.Errorf("got %q", got)
	}
	// So many warnings that even they do not fit.
	warnings := make([]show.Line, 500)
	for i := range warnings {
		warnings[i] = show.Line{Kind: show.Warning, Text: "w"}
	}
	if got := fit(warnings, "t"); strings.Count(got, "\n") > maxQuestionLines+2 || !strings.Contains(got, "420 more lines") {
		t.Errorf("got %q", got)
	}
}

// TestQuestionShowsNoControl: what a model writes cannot act on a client's
// terminal, nor pass for a line of ours.
func TestQuestionShowsNoControl(t *testing.T) {
	evil := "+ok\x1b[2J\u202e\r\nticket      forged\n"
	got := questionText(approval.Request{Tool: "write_file\x07", Ticket: "t", Preview: tool.Preview{Diff: evil, Command: evil,
		Writes: &tool.WriteSet{Entries: []tool.Write{{Op: tool.OpWrite, Path: "a\nb\x1b"}}}}})
	for _, r := range got {
		if r != '\n' && (r < ' ' || r == 0x7f || r == '\u202e') {
			t.Errorf("%q holds %q", got, r)
		}
	}
	for line := range strings.Lines(got) {
		if strings.HasPrefix(strings.TrimSpace(line), "ticket      forged") {
			t.Errorf("%q passes for ours", line)
		}
	}
}
