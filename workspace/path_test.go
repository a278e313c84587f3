package workspace

import (
	"path"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

func TestCheckPath(t *testing.T) {
	const root = "/ws"
	for _, c := range []struct {
		in, clean string
		dir       bool
		code      tool.Code
	}{
		{in: "a", clean: "a"},
		{in: "a/b/c", clean: "a/b/c"},
		{in: ".", clean: ".", dir: true},
		{in: "./", clean: ".", dir: true},
		{in: "a/..", clean: ".", dir: true},
		{in: "./a//b/./c", clean: "a/b/c"},
		{in: "a/../b", clean: "b"},
		{in: "a/b/../../c", clean: "c"},
		{in: "a/", clean: "a", dir: true},
		{in: "a/.", clean: "a", dir: true},
		{in: "a/b/..", clean: "a", dir: true},
		{in: "...", clean: "..."},
		{in: "..a", clean: "..a"},
		{in: "/ws", clean: ".", dir: true},
		{in: "/ws/", clean: ".", dir: true},
		{in: "/ws/a", clean: "a"},
		{in: "/ws/a/../b", clean: "b"},
		{in: "/ws//a", clean: "a"},

		// Names, not syntax.
		{in: "~", clean: "~"},
		{in: "~/a", clean: "~/a"},
		{in: "$HOME/x", clean: "$HOME/x"},
		{in: "file:///etc/passwd", clean: "file:/etc/passwd"},
		{in: "..%2fO%2fsecret", clean: "..%2fO%2fsecret"},
		{in: `..\O\secret`, clean: `..\O\secret`},
		{in: `C:\x`, clean: `C:\x`},
		{in: `\\host\share`, clean: `\\host\share`},
		{in: "a\nb", clean: "a\nb"},
		{in: "bad\xff", clean: "bad\xff"},
		{in: " ", clean: " "},

		{in: "", code: tool.InvalidArguments},
		{in: "a\x00b", code: tool.InvalidArguments},
		{in: strings.Repeat("n", 256), code: tool.InvalidArguments},
		{in: strings.Repeat("n", 255), clean: strings.Repeat("n", 255)},
		{in: "a/" + strings.Repeat("n", 256) + "/b", code: tool.InvalidArguments},
		{in: strings.Repeat("a/", 2049), code: tool.InvalidArguments},
		{in: "..", code: tool.OutsideRoot},
		{in: "../", code: tool.OutsideRoot},
		{in: "../ws/a", code: tool.OutsideRoot},
		{in: "a/../../x", code: tool.OutsideRoot},
		{in: "a/../../ws/x", code: tool.OutsideRoot},
		{in: "/", code: tool.OutsideRoot},
		{in: "/etc/passwd", code: tool.OutsideRoot},
		{in: "/ws-evil/secret", code: tool.OutsideRoot},
		{in: "/wsx", code: tool.OutsideRoot},
		{in: "/ws/../etc", code: tool.OutsideRoot},
		{in: "//ws/a", code: tool.OutsideRoot},
		{in: "/proc/self/root/ws/a", code: tool.OutsideRoot},
	} {
		if isWindows && strings.ContainsAny(c.in, `\:`) {
			continue
		}
		clean, dir, err := checkPath(root, c.in)
		if clean != c.clean || dir != c.dir || tool.CodeOf(err) != c.code {
			t.Errorf("checkPath(%q) = %q, %v, %v; want %q, %v, %s", c.in, clean, dir, err, c.clean, c.dir, c.code)
		}
	}
	if clean, _, err := checkPath("/", "/etc/x"); clean != "etc/x" || err != nil {
		t.Errorf(`checkPath("/", "/etc/x") = %q, %v; want "etc/x"`, clean, err)
	}
}

// FuzzCheckPath holds the check against path.Clean, the slow twin, and against
// what a clean path promises.
func FuzzCheckPath(f *testing.F) {
	for _, s := range []string{"a", "a/../b", "../x", "/ws/a", "/ws-evil", "a//b/", ".", "", "a/./../..", "\x00", "a/b/../../.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		clean, _, err := checkPath("/ws", in)
		if err != nil {
			return
		}
		if again, _, err := checkPath("/ws", clean); err != nil || again != clean {
			t.Fatalf("checkPath(%q) = %q, but of that %q, %v", in, clean, again, err)
		}
		for c := range strings.SplitSeq(clean, "/") {
			if c == "" || c == ".." || c == "." && clean != "." || len(c) > 255 || strings.Contains(c, "\x00") {
				t.Fatalf("checkPath(%q) = %q with component %q", in, clean, c)
			}
		}
		abs := in
		if !strings.HasPrefix(in, "/") {
			abs = "/ws/" + in
		}
		want := path.Clean(abs)
		got := "/ws/" + clean
		if clean == "." {
			got = "/ws"
		}
		if got != want {
			t.Fatalf("checkPath(%q) = %q, that is %q; want %q", in, clean, got, want)
		}
	})
}
