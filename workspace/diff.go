package workspace

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"unicode"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace/charset"
)

func isPrint(r rune) bool { return unicode.IsPrint(r) }

const (
	diffContext = 3
	binaryLook  = 8000 // bytes in which a NUL makes a file binary, as git has it
)

// Diff is a unified diff of everything that is pending, of about max bytes at
// most (0: no limit), cut at a line end and marked. Binary files, files above
// 1 MiB and old content that the call may not read are summed up.
//
// What was loaded and not changed since is left out, see [Overlay.DiffAll].
func (o *Overlay) Diff(max int) string { return o.diff(max, false) }

// DiffAll is Diff with what was loaded.
func (o *Overlay) DiffAll(max int) string { return o.diff(max, true) }

func (o *Overlay) diff(max int, loaded bool) string {
	var b strings.Builder
	for i, c := range o.ops {
		if c.loaded && !loaded {
			continue
		}
		if max > 0 && b.Len() > max {
			fmt.Fprintf(&b, "... %d more changes\n", len(o.ops)-i)
			break
		}
		c.diff(&b)
	}
	return cutLines(b.String(), max)
}

func cutLines(s string, max int) string {
	if max <= 0 || len(s) <= max {
		return s
	}
	mark := func(kept int) string {
		return fmt.Sprintf("... diff cut: %d of %d lines left out\n", strings.Count(s[kept:], "\n"), strings.Count(s, "\n"))
	}
	room := max - len(mark(0))
	if room < 0 {
		room = 0
	}
	end := strings.LastIndexByte(s[:room], '\n') + 1
	return s[:end] + mark(end)
}

func (c *change) diff(b *strings.Builder) {
	name := tool.QuotePath(c.Path)
	switch c.Op {
	case tool.OpMkdir:
		fmt.Fprintf(b, "create directory %s\n", name)
	case tool.OpMove:
		fmt.Fprintf(b, "rename from %s\nrename to %s\n", tool.QuotePath(c.From), name)
	case tool.OpDelete:
		if c.Permanent {
			fmt.Fprintf(b, "delete permanently %s\n", name)
		}
		switch {
		case c.Mode.IsDir():
			fmt.Fprintf(b, "delete directory %s\n", name)
		case c.Mode&fs.ModeSymlink != 0:
			fmt.Fprintf(b, "delete link %s\n", name)
		case c.before == nil || isBinary(c.before, c.encoding):
			fmt.Fprintf(b, "delete %s\n", name)
		default:
			unified(b, "a/"+c.Path, "/dev/null", c.before, nil, c.encoding)
		}
	case tool.OpWrite:
		isNew := c.Identity == tool.Identity{}
		switch {
		case c.Mode&fs.ModeSymlink != 0: // of an undo
			fmt.Fprintf(b, "create link %s\n", name)
		case !isNew && c.Before == c.After:
			fmt.Fprintf(b, "no change in %s\n", name)
		case c.hidden:
			fmt.Fprintf(b, "replace %s by %s (%s); the call may not read what it holds\n", name, byteCount(c.Size), c.After)
		case !isNew && c.before == nil, c.Size > maxDiffBytes, c.Size > int64(len(c.Blob)):
			fmt.Fprintf(b, "large file %s: now %s (%s), before %s\n", name, byteCount(c.Size), c.After, c.was())
		case isBinary(c.before, c.encoding) || isBinary(c.Blob, c.encoding):
			fmt.Fprintf(b, "binary file %s: now %s (%s), before %s\n", name, byteCount(c.Size), c.After, c.was())
		case isNew:
			unified(b, "/dev/null", "b/"+c.Path, nil, c.Blob, c.encoding)
		default:
			unified(b, "a/"+c.Path, "b/"+c.Path, c.before, c.Blob, c.encoding)
		}
	}
}

// was says what a write replaces.
func (c *change) was() string {
	switch {
	case c.Identity == tool.Identity{}:
		return "nothing"
	case c.Before == "":
		return byteCount(c.size) + ", too large to digest"
	}
	return fmt.Sprintf("%s (%s)", byteCount(c.size), c.Before)
}

func byteCount(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

func isBinary(p []byte, known charset.Encoding) bool {
	if bytes.IndexByte(p[:min(len(p), binaryLook)], 0) < 0 {
		return false
	}
	_, e := shown(p, known)
	return !e.Wide()
}

// shown is what a file's bytes look like as text. They are shown in the encoding
// in which the change is written, if they fit, else in the one they are in; what
// is none becomes U+FFFD.
func shown(p []byte, known charset.Encoding) (string, charset.Encoding) {
	none := charset.Encoding{}
	if known == none || known.Name() == charset.UTF8.Name() {
		known = none // what fits UTF-8 is detected as such
	} else if text, err := known.Decode(p); err == nil {
		return strings.TrimPrefix(string(text), charset.Mark), known
	}
	if e, err := charset.Detect(p); err == nil {
		if text, err := e.Decode(p); err == nil {
			if e.Wide() {
				text = bytes.TrimPrefix(text, bom)
			}
			return string(text), e
		}
	}
	return strings.ToValidUTF8(string(p), "\ufffd"), none
}

func unified(b *strings.Builder, from, to string, old, new []byte, known charset.Encoding) {
	x, was := shown(old, known)
	y, is := shown(new, known)
	from, to = tool.QuotePath(from), tool.QuotePath(to)
	if x == y {
		fmt.Fprintf(b, "--- %s\n+++ %s\n", from, to)
		switch {
		case len(old)+len(new) == 0:
		case was != is && was != (charset.Encoding{}) && is != (charset.Encoding{}):
			fmt.Fprintf(b, "(only the encoding differs: %s, before %s)\n", is, was)
		default:
			b.WriteString("(only bytes that are not UTF-8 differ)\n")
		}
		return
	}
	text, err := udiff.ToUnified(from, to, x, udiff.Lines(x, y), diffContext)
	if err != nil {
		fmt.Fprintf(b, "--- %s\n+++ %s\n(no diff: %v)\n", from, to, err)
		return
	}
	b.WriteString(text)
}
