//go:build unix

package runtime

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/wasmtools/wasmtools/testdata/hostile"
)

// damageUnix are wrongs that only some systems know.
var damageUnix = []struct {
	name string
	do   func(t *testing.T, c *cached, file string, good []byte)
}{
	{"readable by others", func(t *testing.T, _ *cached, file string, _ []byte) { chmod(t, file, 0o644) }},
	{"writable by the group", func(t *testing.T, _ *cached, file string, _ []byte) { chmod(t, file, 0o620) }},
	{"a link", func(t *testing.T, _ *cached, file string, good []byte) {
		other := filepath.Join(t.TempDir(), "entry")
		write(t, other, good)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, file); err != nil {
			t.Fatal(err)
		}
	}},
	{"a second name", func(t *testing.T, _ *cached, file string, _ []byte) {
		if err := os.Link(file, filepath.Join(t.TempDir(), "entry")); err != nil {
			t.Skip("no hard links here: ", err)
		}
	}},
	{"of another user", func(t *testing.T, _ *cached, file string, _ []byte) { chown(t, file) }},
	{"key readable by others", func(t *testing.T, c *cached, _ string, _ []byte) {
		chmod(t, filepath.Join(c.state, "compile", "cache.key"), 0o644)
	}},
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func chown(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a file away")
	}
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
}

// TestCacheRefusesFolders puts the cache where others could put files, and
// wants it not to be used, with a notice that says why, and calls to work.
func TestCacheRefusesFolders(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, base string) (dir, state string)
	}{
		{"writable by the group", func(t *testing.T, base string) (string, string) {
			dir := filepath.Join(base, "cache", "compiled")
			mkdir(t, dir)
			chmod(t, dir, 0o770)
			return filepath.Dir(dir), filepath.Join(base, "state")
		}},
		{"a parent writable by all", func(t *testing.T, base string) (string, string) {
			dir := filepath.Join(base, "open", "cache")
			mkdir(t, dir)
			chmod(t, filepath.Dir(dir), 0o777)
			return dir, filepath.Join(base, "state")
		}},
		{"of another user", func(t *testing.T, base string) (string, string) {
			dir := filepath.Join(base, "cache", "compiled")
			mkdir(t, dir)
			chown(t, dir)
			return filepath.Dir(dir), filepath.Join(base, "state")
		}},
		{"a parent of another user", func(t *testing.T, base string) (string, string) {
			dir := filepath.Join(base, "theirs", "cache")
			mkdir(t, dir)
			chown(t, filepath.Dir(dir))
			return dir, filepath.Join(base, "state")
		}},
		{"a link on the way", func(t *testing.T, base string) (string, string) {
			mkdir(t, filepath.Join(base, "elsewhere"))
			if err := os.Symlink("elsewhere", filepath.Join(base, "cache")); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(base, "cache"), filepath.Join(base, "state")
		}},
		{"itself a link", func(t *testing.T, base string) (string, string) {
			mkdir(t, filepath.Join(base, "cache"))
			mkdir(t, filepath.Join(base, "elsewhere"))
			if err := os.Symlink("../elsewhere", filepath.Join(base, "cache", "compiled")); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(base, "cache"), filepath.Join(base, "state")
		}},
		{"a file", func(t *testing.T, base string) (string, string) {
			write(t, filepath.Join(base, "cache"), []byte("x"))
			return filepath.Join(base, "cache"), filepath.Join(base, "state")
		}},
		{"state writable by the group", func(t *testing.T, base string) (string, string) {
			dir := filepath.Join(base, "state", "compile")
			mkdir(t, dir)
			chmod(t, dir, 0o770)
			return filepath.Join(base, "cache"), filepath.Dir(dir)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Without the sticky folder of the system's temporary files on the way
			// the cases below would be refused for its sake; it is accepted.
			dir, state := c.do(t, t.TempDir())
			e := newCached(t, dir, state)
			if e.cache != nil {
				t.Error("the cache is used")
			}
			if len(e.notices) != 1 || !bytes.Contains([]byte(e.notices[0]), []byte("not kept")) {
				t.Errorf("notices %q; want one that says why nothing is kept", e.notices)
			}
			e.use(t, hostile.Good())
		})
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}
