//go:build unix

package skill_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wasmtools/wasmtools/skill"
	"github.com/wasmtools/wasmtools/tool"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const good = "---\nname: release\ndescription: How a release is made.\n---\n# Release\nRead notes.md first.\n"

// TestLoad: what is a skill is found, and what is faulty is told and harms nobody.
func TestLoad(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "release", skill.FileName), good)
	write(t, filepath.Join(dir, "other", skill.FileName), "\ufeff---\r\nname: other\r\ndescription: |\r\n  two\r\n  lines \u202eevil\r\n---\r\ntext")
	write(t, filepath.Join(outside, skill.FileName), strings.Replace(good, "release", "stolen", 1))
	for name, text := range map[string]string{
		"twice": good, "nofront": "# text", "open": "---\nname: x\n", "noname": "---\ndescription: x\n---\n", "nothing": "---\nname: nothing\n---\n",
		"bad-yaml": "---\nname: [\n---\n", "badname": "---\nname: Bad Name\ndescription: x\n---\n", "path": "---\nname: ../x\ndescription: x\n---\n",
		"bomb": "---\na: &a [x,x,x]\nb: &b [*a,*a,*a]\nname: bomb\ndescription: x\n---\n", "huge": "---\nname: huge\ndescription: x\n---\n" + strings.Repeat("x", 300<<10),
		"list": "---\n- a\n---\n",
	} {
		write(t, filepath.Join(dir, name, skill.FileName), text)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, skill.FileName), filepath.Join(dir, "inner", skill.FileName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "pipe"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe", skill.FileName), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a-file"), "no folder")
	s := skill.Load(dir, filepath.Join(dir, "missing"), filepath.Join(dir, "a-file"))
	defer s.Close()
	var names []string
	for _, x := range s.List() {
		names = append(names, x.Name+"|"+x.Description)
	}
	if got := strings.Join(names, "; "); got != "other|two lines evil; release|How a release is made." {
		t.Errorf("found %s", got)
	}
	if len(s.Faults) != 15 {
		for _, f := range s.Faults {
			t.Log(f)
		}
		t.Errorf("%d faults", len(s.Faults))
	}
	if !strings.Contains(s.Faults[0].String(), ":") {
		t.Errorf("%v", s.Faults)
	}
	x, ok := s.Find("release")
	if text, err := x.Text(); !ok || err != nil || text != "# Release\nRead notes.md first.\n" {
		t.Errorf("%q %v", text, err)
	}
	// What becomes a link later is not read either.
	if err := os.Remove(filepath.Join(dir, "release", skill.FileName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, skill.FileName), filepath.Join(dir, "release", skill.FileName)); err != nil {
		t.Fatal(err)
	}
	if text, err := x.Text(); tool.CodeOf(err) != tool.NotAvailable {
		t.Errorf("through a link: %q %v", text, err)
	}
}

// TestLargeFolder: what was not looked at is told.
func TestLargeFolder(t *testing.T) {
	dir := t.TempDir()
	for i := range 2001 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint("d", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if s := skill.Load(dir); len(s.Faults) != 1 || !strings.Contains(s.Faults[0].Why, "not all") {
		t.Errorf("%v", s.Faults)
	}
}

func TestNone(t *testing.T) {
	var s *skill.Set
	if len(s.Source().Snapshot().Tools) != 0 || len(skill.Load().Source().Snapshot().Tools) != 0 || s.Close() != nil {
		t.Error("there are skills without folders")
	}
}

func FuzzFront(f *testing.F) {
	f.Add(good)
	f.Add("---\n: [*a\n---\n")
	f.Add("---\nname: &a x\ndescription: *a\n---\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		write(t, filepath.Join(dir, "x", skill.FileName), text)
		s := skill.Load(dir)
		if len(s.List())+len(s.Faults) != 1 {
			t.Fatalf("%d skills, %v", len(s.List()), s.Faults)
		}
		for _, x := range s.List() {
			if x.Name == "" || x.Description == "" || strings.ContainsAny(x.Name+x.Description, "\n\x1b\u202e") || strings.Contains(x.Name, "/") {
				t.Fatalf("%q %q", x.Name, x.Description)
			}
		}
	})
}
