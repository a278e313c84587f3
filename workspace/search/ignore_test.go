package search

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

// TestRulesAsGit compares the matcher with git check-ignore over random rules
// and random paths, many at a time because starting git costs more than it does.
func TestRulesAsGit(t *testing.T) {
	git := needTool(t, "git")
	rng := rand.New(rand.NewPCG(7, 11))
	rounds := 25
	if testing.Short() {
		rounds = 6
	}
	hits := 0
	for range rounds {
		file := randomRules(rng)
		paths := randomPaths(rng, 150)
		want := gitIgnored(t, git, map[string]string{".gitignore": file}, paths)
		r := parseRules([]byte(file))
		for _, p := range paths {
			got := ignoredBelow(r, p)
			if got != want[p] {
				t.Errorf("rules %q ignore %q = %v; git says %v", file, p, got, want[p])
			}
			if got {
				hits++
			}
		}
		if t.Failed() {
			return
		}
	}
	if hits < rounds {
		t.Errorf("only %d paths were ignored in %d rounds: the generator tests nothing", hits, rounds)
	}
}

// ignoredBelow applies r to p and to every directory above it, as a walk does.
// A path that ends in '/' is a directory.
func ignoredBelow(r *rules, p string) bool {
	isDir := strings.HasSuffix(p, "/")
	p = strings.TrimSuffix(p, "/")
	parts := strings.Split(p, "/")
	for i := range parts {
		rel := strings.Join(parts[:i+1], "/")
		if r.match(rel, parts[i], isDir || i < len(parts)-1) == ignored {
			return true
		}
	}
	return false
}

// gitIgnored asks git which paths it ignores, in a fresh repository that holds
// the ignore files and nothing else.
func gitIgnored(t *testing.T, git string, files map[string]string, paths []string) map[string]bool {
	t.Helper()
	dir := t.TempDir()
	run := func(stdin string, args ...string) []byte {
		cmd := exec.Command(git, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		if x, ok := err.(*exec.ExitError); ok && x.ExitCode() == 1 {
			err = nil // nothing is ignored
		}
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return out
	}
	run("", "init", "-q")
	for _, p := range paths {
		full := filepath.Join(dir, filepath.FromSlash(p))
		if strings.HasSuffix(p, "/") {
			if err := os.MkdirAll(full, 0o777); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	// Git looks up what a path is, and takes a '/' at its end for one more, empty
	// component, which no walk ever sees.
	var stdin strings.Builder
	for _, p := range paths {
		stdin.WriteString(strings.TrimSuffix(p, "/") + "\x00")
	}
	out := run(stdin.String(), "check-ignore", "-z", "--no-index", "--stdin")
	listed := map[string]bool{}
	for p := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		listed[string(p)] = true
	}
	got := map[string]bool{}
	for _, p := range paths {
		got[p] = listed[strings.TrimSuffix(p, "/")]
	}
	return got
}

var (
	pathParts = []string{"a", "b", "ab", "abc", "a.go", "b.go", "c.log", "foo", "foo bar", "-", "]", "[a]", "a*b", "!x", "#y", "x ", "\\", "A", "é", "a-b", ".h", "bin"}
	ruleParts = []string{"a", "b", "ab", "abc", "*", "**", "?", "*.go", "*.log", "foo", "fo?", "[ab]", "[a-c]", "[!a]", "[^b]", "a*", "*b", "a**b",
		"[]a]", "[a", "[[:alpha:]]", "[[:nope:]]", "\\*", "\\!x", "\\#y", "x\\ ", "\\", "\\\\", "-", "[a\\]]", "[]-a]", "é", "??", "[a-", "*.*", "a?b", ".*", "bin", "[z-a]", "[a/b]", "[[:alpha:]", "[[:digit:]-]", "[a-[:alpha:]]", "*a*b*"}
)

func randomRules(rng *rand.Rand) string {
	var b strings.Builder
	for range 1 + rng.IntN(4) {
		if rng.IntN(4) == 0 {
			b.WriteByte('!')
		}
		if rng.IntN(4) == 0 {
			b.WriteByte('/')
		}
		for i := range 1 + rng.IntN(3) {
			if i > 0 {
				b.WriteByte('/')
			}
			b.WriteString(ruleParts[rng.IntN(len(ruleParts))])
			if rng.IntN(5) == 0 {
				b.WriteString(ruleParts[rng.IntN(len(ruleParts))])
			}
		}
		if rng.IntN(4) == 0 {
			b.WriteByte('/')
		}
		if rng.IntN(6) == 0 {
			b.WriteString("  ")
		}
		if rng.IntN(6) == 0 {
			b.WriteByte('\r')
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// randomPaths makes paths that can all exist in one tree: a directory's name
// begins with "d" or ends in '/', and no path is both.
func randomPaths(rng *rand.Rand, n int) []string {
	isDir := map[string]bool{}
	for range n {
		p := ""
		depth := 1 + rng.IntN(4)
		for i := range depth {
			if i > 0 {
				p += "/"
			}
			p += pathParts[rng.IntN(len(pathParts))]
			dir, seen := isDir[p]
			last := i == depth-1
			if !seen {
				isDir[p] = !last || rng.IntN(4) == 0
			} else if !dir {
				break
			}
		}
	}
	var out []string
	for p, dir := range isDir {
		if dir {
			p += "/"
		}
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// TestRulesCostIsBounded: stars and "**" must not multiply.
func TestRulesCostIsBounded(t *testing.T) {
	r := parseRules([]byte(strings.Repeat("*a", 500) + "b\n" + strings.Repeat("**/a/", 200) + "b\n"))
	long := strings.Repeat("a", 255)
	deep := strings.Repeat("a/", 255) + "a"
	if r.match(long, long, false) != unmentioned || r.match(deep, "a", false) != unmentioned {
		t.Error("a pattern that ends in b matched a name without one")
	}
}

func TestRulesAreCapped(t *testing.T) {
	many := strings.Repeat("x\n", maxIgnoreRules+10)
	if n := len(parseRules([]byte(many)).list); n != maxIgnoreRules {
		t.Errorf("parseRules kept %d rules; want %d", n, maxIgnoreRules)
	}
	if r := parseRules(bytes.Repeat([]byte{'y'}, maxIgnoreBytes+1)); r != nil {
		t.Errorf("parseRules of one endless line = %d rules; want none", len(r.list))
	}
}

func FuzzRules(f *testing.F) {
	f.Add("*.go\n!a/**/b\n[!x-z]\\ \n", "a/b.go", true)
	f.Fuzz(func(t *testing.T, file, path string, dir bool) {
		parseRules([]byte(file)).match(path, path[strings.LastIndexByte(path, '/')+1:], dir)
	})
}
