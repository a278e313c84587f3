package workspace

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func settingsText(list []setting) []string {
	var out []string
	for _, s := range list {
		name := s.section
		if s.sub != "" {
			name += "." + s.sub
		}
		out = append(out, name+"."+s.key+"="+s.value)
	}
	return out
}

func TestParseGitConfig(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"[core]\n\thooksPath = a/b\n", []string{"core.hookspath=a/b"}},
		{"\ufeff[core]hooksPath=a", []string{"core.hookspath=a"}},
		{"[CORE]\r\nHOOKSPATH = a b \r\n", []string{"core.hookspath=a b"}},
		{"[core] ; c\n# c\nhooksPath = \"a  b\" ; c\n", []string{"core.hookspath=a  b"}},
		{"[core]\nhooksPath = a\\\n  b\n", []string{"core.hookspath=a  b"}},
		{"[core]\nhooksPath = \"a\\\"\\\\\\tb\"c\n", []string{"core.hookspath=a\"\\\tbc"}},
		{"[core]\nhooksPath\nx = \n", []string{"core.hookspath=", "core.x="}},
		{"[include \"X y\"]\npath = p\n[a.B]\nc = d\n", []string{"include.X y.path=p", "a.b.c=d"}},
		{"[includeIf \"gitdir:~/w/\\\"\\x\"]\npath = p", []string{`includeif.gitdir:~/w/"x.path=p`}},
		{"[core\nhooksPath = a\n[core]\nhooksPath = b\n", []string{".hookspath=a", "core.hookspath=b"}},
		{"[core]\n1bad = x\nok = y\n", []string{"core.ok=y"}},
		{"[core]\nbad = \\q\nok = y\n", []string{"core.ok=y"}},
		{"[core]\nbad = \"open\nok = y\n", []string{"core.ok=y"}},
		{"[core]\nhooksPath = " + strings.Repeat("x", 100) + "\x00y\n", []string{"core.hookspath=" + strings.Repeat("x", 100) + "\x00y"}},
	} {
		if got := settingsText(parseGitConfig(c.text)); !slices.Equal(got, c.want) {
			t.Errorf("parseGitConfig(%q) = %q, want %q", c.text, got, c.want)
		}
	}
	if n := len(parseGitConfig("[a]\n" + strings.Repeat("b\n", 2*maxSettings))); n != maxSettings {
		t.Errorf("%d settings of one file", n)
	}
}

// gitSettings lets git read a configuration; ok is false if it refuses to.
func gitSettings(t *testing.T, git, file, text string) (list []string, ok bool) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(text), 0o600))
	cmd := exec.Command(git, "config", "-z", "--no-includes", "--file", file, "--list")
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil {
		return nil, false
	}
	for e := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		if len(e) > 0 {
			name, value, _ := strings.Cut(string(e), "\n")
			list = append(list, name+"="+value)
		}
	}
	return list, true
}

// TestParseAsGit: whatever git accepts is read as git reads it.
func TestParseAsGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	file := filepath.Join(t.TempDir(), "config")
	words := []string{"[core]", "[core \"x\"]", "[Core.X]", "[", "]", "\"", "\\", "\\\n", "\n", "\n", "\n", "\r\n", "\r", " ", "\t", "=", " = ", "hooksPath", "path", "a", "b-1", "#", ";", ".", "\\t", "\\n", "\\\"", "ü", "\v", "~/x"}
	r := rand.New(rand.NewPCG(9, 9))
	accepted := 0
	for range 400 {
		var b strings.Builder
		b.WriteString("[core]\n")
		for range 1 + r.IntN(14) {
			b.WriteString(words[r.IntN(len(words))])
		}
		want, ok := gitSettings(t, git, file, b.String())
		if !ok {
			continue
		}
		accepted++
		got := settingsText(parseGitConfig(b.String()))
		// Git made a blank of a tab inside a value until 2.45.
		blanks := func(l []string) string { return strings.ReplaceAll(strings.Join(l, "\x00"), "\t", " ") }
		if blanks(got) != blanks(want) {
			t.Fatalf("parseGitConfig(%q) = %q, and git reads %q", b.String(), got, want)
		}
	}
	if accepted < 30 {
		t.Errorf("git accepted only %d texts", accepted)
	}
}

func FuzzGitConfig(f *testing.F) {
	for _, s := range []string{"[core]\nhooksPath = a\n", "[a \"b\"]c=\"d\\\n\"e ; f", "[a.b]\r\nc\r\n", "\ufeff[x]\ny=\\\\", "[", "[a \"\\", "[a]b=\"", "[a]\nb = c\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list := parseGitConfig(text)
		size := 0
		for _, s := range list {
			size += len(s.key) + len(s.value)
			if s.key != strings.ToLower(s.key) || strings.ContainsAny(s.key, "\n= ") {
				t.Errorf("a key %q", s.key)
			}
		}
		if size > len(text) {
			t.Errorf("%d bytes of settings out of %d", size, len(text))
		}
		// A line that makes sense is read, whatever stands before it, if that ends
		// its own line and leaves nothing open.
		if strings.ContainsAny(text, "\\\"") || strings.HasSuffix(text, "\r") {
			return
		}
		list = parseGitConfig(text + "\n[core]\nhooksPath = end\n")
		if len(list) < maxSettings && (len(list) == 0 || list[len(list)-1] != (setting{"core", "", "hookspath", "end"})) {
			t.Errorf("the last line of %q is not read: %q", text, settingsText(list))
		}
	})
}
