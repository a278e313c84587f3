package show_test

import (
	"encoding/json"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/show"
	"github.com/wasmtools/wasmtools/tool"
)

func TestEscape(t *testing.T) {
	for _, c := range []struct{ in, block, inline string }{
		{"plain text", "plain text", "plain text"},
		{"größe, 日本, 👍", "größe, 日本, 👍", "größe, 日本, 👍"},
		{"a\nb", "a\nb", "a⟨LF⟩b"},
		{"a\r\nb", "a⟨CR⟩\nb", "a⟨CR⟩⟨LF⟩b"},
		{"\tx", "⇥   x", "⇥   x"},
		{"⇥   x", "⟨U+21E5⟩   x", "⟨U+21E5⟩   x"},
		{"\x1b[2K\x1b]0;hi\x07", "⟨ESC⟩[2K⟨ESC⟩]0;hi⟨BEL⟩", "⟨ESC⟩[2K⟨ESC⟩]0;hi⟨BEL⟩"},
		{"\u009b31m", "⟨CSI⟩31m", "⟨CSI⟩31m"},
		{"a\x00b\x7f", "a⟨NUL⟩b⟨DEL⟩", "a⟨NUL⟩b⟨DEL⟩"},
		{"x\xffy\xc3", "x⟨xFF⟩y⟨xC3⟩", "x⟨xFF⟩y⟨xC3⟩"},
		{"if ok {\u202e } \u2066// check\u2069", "if ok {⟨RLO⟩ } ⟨LRI⟩// check⟨PDI⟩", "if ok {⟨RLO⟩ } ⟨LRI⟩// check⟨PDI⟩"},
		{"a\u200bb\ufeffc\u00add", "a⟨ZWSP⟩b⟨BOM⟩c⟨SHY⟩d", "a⟨ZWSP⟩b⟨BOM⟩c⟨SHY⟩d"},
		{"a\u00a0b\u2003c", "a⟨NBSP⟩b⟨U+2003⟩c", "a⟨NBSP⟩b⟨U+2003⟩c"},
		{"hangul \u3164filler, braille \u2800, object \ufffc", "hangul ⟨U+3164⟩filler, braille ⟨U+2800⟩, object ⟨U+FFFC⟩", "hangul ⟨U+3164⟩filler, braille ⟨U+2800⟩, object ⟨U+FFFC⟩"},
		{"tag \U000e0041 selector \ufe0f\U000e0100", "tag ⟨U+E0041⟩ selector ⟨U+FE0F⟩⟨U+E0100⟩", "tag ⟨U+E0041⟩ selector ⟨U+FE0F⟩⟨U+E0100⟩"},
		{"private \ue000 unassigned \U000effff", "private ⟨U+E000⟩ unassigned ⟨U+EFFFF⟩", "private ⟨U+E000⟩ unassigned ⟨U+EFFFF⟩"},
		{"line\u2028para\u2029", "line⟨U+2028⟩para⟨U+2029⟩", "line⟨U+2028⟩para⟨U+2029⟩"},
		{"⟨ESC⟩", "⟨U+27E8⟩ESC⟨U+27E9⟩", "⟨U+27E8⟩ESC⟨U+27E9⟩"},
		{"e\u0301", "e\u0301", "e\u0301"},
		{"\u0301e \u0301", "⟨U+0301⟩e ⟨U+0301⟩", "⟨U+0301⟩e ⟨U+0301⟩"},
		{"z\u0301\u0302\u0303\u0304", "z\u0301\u0302\u0303⟨U+0304⟩", "z\u0301\u0302\u0303⟨U+0304⟩"},
		{"שלום", "שלום", "⟨U+05E9⟩⟨U+05DC⟩⟨U+05D5⟩⟨U+05DD⟩"},
	} {
		if got := show.Block(c.in); got != c.block {
			t.Errorf("Block(%q) = %q, want %q", c.in, got, c.block)
		}
		if got := show.Inline(c.in); got != c.inline {
			t.Errorf("Inline(%q) = %q, want %q", c.in, got, c.inline)
		}
	}
}

// full is a request with something in every field.
func full() approval.Request {
	return approval.Request{
		Ticket: "ticketticketticketticketti", CallID: "call-7", Session: "s1", Tool: "write_file",
		Source: tool.Installed, Module: tool.SumDigest([32]byte{1}), Input: tool.SumDigest([32]byte{2}),
		Effects: tool.Writes, Root: "/home/ann/proj", Arguments: json.RawMessage(`{"path":"a.txt"}`),
		Asked:   approval.RuleRef{ID: "edits", File: "/home/ann/.config/wasmtools/wasmtools.toml", Line: 12, Why: "edits ask"},
		Expires: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Preview: tool.Preview{
			Writes: &tool.WriteSet{Entries: []tool.Write{
				{Op: tool.OpWrite, Path: "a.txt", Identity: tool.Identity{Dev: 1, Ino: 2}, Mode: 0o644, Size: 3},
				{Op: tool.OpWrite, Path: "run.sh", Mode: 0o755, Size: 1},
				{Op: tool.OpMove, From: "b", Path: "c/d", Replaced: tool.Identity{Dev: 1, Ino: 3}},
				{Op: tool.OpDelete, Path: "old", Mode: fs.ModeDir | 0o755},
				{Op: tool.OpDelete, Path: "ln", Mode: fs.ModeSymlink | 0o777},
				{Op: tool.OpMkdir, Path: "c"},
			}},
			Diff: "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n same\n", Command: "rm -rf build &&\nmake", Cwd: "/home/ann/proj/sub",
			Env: map[string]string{"TZ": "UTC"}, Hosts: []string{"example.org"}, Binding: tool.SumDigest([32]byte{3}),
		},
	}
}

// TestLines: everything that a person has to know stands there.
func TestLines(t *testing.T) {
	r := full()
	got := show.Text(show.Lines(r, show.Options{Now: r.Expires.Add(-90 * time.Second)}))
	for _, want := range []string{
		"write_file: change a.txt, and 5 more\n",
		"ticket  ticketticketticketticketti, expires 03:04:05 (in 1m30s)\n",
		"call    call-7 of session s1\n",
		"tool    write_file (installed): write\n",
		"module  SHA-256 0100000000000000000000000000000000000000000000000000000000000000\n",
		"root    /home/ann/proj\n",
		"rule    edits (/home/ann/.config/wasmtools/wasmtools.toml:12): edits ask\n",
		"input   SHA-256 02", "binds   SHA-256 03",
		"  | change /home/ann/proj/a.txt, then 3 bytes of mode 0644\n",
		"  | create /home/ann/proj/run.sh, then 1 byte of mode 0755\n",
		"  | move /home/ann/proj/b to /home/ann/proj/c/d, replacing what is there\n",
		"  | delete directory /home/ann/proj/old\n",
		"  | delete link /home/ann/proj/ln\n",
		"  | make directory /home/ann/proj/c\n",
		"  | -old\n  | +new\n  |  same\n",
		"  | rm -rf build &&\n  | make\n",
		"in      /home/ann/proj/sub\n",
		"  | TZ=UTC\n",
		"  | example.org\n",
		"the model and the installed module",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("Lines lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "warning") {
		t.Errorf("Lines warns without a reason:\n%s", got)
	}
}

// TestRule: a rule is shown as it would be saved, and only where that is asked.
func TestRule(t *testing.T) {
	r := full()
	r.Offer = &approval.Rule{ID: "docs-1", TOML: "[[rule]]\npaths = [\"a\u202eb\"]\n"}
	if got := show.Text(show.Lines(r, show.Options{})); strings.Contains(got, "[[rule]]") {
		t.Errorf("the rule stands there unasked:\n%s", got)
	}
	got := show.Text(show.Lines(r, show.Options{Offer: true}))
	if !strings.Contains(got, "id docs-1:\n  | [[rule]]\n  | paths = [\"a⟨RLO⟩b\"]\n") {
		t.Errorf("got:\n%s", got)
	}
}

func TestArgumentsStandInWhereNothingElseIsKnown(t *testing.T) {
	r := approval.Request{Tool: "ask", Source: tool.MCP, Arguments: json.RawMessage(`{"q":"a\u001b[31m","n":1}`)}
	got := show.Text(show.Lines(r, show.Options{}))
	if !strings.Contains(got, "  | {\n  |   \"q\": \"a\\u001b[31m\",\n  |   \"n\": 1\n  | }\n") {
		t.Errorf("got:\n%s", got)
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*approval.Request)
		want string
	}{
		{"hidden in the diff", func(r *approval.Request) { r.Preview.Diff += "+a\u200bb\n" }, "invisible or control characters"},
		{"hidden in a path", func(r *approval.Request) { r.Preview.Writes.Entries[0].Path = "a\u202e.txt" }, "invisible or control characters"},
		{"Cyrillic a in a host", func(r *approval.Request) { r.Preview.Hosts = []string{"ex\u0430mple.org"} }, "letters of different scripts"},
		{"Greek o in a command", func(r *approval.Request) { r.Preview.Command = "g\u03bf build" }, "letters of different scripts"},
		{"right to left", func(r *approval.Request) { r.Preview.Diff += "+שלום\n" }, "right-to-left"},
		{"cut", func(r *approval.Request) { r.Preview.Diff += "... diff cut: 7 of 9 lines left out\n" }, "a yes covers what is not shown too"},
		{"protected", func(r *approval.Request) {
			r.Preview.Protected = []tool.ProtectedPath{{Path: ".git/hooks/x", Rule: "git", Where: "f:3"}}
		}, "  | /home/ann/proj/.git/hooks/x (list git, f:3)\n"},
		{"setuid", func(r *approval.Request) { r.Preview.Writes.Entries[0].Mode |= fs.ModeSetuid }, "setuid"},
	} {
		r := full()
		c.edit(&r)
		if got := show.Text(show.Lines(r, show.Options{})); !strings.Contains(got, c.want) {
			t.Errorf("%s: no warning %q in:\n%s", c.name, c.want, got)
		}
	}
}

// TestFits: a small request takes no more than a terminal of 24 rows and 80
// columns shows together with its question.
func TestFits(t *testing.T) {
	r := full()
	r.Preview = tool.Preview{Binding: r.Preview.Binding, Diff: "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+hello\n",
		Writes: &tool.WriteSet{Entries: []tool.Write{{Op: tool.OpWrite, Path: "b.txt", Mode: 0o644, Size: 6}}}}
	lines := show.Lines(r, show.Options{Width: 80, Now: r.Expires.Add(-5 * time.Minute)})
	if len(lines) > 20 {
		t.Errorf("it takes %d rows:\n%s", len(lines), show.Text(lines))
	}
}

// TestForgedLines: what a stranger writes cannot pass for a line of the host's,
// not even by being so long that the terminal would wrap it.
func TestForgedLines(t *testing.T) {
	forged := strings.Repeat("x", 60) + "ticket  forged"
	r := approval.Request{Tool: "t", Preview: tool.Preview{
		Diff:    "+a\nticket  forged\n+" + forged + "\n",
		Command: "true\nticket  forged\n" + forged,
		Cwd:     "/" + forged,
		Env:     map[string]string{"A": "\nticket  forged", "B": forged},
		Hosts:   []string{"h\nticket  forged"},
	}}
	for _, width := range []int{0, 40, 66, 80} {
		for _, l := range show.Lines(r, show.Options{Width: width}) {
			if strings.HasPrefix(l.Text, "ticket  forged") {
				t.Errorf("at width %d a row reads %q", width, l.Text)
			}
			if width > 0 && utf8.RuneCountInString(l.Text) > width {
				t.Errorf("at width %d a row is %d wide: %q", width, utf8.RuneCountInString(l.Text), l.Text)
			}
		}
	}
	// The control: the same text, put on the terminal as it is, makes such a row.
	if !strings.Contains(r.Preview.Diff, "\nticket  forged") {
		t.Fatal("the diff holds no forged row; this test proves nothing")
	}
}

func TestSummaryIsOneShortLine(t *testing.T) {
	for _, r := range []approval.Request{
		full(),
		{Tool: "terminal_session", Preview: tool.Preview{Command: strings.Repeat("a\n", 500)}},
		{Tool: "fetch", Preview: tool.Preview{Hosts: []string{"a\nb"}}},
		{Tool: "x", Arguments: json.RawMessage("{}\n")},
		{},
	} {
		s := show.Summary(r)
		if strings.Contains(s, "\n") || utf8.RuneCountInString(s) > 160 {
			t.Errorf("Summary = %q", s)
		}
	}
}

// TestTyped: whoever decides about what is typed sees which program reads it, and
// what is killed when.
func TestTyped(t *testing.T) {
	r := approval.Request{Tool: "terminal_session", Preview: tool.Preview{
		Command: "hunter2\n", Into: "su\x1bdo, in session s-1", Profile: "none", Timeout: 3 * time.Second,
	}}
	if s := show.Summary(r); s != "terminal_session: type into su⟨ESC⟩do, in session s-1: hunter2⟨LF⟩" {
		t.Errorf("Summary = %q", s)
	}
	var text strings.Builder
	for _, l := range show.Lines(r, show.Options{Width: 100}) {
		text.WriteString(l.Text + "\n")
	}
	for _, want := range []string{"Text as it will be typed", "su⟨ESC⟩do, in session s-1", "none", "after 3s"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// unescape is the slow twin that shows that nothing was lost: it takes marked
// text back to the bytes.
func unescape(t *testing.T, s string) string {
	t.Helper()
	short := map[string]string{"NUL": "\x00", "BEL": "\a", "BS": "\b", "LF": "\n", "CR": "\r", "ESC": "\x1b", "DEL": "\x7f",
		"CSI": "\u009b", "NBSP": "\u00a0", "SHY": "\u00ad", "ZWSP": "\u200b", "ZWNJ": "\u200c", "ZWJ": "\u200d", "LRM": "\u200e", "RLM": "\u200f",
		"LRE": "\u202a", "RLE": "\u202b", "PDF": "\u202c", "LRO": "\u202d", "RLO": "\u202e",
		"LRI": "\u2066", "RLI": "\u2067", "FSI": "\u2068", "PDI": "\u2069", "BOM": "\ufeff"}
	var b strings.Builder
	for s != "" {
		if rest, ok := strings.CutPrefix(s, "⇥   "); ok {
			b.WriteByte('\t')
			s = rest
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		if r != '⟨' {
			b.WriteRune(r)
			s = s[n:]
			continue
		}
		name, rest, ok := strings.Cut(s[n:], "⟩")
		if !ok {
			t.Fatalf("an open mark in %q", s)
		}
		s = rest
		if hex, ok := strings.CutPrefix(name, "U+"); ok {
			v, err := strconv.ParseUint(hex, 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteRune(rune(v))
		} else if hex, ok := strings.CutPrefix(name, "x"); ok {
			v, err := strconv.ParseUint(hex, 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteByte(byte(v))
		} else if short[name] != "" {
			b.WriteString(short[name])
		} else {
			t.Fatalf("unknown mark %q", name)
		}
	}
	return b.String()
}

// harmless fails if text holds what a terminal would obey or a person not see.
func harmless(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Fatalf("not UTF-8: %q", text)
	}
	for _, r := range text {
		switch {
		case r == '\n':
		case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs, unicode.Bidi_Control,
			unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector), unicode.Is(unicode.Zs, r) && r != ' ', !unicode.IsPrint(r):
			t.Fatalf("%U stands in %q", r, text)
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "a\tb", "\x1b[0m", "\u202e⟨⟩⇥", "\xff\xfe", "z\u0301\u0302\u0303\u0304", "\ufffd", "שלום\u200f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		block, inline := show.Block(s), show.Inline(s)
		harmless(t, block)
		harmless(t, inline)
		if strings.Contains(inline, "\n") {
			t.Fatalf("Inline(%q) has a line end", s)
		}
		if got := unescape(t, block); got != s {
			t.Fatalf("Block(%q) reads back as %q", s, got)
		}
		if got := unescape(t, inline); got != s {
			t.Fatalf("Inline(%q) reads back as %q", s, got)
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add("a.txt", "+x\n", "ls\n", "/tmp", "K", "V", "host", `{"a":1}`, "why", 40)
	f.Add("\x1b]0;x\x07", "+\u202e\n\r\n", "rm\x00", "\xff", "\u2066", "\u200b", "\u0430", "{\x1b", "\u2028", 0)
	f.Fuzz(func(t *testing.T, path, diff, cmd, cwd, k, v, host, args, why string, width int) {
		r := full()
		r.Preview.Writes.Entries[0].Path, r.Preview.Writes.Entries[2].From = path, path
		r.Preview.Diff, r.Preview.Command, r.Preview.Cwd, r.Preview.Hosts = diff, cmd, cwd, []string{host}
		r.Preview.Env = map[string]string{k: v}
		r.Arguments, r.Asked.Why, r.Ticket, r.CallID, r.Root = json.RawMessage(args), why, why, host, cwd
		if len(diff)%2 == 0 {
			r.Preview.Diff, r.Preview.Command = "", "" // so that the arguments are shown
		}
		width %= 200
		for _, l := range show.Lines(r, show.Options{Width: width}) {
			harmless(t, l.Text)
			if strings.Contains(l.Text, "\n") {
				t.Fatalf("a row holds a line end: %q", l.Text)
			}
			if width >= 24 && utf8.RuneCountInString(l.Text) > width {
				t.Fatalf("a row is wider than %d: %q", width, l.Text)
			}
		}
		harmless(t, show.Summary(r))
	})
}
