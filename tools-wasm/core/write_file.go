package main

import (
	"io"
	"strings"
	"unicode/utf8"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

func writeFile(c *guest.Call) (guest.Result, error) {
	a := c.Args
	path, text := a.Get("path").TextOr(""), a.Get("content").TextOr("")
	overwrite, dry := a.Get("overwrite").BoolOr(false), a.Get("dry_run").BoolOr(false)
	if err := checkPaths(a, "path"); err != nil {
		return guest.Result{}, err
	}
	lines := lineCount(text)
	wanted := a.Get("encoding").TextOr("")
	if expected := a.Get("expected_sha256").TextOr(""); expected != "" {
		err := checkDigest(c, path, expected)
		if guest.CodeOf(err) == guest.NotFound {
			err = guest.FailPath(guest.Stale, path, "the file that expected_sha256 speaks of does not exist").
				WithNext("leave expected_sha256 away to create it")
		}
		if err != nil {
			return guest.Result{}, err
		}
	}
	change, err := c.WriteTextIn(path, text, wanted, overwrite)
	if err != nil {
		return guest.Result{}, err
	}
	verb := "overwrote"
	switch {
	case change.Created:
		verb = "created"
	case dry:
		verb = "overwritten" // after "would have"
	}
	head := verb + " " + quoted(change.Path) + ": " + count(lines, "line") + ", " + count(change.Bytes, "byte") +
		", sha256 " + change.SHA256
	d := []guest.Field{
		guest.F("path", named(change.Path)), guest.F("created", change.Created),
		guest.F("bytes", change.Bytes), guest.F("sha256", change.SHA256),
	}
	if change.Encoding != "" {
		word := "in "
		if wanted == "" {
			word = "kept "
		}
		head += " (" + word + change.Encoding + ")"
		d = append(d, guest.F("encoding", change.Encoding))
	}
	return finish(c, head, dry, d...)
}

func lineCount(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// checkDigest compares the file with the digest that the caller expects of it.
func checkDigest(c *guest.Call, path, expected string) error {
	sum := newDigest()
	buf := make([]byte, pieceBytes)
	for off := int64(0); ; {
		n, err := c.ReadAt(path, buf, off)
		if err != nil && err != io.EOF {
			return err
		}
		sum.write(buf[:n])
		off += int64(n)
		if err == io.EOF {
			break
		}
		if off > hashBytes {
			return guest.FailPath(guest.TooLarge, path, "expected_sha256 is compared with files of up to "+itoa(hashBytes>>20)+" MiB")
		}
	}
	if got := sum.hex(); !strings.EqualFold(strings.TrimPrefix(expected, "sha256:"), got) {
		return guest.FailPath(guest.Stale, path, "the file's sha256 is "+got+", not the expected one").
			With(guest.F("sha256", got))
	}
	return nil
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
