package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
	"github.com/wasmtools/wasmtools/guest-sdk/guesttest"
)

func sum(s string) string {
	d := sha256.Sum256([]byte(s))
	return hex.EncodeToString(d[:])
}

func TestWriteFile(t *testing.T) {
	for _, c := range []struct {
		name, before string // before "-": no file
		args         string
		after, says  string
	}{
		{"new", "-", args("path", "f", "content", "a\nb"), "a\nb", "created f: 2 lines, 3 bytes, sha256 " + sum("a\nb")},
		{"empty", "-", args("path", "f", "content", ""), "", "created f: 0 lines, 0 bytes"},
		{"overwrite", "x\n", args("path", "f", "content", "y\n", "overwrite", true), "y\n", "overwrote f: 1 line, 2 bytes"},
		{"keeps a byte order mark", "\xef\xbb\xbfx", args("path", "f", "content", "y", "overwrite", true), "\xef\xbb\xbfy", "kept UTF-8 with a byte order mark"},
		{"no second mark", "\xef\xbb\xbfx", args("path", "f", "content", "\ufeffy", "overwrite", true), "\xef\xbb\xbfy", ""},
		{"asked for UTF-8", "\xff\xfex\x00", args("path", "f", "content", "y", "overwrite", true, "encoding", "utf-8"), "y", "overwrote"},
		{"expected", "x\n", args("path", "f", "content", "y", "overwrite", true, "expected_sha256", sum("x\n")), "y", "overwrote"},
		{"expected with its name", "x\n", args("path", "f", "content", "y", "overwrite", true, "expected_sha256", "sha256:"+strings.ToUpper(sum("x\n"))), "y", "overwrote"},
		{"dry run", "x\n", args("path", "f", "content", "y\n", "overwrite", true, "dry_run", true), "x\n", "dry run, nothing was changed: would have overwritten f"},
		{"characters pass unchanged", "-", args("path", "f", "content", "d’accord “x” — \u00a0end\r\n"), "d’accord “x” — \u00a0end\r\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := guesttest.New()
			if c.before != "-" {
				h.Put("f", c.before)
			}
			r := h.Call("write_file", c.args)
			if r.IsError || !strings.Contains(r.Text(), c.says) {
				t.Errorf("error %v, text %q; want %q in it", r.IsError, r.Text(), c.says)
			}
			if got := h.Text("f"); got != c.after {
				t.Errorf("the file holds %q, want %q", got, c.after)
			}
			if d := r.Details(); d["path"] != "f" || d["sha256"] == "" {
				t.Errorf("details %v", d)
			}
		})
	}
}

func TestWriteFileRefuses(t *testing.T) {
	h := guesttest.New()
	h.Put("f", "x\n")
	h.Put("d/x", "")
	id := "artifact:" + strings.Repeat("a", 26)
	for _, c := range []struct {
		name string
		args string
		code guest.Code
	}{
		{"exists", args("path", "f", "content", "y"), guest.Exists},
		{"other digest", args("path", "f", "content", "y", "overwrite", true, "expected_sha256", sum("z")), guest.Stale},
		{"digest of nothing", args("path", "new", "content", "y", "expected_sha256", sum("z")), guest.Stale},
		{"directory", args("path", "d", "content", "y", "overwrite", true), guest.NotRegular},
		{"encoding", args("path", "new", "content", "y", "encoding", "latin1"), guest.Encoding},
		{"artifact", args("path", id, "content", "y"), guest.InvalidArguments},
		{"skill", args("path", "skill:x/y", "content", "y"), guest.InvalidArguments},
		{"no change", args("path", "f", "content", "x\n", "overwrite", true), guest.NoChange},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantError(t, h.Call("write_file", c.args), c.code)
			if h.Text("f") != "x\n" || len(h.Files) != 2 {
				t.Errorf("the workspace changed: %v", h.Files)
			}
		})
	}
	if r := h.Call("write_file", args("path", "./"+id, "content", "y")); r.IsError {
		t.Errorf("a real file of that name: %s", r.Text())
	}
}

func TestReplaceBlock(t *testing.T) {
	for _, c := range []struct {
		name, before string
		args         string
		after, says  string
	}{
		{"one", "a\nb\nc\n", args("path", "f", "old", "b", "new", "B"), "a\nB\nc\n", "replaced 1 place in f, now line 2; sha256 "},
		{"remove", "a\nDROP\nb\n", args("path", "f", "old", "DROP\n", "new", ""), "a\nb\n", "replaced 1 place"},
		{"patterns are text", "price: PLACE\n", args("path", "f", "old", "PLACE", "new", "a $' $& \\1 %s b"), "price: a $' $& \\1 %s b\n", ""},
		{"all", "x x\nx\n", args("path", "f", "old", "x", "new", "y", "replace_all", true), "y y\ny\n", "replaced 3 places in f, now lines 1, 1, 2"},
		{"several", "a\nb\nc\n", args("path", "f", "edits", []obj{{"old": "a", "new": "b"}, {"old": "b", "new": "c"}}), "b\nc\nc\n", "replaced 2 places"},
		{"pasted numbers", "a\nb\nc\n", args("path", "f", "old", "1\ta\n2\tb", "new", "1\tA\n2\tB"), "A\nB\nc\n", "the line numbers before the pasted text were left out"},
		{"pasted numbers, plain new text", "a\nb\nc\n", args("path", "f", "old", "2\tb\n3\tc\n", "new", "x\n"), "a\nx\n", "were left out"},
		{"pasted numbers, renumbered", "a\nb\n", args("path", "f", "old", "1\ta", "new", "1\ta\n1\tz"), "a\nz\nb\n", "were left out"},
		{"numbers that are in the file", "1\ta\n2\tb\n", args("path", "f", "old", "1\ta\n2\tb", "new", "x"), "x\n", "replaced 1 place"},
		{"numbers in one edit of two", "a\n2\tb\n", args("path", "f", "edits", []obj{{"old": "1\ta", "new": "1\tA"}, {"old": "2\tb", "new": "B"}}), "A\nB\n", "were left out"},
		{"CRLF and pasted numbers", "a\r\nb\r\n", args("path", "f", "old", "1\ta\n2\tb", "new", "x\ny"), "x\r\ny\r\n", "were left out"},
		{"LF in a CRLF file is told", "a\r\nb\r\n", args("path", "f", "old", "b", "new", "b\nc"), "a\r\nb\r\nc\r\n", "(line ends of new written as CRLF, as in the file)"},
		{"CRLF to the byte", "a\r\nb\r\n", args("path", "f", "old", "a\r\nb\r\n", "new", "a\nb\n"), "a\nb\n", "replaced 1 place"},
		{"dry run", "a\n", args("path", "f", "old", "a", "new", "b", "dry_run", true), "a\n", "dry run, nothing was changed"},
		{"expected", "a\n", args("path", "f", "old", "a", "new", "b", "expected_sha256", sum("a\n")), "b\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := guesttest.New()
			h.Put("f", c.before)
			r := h.Call("replace_block", c.args)
			if r.IsError || !strings.Contains(r.Text(), c.says) {
				t.Errorf("error %v, text %q; want %q in it", r.IsError, r.Text(), c.says)
			}
			if !strings.Contains(r.Text(), "\n--- a/f\n+++ b/f\n") {
				t.Errorf("no diff in %q", r.Text())
			}
			if got := h.Text("f"); got != c.after {
				t.Errorf("the file holds %q, want %q", got, c.after)
			}
		})
	}
}

func TestReplaceBlockInSeveralFiles(t *testing.T) {
	h := guesttest.New()
	h.Put("a", "one\ntwo\n")
	h.Put("d/b", "one\r\n")
	edits := []obj{{"old": "one", "new": "1"}, {"path": "d/b", "old": "one", "new": "1"}, {"path": "a", "old": "two", "new": "2"}}
	r := h.Call("replace_block", args("path", "a", "edits", edits))
	if r.IsError || !strings.HasPrefix(r.Text(), "changed 2 files\nreplaced 2 places in a, now lines 1, 2; sha256 ") || !strings.Contains(r.Text(), "\nreplaced 1 place in d/b") {
		t.Errorf("%s", r.Text())
	}
	if h.Text("a") != "1\n2\n" || h.Text("d/b") != "1\r\n" {
		t.Errorf("a holds %q, d/b %q", h.Text("a"), h.Text("d/b"))
	}
	if files, ok := r.Details()["files"].([]any); !ok || len(files) != 2 {
		t.Errorf("details %v", r.Details())
	}
	r = h.Call("replace_block", args("edits", []obj{{"path": "d/b", "old": "1", "new": "one"}}))
	if r.IsError || !strings.HasPrefix(r.Text(), "replaced 1 place in d/b") || r.Details()["path"] != "d/b" {
		t.Errorf("one file named in its edit: %s", r.Text())
	}
	// The host drops what a call changed that fails: here it is the guest's order
	// that counts, the first file is not the last word.
	r = h.Call("replace_block", args("edits", []obj{{"path": "a", "old": "1", "new": "x"}, {"path": "./a", "old": "2", "new": "y"}}))
	wantError(t, r, guest.InvalidArguments, "in two ways")
}

func TestReplaceBlockRefuses(t *testing.T) {
	for _, c := range []struct {
		name, before string
		args         string
		code         guest.Code
		says         string
	}{
		{"two forms", "a", args("path", "f", "old", "a", "new", "b", "edits", []obj{{"old": "a", "new": "b"}}), guest.SchemaInvalid, "$.old: cannot stand beside edits"},
		{"no form", "a", args("path", "f"), guest.SchemaInvalid, "$.new: missing"},
		{"no path", "a", args("old", "a", "new", "b"), guest.SchemaInvalid, "$.path: missing"},
		{"an edit without a path", "a", args("edits", []obj{{"path": "f", "old": "a", "new": "b"}, {"old": "a", "new": "b"}}), guest.SchemaInvalid, "$.edits[1].path: missing"},
		{"a digest of two files", "a", args("path", "f", "edits", []obj{{"old": "a", "new": "b"}, {"path": "g", "old": "a", "new": "b"}}, "expected_sha256", sum("a")), guest.SchemaInvalid, "$.expected_sha256: is for edits of one file"},
		{"the second file does not exist", "a", args("path", "f", "edits", []obj{{"old": "a", "new": "b"}, {"path": "g", "old": "a", "new": "b"}}), guest.NotFound, "g"},
		{"one file in two ways", "ab", args("edits", []obj{{"path": "f", "old": "a", "new": "b"}, {"path": "./f", "old": "a", "new": "b"}}), guest.NoMatch, ""},
		{"a handle", "a", args("edits", []obj{{"path": "artifact:" + strings.Repeat("a", 26), "old": "a", "new": "b"}}), guest.InvalidArguments, "handle"},
		{"half a form", "a", args("path", "f", "old", "a"), guest.SchemaInvalid, "$.new: missing"},
		{"no edits", "a", args("path", "f", "edits", []obj{}), guest.SchemaInvalid, "$.edits: is empty"},
		{"empty old", "a", args("path", "f", "old", "", "new", "b", "replace_all", true), guest.InvalidArguments, "old is empty"},
		{"empty old in edits", "a", args("path", "f", "edits", []obj{{"old": "a", "new": "b"}, {"old": "", "new": "b"}}), guest.InvalidArguments, "old is empty"},
		{"twice", "abab", args("path", "f", "old", "ab", "new", "b"), guest.NotUnique, "2 times"},
		{"overlapping", "ababab", args("path", "f", "old", "abab", "new", "b"), guest.NotUnique, "2 times"},
		{"not there", "a", args("path", "f", "old", "z", "new", "b"), guest.NoMatch, ""},
		{"CRLF in an LF file", "a\nb\n", args("path", "f", "old", "a\r\nb", "new", "x"), guest.NoMatch, ""},
		{"numbers with a gap", "a\nb\nc\n", args("path", "f", "old", "1\ta\n3\tb", "new", "x"), guest.NoMatch, ""},
		{"numbers on some lines", "a\nb\n", args("path", "f", "old", "1\ta\nb", "new", "x"), guest.NoMatch, ""},
		{"numbers, and still not there", "a\n", args("path", "f", "old", "1\tz", "new", "x"), guest.NoMatch, ""},
		{"same", "a", args("path", "f", "old", "a", "new", "a"), guest.NoChange, ""},
		{"other digest", "a", args("path", "f", "old", "a", "new", "b", "expected_sha256", sum("z")), guest.Stale, sum("a")},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := guesttest.New()
			h.Put("f", c.before)
			wantError(t, h.Call("replace_block", c.args), c.code, c.says)
			if got := h.Text("f"); got != c.before {
				t.Errorf("the file holds %q, want %q", got, c.before)
			}
		})
	}
	h := guesttest.New()
	h.Put("f", "a\n")
	r := h.Call("replace_block", args("path", "f", "old", "1\tz", "new", "x"))
	if strings.Contains(r.Text(), "number") {
		t.Errorf("after a failed retry the first error is due, got %q", r.Text())
	}
}

func TestDeleteAndMove(t *testing.T) {
	h := guesttest.New()
	h.Put("a", "1")
	h.Put("d/x", "2")
	h.Put("d/e/y", "3")
	wantError(t, h.Call("delete_path", args("path", "d")), guest.NotRegular, "recursive")
	wantError(t, h.Call("delete_path", args("path", "")), guest.InvalidArguments)
	wantError(t, h.Call("delete_path", args("path", "nope")), guest.NotFound)
	wantError(t, h.Call("move_path", args("from", "a", "to", "d/x")), guest.Exists)
	wantError(t, h.Call("move_path", args("from", "a", "to", "./a")), guest.NoChange)
	wantError(t, h.Call("move_path", args("from", "nope", "to", "x")), guest.NotFound)
	wantError(t, h.Call("move_path", args("from", "a", "to", "../x")), guest.OutsideRoot)
	wantError(t, h.Call("move_path", args("from", "a", "to", "skill:a/b")), guest.InvalidArguments)

	r := h.Call("delete_path", args("path", "d", "recursive", true, "dry_run", true))
	if r.IsError || !strings.HasPrefix(r.Text(), "dry run, nothing was changed: would have deleted d and everything in it, 2 names in all\n") || len(h.Files) != 3 {
		t.Errorf("dry run: %s; %d files left, want 3", r.Text(), len(h.Files))
	}
	r = h.Call("delete_path", args("path", "d", "recursive", true))
	if r.IsError || strings.Contains(r.Text(), "undo") || len(h.Files) != 1 {
		t.Errorf("delete: %s; %d files left, want 1", r.Text(), len(h.Files))
	}
	r = h.Call("move_path", args("from", "a", "to", "n/b", "dry_run", true))
	if r.IsError || h.Text("a") != "1" {
		t.Errorf("dry run of move: %s; a holds %q", r.Text(), h.Text("a"))
	}
	r = h.Call("move_path", args("from", "a", "to", "n/b"))
	if r.IsError || !strings.HasPrefix(r.Text(), "moved a to n/b\n") || h.Text("n/b") != "1" || h.Text("a") != "" {
		t.Errorf("move: %s", r.Text())
	}
	r = h.Call("delete_path", args("path", "n/b", "permanent", true))
	if r.IsError || !strings.Contains(r.Text(), "no undo brings it back") {
		t.Errorf("permanent: %s", r.Text())
	}
	if i := slices.Index(h.Calls, "fs_discard"); i < 0 {
		t.Error("no dry run discarded its changes")
	}
}

func TestDiffIsBounded(t *testing.T) {
	h := guesttest.New()
	r := h.Call("write_file", args("path", "f", "content", strings.Repeat("0123456789\n", 5000)))
	if n := len(r.Text()); r.IsError || n > diffBytes+1000 {
		t.Errorf("the answer has %d bytes; at most %d are due", n, diffBytes+1000)
	}
}

func TestSHA256(t *testing.T) {
	for n := range 300 {
		p := strings.Repeat("abc\x00\xff", n)[:n]
		for _, step := range []int{1, 7, 64, 1000} {
			s := newDigest()
			for rest := p; rest != ""; rest = rest[min(step, len(rest)):] {
				s.write([]byte(rest[:min(step, len(rest))]))
			}
			if got := s.hex(); got != sum(p) {
				t.Fatalf("sha256 of %d bytes = %s, want %s", n, got, sum(p))
			}
		}
	}
}

func FuzzStripNumbers(f *testing.F) {
	f.Add("a\nb\n", uint16(7))
	f.Add("1\tx", uint16(1))
	f.Fuzz(func(t *testing.T, text string, first uint16) {
		if text == "" || strings.HasPrefix(text, "\n") && first == 0 {
			return
		}
		var numbered strings.Builder
		i := int(first) + 1
		for l := range strings.Lines(text) {
			fmt.Fprintf(&numbered, "%d\t%s", i, l)
			i++
		}
		if got, ok := stripNumbers(numbered.String(), true); !ok || got != text {
			t.Fatalf("stripNumbers(%q) = %q, %v; want %q", numbered.String(), got, ok, text)
		}
	})
}
