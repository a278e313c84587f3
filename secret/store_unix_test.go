//go:build unix

package secret

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

func TestModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "secrets")
	s := open(t, dir)
	set(t, s, "a", value)
	for name, want := range map[string]os.FileMode{".": os.ModeDir | 0o700, fileName: 0o600, lockName: 0o600} {
		fi, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || fi.Mode() != want {
			t.Errorf("mode of %s = %v, %v; want %v", name, fi.Mode(), err, want)
		}
	}
}

// TestTampering: each case is a store that a plain read would still serve.
func TestTampering(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(dir, outside string) error
		want   string
	}{
		"file open to the group":   {func(d, _ string) error { return os.Chmod(filepath.Join(d, fileName), 0o640) }, "open to others"},
		"file open to all":         {func(d, _ string) error { return os.Chmod(filepath.Join(d, fileName), 0o604) }, "open to others"},
		"folder open to all":       {func(d, _ string) error { return os.Chmod(d, 0o755) }, "open to others"},
		"folder writable by group": {func(d, _ string) error { return os.Chmod(d, 0o720) }, "open to others"},
		"file is a link outside": {func(d, o string) error {
			return firstError(os.Rename(filepath.Join(d, fileName), o), os.Symlink(o, filepath.Join(d, fileName)))
		}, "is a link"},
		"file is a link inside": {func(d, _ string) error {
			return firstError(os.Rename(filepath.Join(d, fileName), filepath.Join(d, "x")), os.Symlink("x", filepath.Join(d, fileName)))
		}, "is a link"},
		"file has a second name": {func(d, o string) error { return os.Link(filepath.Join(d, fileName), o) }, "second name"},
		"folder is a link": {func(d, o string) error {
			return firstError(os.Rename(d, o), os.Symlink(o, d))
		}, "link or a file"},
	} {
		base := t.TempDir()
		dir, outside := filepath.Join(base, "secrets"), filepath.Join(base, "outside")
		s := open(t, dir)
		set(t, s, "a", value)
		if err := c.tamper(dir, outside); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile(filepath.Join(dir, fileName)); err != nil {
			t.Fatalf("control: %s: %v; a plain read should work", name, err)
		}
		_, err := s.Get("a")
		check := func(what string, err error) {
			t.Helper()
			wantErr(t, name+": "+what, err, tool.Permission, c.want)
		}
		check("Get", err)
		_, err = s.List()
		check("List", err)
		check("Set", s.Set("a", "v"))
		check("Remove", s.Remove("a"))
	}
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func TestNotAFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	s := open(t, dir)
	if err := syscall.Mkfifo(filepath.Join(dir, fileName), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get("a") // must not wait for a writer
	wantErr(t, "Get from a FIFO", err, tool.Permission)
	os.Remove(filepath.Join(dir, fileName))
	if err := os.Mkdir(filepath.Join(dir, fileName), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get("a")
	wantErr(t, "Get from a folder", err, tool.Permission)
}

// TestLinkInPlaceOfTheNewFile: what is written never goes through a link.
func TestLinkInPlaceOfTheNewFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	s := open(t, dir)
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	trap := filepath.Join(dir, newName)
	if err := os.Symlink("victim", trap); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(trap, []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(victim); string(data) != "changed" {
		t.Fatalf("control: victim holds %q; a plain write should follow the link", data)
	}
	set(t, s, "a", "v")
	if data, _ := os.ReadFile(victim); string(data) != "changed" {
		t.Errorf("victim holds %q", data)
	}
	if got, err := s.Get("a"); err != nil || got != "v" {
		t.Errorf("Get = %q, %v", got, err)
	}
}

func TestOtherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	for _, name := range []string{".", fileName} {
		dir := filepath.Join(t.TempDir(), "secrets")
		s := open(t, dir)
		set(t, s, "a", value)
		if err := os.Chown(filepath.Join(dir, name), 65534, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile(filepath.Join(dir, fileName)); err != nil {
			t.Fatalf("control: %v", err)
		}
		_, err := s.Get("a")
		wantErr(t, "Get with a foreign "+name, err, tool.Permission, "another user")
		wantErr(t, "Set with a foreign "+name, s.Set("a", "v"), tool.Permission, "another user")
	}
}

func TestOpenMissingParent(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "no", "secrets"))
	wantErr(t, "Open", err, tool.NotFound)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(file)
	wantErr(t, "Open of a file", err, tool.Permission)
}
