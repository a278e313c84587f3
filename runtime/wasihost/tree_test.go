package wasihost

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/experimental/sys"
)

func TestClean(t *testing.T) {
	for _, c := range []struct {
		in, want string
		dir      bool
		errno    sys.Errno
	}{
		{"a", "a", false, 0}, {"a/b", "a/b", false, 0}, {"a/", "a", true, 0}, {".", ".", true, 0}, {"", ".", true, 0}, {"/", ".", true, 0},
		{"/a", "a", false, 0}, {"//a//b//", "a/b", true, 0}, {"./a/./b", "a/b", false, 0}, {"a/../b", "b", false, 0}, {"a/..", ".", true, 0},
		{"..", "", false, sys.EPERM}, {"../a", "", false, sys.EPERM}, {"a/../../b", "", false, sys.EPERM}, {"/..", "", false, sys.EPERM},
		{"/../a", "", false, sys.EPERM}, {"./../a", "", false, sys.EPERM}, {"a\x00b", "", false, sys.EINVAL},
	} {
		got, dir, errno := clean(c.in)
		if got != c.want || dir != c.dir || errno != c.errno {
			t.Errorf("clean(%q) = %q, %v, %v; want %q, %v, %v", c.in, got, dir, errno, c.want, c.dir, c.errno)
		}
	}
}

// FuzzClean: whatever passes is below the mount, by the system's own rules.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"a", "/a/../..", "a//b/./c/", "..\\..", "C:/x", "a/b/../../.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		name, _, errno := clean(p)
		if errno != 0 {
			return
		}
		if !filepath.IsLocal(name) || strings.HasPrefix(name, "/") || name == ".." || strings.HasPrefix(name, "../") || strings.Contains(name, "/../") || strings.HasSuffix(name, "/..") {
			t.Errorf("clean(%q) = %q", p, name)
		}
	})
}
