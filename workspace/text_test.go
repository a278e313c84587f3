package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// TestDiffOfHuge: a file too large to digest is not "nothing", and one byte is not
// "1 bytes".
func TestDiffOfHuge(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("huge = x", "bin = a\x00b", "empty = ")
		must(t, os.Truncate(b.W+"/huge", maxHashBytes+1))
		o := b.overlay()
		write(t, o, "huge", "x")
		write(t, o, "bin", "\x00")
		write(t, o, "new", "n\x00w")
		d := o.Diff(0)
		for _, want := range []string{
			"large file huge: now 1 byte (sha256:", "), before 268435457 bytes, too large to digest\n",
			"binary file bin: now 1 byte (sha256:", "), before 3 bytes (sha256:",
			"binary file new: now 3 bytes (sha256:", "), before nothing\n",
		} {
			if !strings.Contains(d, want) {
				t.Errorf("diff lacks %q:\n%s", want, d)
			}
		}
		if strings.Count(d, "nothing") != 1 {
			t.Errorf("something is called nothing:\n%s", d)
		}
	})
}

// TestWordsOfKinds: refusals name the kind of what stands there in words, and
// advise nothing that cannot work.
func TestWordsOfKinds(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = x", "g = y", "d/", "e/", "out => /")
		o := b.overlay()
		list := func(path string) error {
			_, err := o.List(t.Context(), path, ListOptions{})
			return err
		}
		type refusal struct {
			err              error
			code             tool.Code
			want, mustNot    string
			wantNext, noNext string
		}
		cases := []refusal{
			{list("f"), tool.NotRegular, "a file, not a directory", "", "read it", ""},
			{second(o.Rename(t.Context(), "d", "e", true)), tool.Exists, "a directory cannot replace a directory", "dir ", "", ""},
			{second(o.Rename(t.Context(), "f", "e", false)), tool.Exists, "a directory of this name", "dir ", "", ""},
			{o.Mkdir(t.Context(), "f"), tool.Exists, "a file of this name", "", "", ""},
		}
		if makeFIFO(b.W+"/fifo") == nil {
			cases = append(cases, refusal{list("fifo"), tool.NotRegular, "a device, FIFO or socket, not a directory", "other", "list the directory", "read it"})
		}
		for _, c := range cases {
			wantCode(t, c.err, c.code)
			s := c.err.Error()
			if !strings.Contains(s, c.want) || c.mustNot != "" && strings.Contains(s, c.mustNot) ||
				!strings.Contains(s, c.wantNext) || c.noNext != "" && strings.Contains(s, c.noNext) {
				t.Errorf("%q; want %q and %q, not %q nor %q", s, c.want, c.wantNext, c.mustNot, c.noNext)
			}
		}
	})
}

// TestStateFolder: the person who starts the program is told what the folder is.
func TestStateFolder(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/file", nil, 0o600))
	w, err := Open(dir, Options{StateDir: filepath.Join(dir, "file", "state")})
	if err == nil {
		w.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "state folder") {
		t.Errorf("open = %v; want it to name the state folder", err)
	}
	w, err = Open(dir, Options{StateDir: filepath.Join(dir, "state")})
	must(t, err)
	w.Close()
}
