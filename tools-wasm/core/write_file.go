package main

import (
	"strings"
	"unicode/utf8"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

func writeFile(c *guest.Call) (guest.Result, error) {
	a := c.Args
	path, text := a.Get("path").TextOr(""), a.Get("content").TextOr("")
	overwrite, dry := a.Get("overwrite").BoolOr(false), a.Get("dry_run").BoolOr(false)
	if err := noScheme(path); err != nil {
		return guest.Result{}, err
	}
	wanted := a.Get("encoding").TextOr("")
	if w := strings.ToLower(wanted); w != "" && w != "utf-8" && w != "utf8" {
		return guest.Result{}, guest.FailPath(guest.Encoding, path, "files cannot be written in "+guest.QuotePath(clip(wanted, 40))+" yet").
			WithNext(`leave encoding away to keep that of an existing file, or use "utf-8"`)
	}
	old, err := oldFile(c, path, a.Get("expected_sha256").TextOr(""))
	if err != nil {
		return guest.Result{}, err
	}
	data, note := []byte(text), ""
	if old.exists && overwrite {
		if wanted == "" && old.enc != utf8Plain {
			// Keep how the file was, unless the new text brings its own mark.
			data = old.enc.encode(strings.TrimPrefix(text, "\ufeff"))
			note = "kept " + old.enc.String()
		} else if !old.enc.wide() && !old.valid {
			note = "the file was no UTF-8 before; it is now"
		}
	}
	change, err := c.WriteFile(path, data, overwrite)
	if err != nil {
		return guest.Result{}, err
	}
	verb := "overwrote"
	if change.Created {
		verb = "created"
	}
	head := verb + " " + guest.QuotePath(change.Path) + ": " + count(lineCount(text), "line") + ", " + count(change.Bytes, "byte") +
		", sha256 " + change.SHA256
	if note != "" {
		head += " (" + note + ")"
	}
	return finish(c, head, dry, guest.F("path", change.Path), guest.F("created", change.Created),
		guest.F("bytes", change.Bytes), guest.F("sha256", change.SHA256))
}

func lineCount(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// before is what is known of a file that is to be overwritten.
type before struct {
	exists bool
	enc    encoding
	valid  bool // as far as was looked: all of it if a digest was compared, else the sample
}

// oldFile looks at the file that path names, if there is one, and compares it
// with the digest that the caller expects of it, if that is not empty. What the
// write itself finds wrong (a directory, no right to read) it leaves to it.
func oldFile(c *guest.Call, path, expected string) (before, error) {
	var b before
	var head []byte
	if expected == "" {
		head = make([]byte, sampleBytes)
		n, err := c.ReadAt(path, head, 0)
		if guest.CodeOf(err) != "" && !isEnd(err) {
			return b, nil
		}
		head = head[:n]
	} else {
		p, err := c.ReadFile(path, wholeBytes)
		if guest.CodeOf(err) == guest.NotFound {
			return b, guest.FailPath(guest.Stale, path, "the file that expected_sha256 speaks of does not exist").
				WithNext("leave expected_sha256 away to create it")
		}
		if err != nil {
			return b, err
		}
		if got := sha256hex(p); !strings.EqualFold(strings.TrimPrefix(expected, "sha256:"), got) {
			return b, guest.FailPath(guest.Stale, path, "the file's sha256 is "+got+", not the expected one").
				With(guest.F("sha256", got))
		}
		head = p
	}
	b.exists = true
	b.enc = encodingOf(head)
	b.valid = utf8.Valid(head) || expected == "" && len(head) == sampleBytes && utf8.Valid(wholeRunes(head))
	return b, nil
}

// wholeRunes leaves away a rune that the end of p cuts in two.
func wholeRunes(p []byte) []byte {
	for back := 1; back <= utf8.UTFMax && back <= len(p); back++ {
		if i := len(p) - back; utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return p[:i]
			}
			break
		}
	}
	return p
}

// finish answers an edit with head and the diff; a dry run forgets the change.
func finish(c *guest.Call, head string, dry bool, details ...guest.Field) (guest.Result, error) {
	diff, err := c.Diff(diffBytes)
	if err != nil {
		return guest.Result{}, err
	}
	if dry {
		if err := c.Discard(); err != nil {
			return guest.Result{}, err
		}
		head = "dry run, nothing was changed: would have " + head
		details = append(details, guest.F("dry_run", true))
	}
	text := head + "\n"
	if diff != "" {
		text += "\n" + diff
	}
	return guest.Text(text).WithDetails(details...), nil
}
