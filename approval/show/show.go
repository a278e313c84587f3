// Package show turns what an approver is asked into text for a person.
//
// What it promises: the text holds no control character but the line feed, no
// bidirectional control and nothing invisible, whatever a model, a guest or a
// server wrote; two different requests never look the same; a line that a
// stranger wrote begins with a bar, so that it cannot pass for one of ours; and
// nothing is left out: what is long is for the caller to page.
//
// The edge: letters that merely look alike are pointed out only where a word
// mixes scripts, and right-to-left letters in a diff stay letters, with a remark.
package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/tool"
)

// Kind says what a line is, for those who use colours.
type Kind uint8

const (
	Plain   Kind = iota
	Title        // what is asked
	Label        // what follows, and who wrote it
	Warning      // what a person should not overlook
	Quoted       // written by a stranger
	Added        // of a diff
	Removed      // of a diff
	Place        // of a diff: file names and positions
)

// Line is one row of text, without its line end.
type Line struct {
	Kind Kind
	Text string
}

// Text joins lines.
func Text(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Text)
		b.WriteByte('\n')
	}
	return b.String()
}

// Options for [Lines].
type Options struct {
	Width int       // columns that a row may take; 0: rows are not wrapped
	Now   time.Time // for how long is left; zero: only the time of day is told
	Offer bool      // also the rule that could be saved with the answer
}

// maxSummary is how many characters of a summary are shown in a list.
const maxSummary = 160

// Summary says in one line what a request is about. It is cut where it is long:
// [Lines] has all of it.
func Summary(r approval.Request) string {
	what := "run"
	p := r.Preview
	switch n := entries(p); {
	case n == 1:
		what = describe(p.Writes.Entries[0])
	case n > 1:
		// A directory that is made for a file says less than the file.
		first := max(0, slices.IndexFunc(p.Writes.Entries, func(w tool.Write) bool { return w.Op != tool.OpMkdir }))
		what = fmt.Sprintf("%s, and %d more", describe(p.Writes.Entries[first]), n-1)
	case p.Command != "" && p.Into != "":
		what = "type into " + Inline(p.Into) + ": " + Inline(p.Command)
	case p.Command != "":
		what = "run " + Inline(p.Command)
	case len(p.Hosts) > 0:
		what = "contact " + Inline(strings.Join(p.Hosts, ", "))
	case len(r.Arguments) > 0:
		what = Inline(string(r.Arguments))
	}
	s := []rune(Inline(r.Tool) + ": " + what)
	if len(s) > maxSummary {
		s = append(s[:maxSummary-1], '…')
	}
	return string(s)
}

func entries(p tool.Preview) int {
	if p.Writes == nil {
		return 0
	}
	return len(p.Writes.Entries)
}

// describe is one change of a write set in words, with its path as it is named
// below the root.
func describe(w tool.Write) string {
	switch w.Op {
	case tool.OpMove:
		s := "move " + Inline(w.From) + " to " + Inline(w.Path)
		if w.Replaced != (tool.Identity{}) {
			s += ", replacing what is there"
		}
		return s
	case tool.OpMkdir:
		return "make directory " + Inline(w.Path)
	case tool.OpDelete:
		what := "file"
		switch {
		case w.Mode.IsDir():
			what = "directory"
		case w.Mode&fs.ModeSymlink != 0:
			what = "link"
		}
		return "delete " + what + " " + Inline(w.Path)
	case tool.OpWrite:
		if w.Identity == (tool.Identity{}) {
			return "create " + Inline(w.Path)
		}
		return "change " + Inline(w.Path)
	}
	return Inline(string(w.Op)) + " " + Inline(w.Path)
}

// Lines is the whole of a request.
func Lines(r approval.Request, o Options) []Line {
	p := printer{width: o.Width}
	p.line(Title, Summary(r))
	// Few rows: the rest of a common request should fit on the screen with them.
	ticket := Inline(r.Ticket)
	if !r.Expires.IsZero() {
		ticket += ", expires " + r.Expires.Format("15:04:05")
		if !o.Now.IsZero() {
			ticket += " (in " + max(0, r.Expires.Sub(o.Now)).Round(time.Second).String() + ")"
		}
	}
	p.field("ticket", ticket)
	p.field("call", strings.TrimSpace(Inline(r.CallID)+" of session "+Inline(r.Session)))
	p.field("tool", fmt.Sprintf("%s (%s): %s", Inline(r.Tool), Inline(string(r.Source)), Inline(strings.Join(r.Effects.Strings(), ", "))))
	p.field("module", hex(r.Module))
	p.field("root", Inline(r.Root))
	p.field("rule", ruleText(r.Asked))
	if r.InPerson {
		p.field("answer", "only by a person at a terminal")
	}
	p.field("input", hex(r.Input))
	if r.Preview.Binding != r.Input {
		p.field("binds", hex(r.Preview.Binding))
	}
	p.effects(r)
	if o.Offer && r.Offer != nil {
		p.label("Rule that could be saved with a yes, id " + Inline(r.Offer.ID) + ":")
		p.lines = append(p.lines, Rule(*r.Offer, o.Width)...)
	}
	p.remarks(r)
	return p.lines
}

// Rule is the text of a rule, to the byte but for what could not be seen.
func Rule(r approval.Rule, width int) []Line {
	p := printer{width: width}
	p.quoteAll(command(strings.TrimSuffix(r.TOML, "\n")))
	return p.lines
}

// hex is a digest without the name of its kind, which would make it wider than
// most terminals.
func hex(d tool.Digest) string {
	rest, sha256 := strings.CutPrefix(string(d), "sha256:")
	if !sha256 {
		return Inline(string(d))
	}
	return "SHA-256 " + Inline(rest)
}

func ruleText(a approval.RuleRef) string {
	s := Inline(a.ID)
	if a.File != "" {
		s += fmt.Sprintf(" (%s:%d)", Inline(a.File), a.Line)
	}
	if a.Why != "" {
		s += ": " + Inline(a.Why)
	}
	return s
}

// effects is what would happen.
func (p *printer) effects(r approval.Request) {
	v := r.Preview
	if n := entries(v); n > 0 {
		p.label("Changes, with their real paths (found out by the host):")
		for _, w := range v.Writes.Entries {
			p.change(r.Root, w)
		}
	}
	if len(v.Protected) > 0 {
		p.warn("a yes covers protected paths, whose content may run or change what is allowed later:")
		for _, l := range v.Protected {
			text := Inline(real(r.Root, l.Path)) + " (list " + Inline(l.Rule)
			if l.Where != "" {
				text += ", " + Inline(l.Where)
			}
			p.quoteAll(text + ")")
		}
	}
	if v.Diff != "" {
		p.label("Diff of all of it (made by the host; the new text comes from " + author(r) + "):")
		for line := range strings.Lines(v.Diff) {
			p.quote(diffKind(line), Block(strings.TrimSuffix(line, "\n")))
		}
	}
	if v.Command != "" {
		if v.Into == "" {
			p.label("Command as it will run (written by " + author(r) + "):")
		} else {
			p.label("Text as it will be typed (written by " + author(r) + "):")
		}
		p.quoteAll(command(v.Command))
	}
	if v.Into != "" {
		p.field("into", Inline(v.Into))
	}
	if v.Cwd != "" {
		p.field("in", Inline(v.Cwd))
	}
	if v.Profile != "" {
		p.field("sandbox", Inline(v.Profile))
	}
	if v.Timeout > 0 {
		p.field("killed", "after "+v.Timeout.String())
	}
	if len(v.Env) > 0 {
		p.label("Environment that is changed for it (written by " + author(r) + "):")
		for _, k := range slices.Sorted(maps.Keys(v.Env)) {
			p.quoteAll(Inline(k) + "=" + Inline(v.Env[k]))
		}
	}
	if len(v.Hosts) > 0 {
		p.label("Hosts that it may reach:")
		for _, h := range v.Hosts {
			p.quoteAll(Inline(h))
		}
	}
	if args := bytes.TrimSpace(r.Arguments); len(args) > 0 && string(args) != "{}" && v.Command == "" && v.Diff == "" {
		p.label("Arguments (written by the model):")
		p.quoteAll(Block(indent(args)))
	}
}

// author is whose words a text is.
func author(r approval.Request) string {
	switch {
	case r.Source == tool.Builtin, r.Source == tool.Native, r.Source == "":
		return "the model"
	case r.Module != "":
		return "the model and the " + Inline(string(r.Source)) + " module"
	}
	return "the model and the " + Inline(string(r.Source)) + " tool"
}

// change is one entry of a write set.
func (p *printer) change(root string, w tool.Write) {
	v := w
	v.Path = real(root, w.Path)
	if w.From != "" {
		v.From = real(root, w.From)
	}
	s := describe(v)
	if w.Op == tool.OpWrite {
		s += fmt.Sprintf(", then %s of mode %04o", byteCount(w.Size), w.Mode.Perm())
		if special := w.Mode & (fs.ModeSetuid | fs.ModeSetgid); special != 0 {
			p.warn("the file runs with the rights of its owner or group (setuid, setgid)")
		}
	}
	p.quoteAll(s)
}

// real is the real path of a path below the root.
func real(root, path string) string {
	if root == "" {
		return path
	}
	return filepath.Join(root, filepath.FromSlash(path))
}

func byteCount(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// indent lays JSON out; what is no JSON stays.
func indent(p []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, p, "", "  "); err != nil {
		return string(p)
	}
	return b.String()
}

func diffKind(line string) Kind {
	switch {
	case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "@@ "):
		return Place
	case strings.HasPrefix(line, "+"):
		return Added
	case strings.HasPrefix(line, "-"):
		return Removed
	}
	return Quoted
}

// remarks point out what the eye misses.
func (p *printer) remarks(r approval.Request) {
	v := r.Preview
	values := append([]string{v.Command, v.Cwd, v.Into}, v.Hosts...)
	for k, e := range v.Env {
		values = append(values, k, e)
	}
	for i := range entries(v) {
		values = append(values, v.Writes.Entries[i].Path, v.Writes.Entries[i].From)
	}
	if slices.ContainsFunc(values, mixed) {
		p.warn("a word mixes letters of different scripts that look alike")
	}
	texts := append(values, v.Diff, string(r.Arguments))
	if slices.ContainsFunc(texts, func(s string) bool { return strings.ContainsFunc(s, isHidden) }) {
		p.warn("the text holds invisible or control characters; they are shown as " + string(opening) + "names" + string(closing))
	}
	if strings.ContainsFunc(v.Diff+string(r.Arguments), isRightToLeft) {
		p.warn("the text holds right-to-left letters; a terminal may show a line in another order")
	}
	if i := strings.LastIndex(v.Diff, "\n... diff cut: "); i >= 0 && strings.Count(v.Diff[i+1:], "\n") <= 1 {
		p.warn("the diff is cut at its end; a yes covers what is not shown too")
	}
}

// isHidden is what a remark is worth: tabs and the line ends of other systems
// are common.
func isHidden(r rune) bool { return r != '\n' && r != '\t' && r != '\r' && invisible(r) }
