package shell_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/approval/shell"
)

// stubNames are the programs that exist where texts are run: they write down
// their name and arguments and do nothing else.
var stubNames = []string{"ls", "cat", "head", "wc", "sort", "grep", "sleep", "seq", "evil", "rm", "git", "env", "xargs", "sh", "find", "timeout"}

// jail is a root directory that holds bash and stub programs only. What runs in
// it is nobody, sees no network and no other processes, and is gone after two
// seconds.
type jail struct{ root string }

// jailRoot is what TestMain removes.
var jailRoot string

var newJail = sync.OnceValues(func() (jail, error) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		return jail{}, err
	}
	if os.Geteuid() != 0 {
		return jail{}, errors.New("only root can run texts as nobody in a root directory of their own")
	}
	root, err := os.MkdirTemp("", "shell-jail-*")
	if err != nil {
		return jail{}, err
	}
	jailRoot = root
	libs, err := exec.Command("ldd", bash).Output()
	if err != nil {
		return jail{}, fmt.Errorf("ldd %s: %w", bash, err)
	}
	copies := map[string]string{bash: "/bin/bash"}
	for f := range strings.FieldsSeq(string(libs)) {
		if strings.HasPrefix(f, "/") {
			copies[f] = f
		}
	}
	for from, to := range copies { // bash and what it is linked with
		data, err := os.ReadFile(from)
		if err != nil {
			return jail{}, err
		}
		to = filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return jail{}, err
		}
		if err := os.WriteFile(to, data, 0o755); err != nil {
			return jail{}, err
		}
	}
	for _, d := range []string{"dev", "stub", "home", "ws/src"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return jail{}, err
		}
	}
	if err := os.Chmod(root, 0o755); err != nil {
		return jail{}, err
	}
	null := filepath.Join(root, "dev/null")
	if err := syscall.Mknod(null, syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		return jail{}, fmt.Errorf("mknod: %w", err)
	}
	if err := os.Chmod(null, 0o666); err != nil {
		return jail{}, err
	}
	for _, name := range stubNames {
		// The record is written with one write, so that stubs can run at once.
		stub := "#!/bin/bash -p\nprintf -v r '%s\\x1f' \"${0##*/}\" \"$@\"\nprintf '%s\\x1e' \"$r\" >>/log\n"
		if err := os.WriteFile(filepath.Join(root, "stub", name), []byte(stub), 0o755); err != nil {
			return jail{}, err
		}
	}
	for _, name := range []string{"a.txt", "b.txt", "src/c.txt"} {
		if err := os.WriteFile(filepath.Join(root, "ws", name), []byte("1\n2\n"), 0o644); err != nil {
			return jail{}, err
		}
	}
	for _, dir := range []string{"ws", "ws/src", "home"} { // so that a write would be seen
		if err := os.Chown(filepath.Join(root, dir), 65534, 65534); err != nil {
			return jail{}, err
		}
	}
	return jail{root}, nil
})

// handler makes bash write down the programs that it does not find as well.
const handler = "command_not_found_handle() { printf -v __r '%s\\x1f' \"$@\"; printf '%s\\x1e' \"$__r\" >>/log; return 127; }\n"

// run runs a text under bash and returns the programs that ran with their
// arguments, and the files that are new.
func (j jail) run(t *testing.T, text string) (ran [][]string, files []string) {
	t.Helper()
	log := filepath.Join(j.root, "log")
	if err := os.WriteFile(log, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(log, 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/bash", "--norc", "--noprofile", "-p", "-c", handler+text)
	cmd.Path = "/bin/bash"
	cmd.Dir = "/ws"
	cmd.Env = []string{"PATH=/stub", "HOME=/home", "LANG=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: j.root, Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: false},
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Skipf("texts cannot be run apart from this machine: %v", err)
	}
	_ = cmd.Wait() // a text may fail in any way it likes
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for rec := range bytes.SplitSeq(data, []byte{0x1e}) {
		if len(rec) > 0 {
			ran = append(ran, strings.Split(strings.TrimSuffix(string(rec), "\x1f"), "\x1f"))
		}
	}
	for _, dir := range []string{"ws", "ws/src", "home"} {
		entries, err := os.ReadDir(filepath.Join(j.root, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !slices.Contains([]string{"a.txt", "b.txt", "src", "c.txt"}, e.Name()) {
				files = append(files, filepath.Join(dir, e.Name()))
				os.RemoveAll(filepath.Join(j.root, dir, e.Name()))
			}
		}
	}
	return ran, files
}

// jailFS answers as the jail's own root would.
type jailFS struct{ jail }

func (f jailFS) Resolve(p string) (string, shell.Kind, error) {
	real, kind, err := shell.OS{}.Resolve(f.root + p)
	if err != nil {
		return "", kind, err
	}
	if inside, ok := strings.CutPrefix(real, f.root); ok {
		if inside == "" {
			inside = "/"
		}
		return inside, kind, nil
	}
	return filepath.Clean(p), shell.Missing, nil
}

func (f jailFS) List(dir string, max int) ([]shell.Entry, bool, error) {
	return shell.OS{}.List(f.root+dir, max)
}

func (j jail) site() shell.Site {
	return shell.Site{Root: "/ws", Cwd: "/ws", Home: "/home", Path: []string{"/stub"}, FS: jailFS{j}}
}

// jailRules allows what a fuzzer's texts are made of, with every path.
func jailRules() shell.Rules {
	var r shell.Rules
	for _, w := range []string{"ls", "cat", "head", "wc", "sort", "grep", "echo", "printf", "test", "[", "cd", "pwd", "sleep", "seq",
		"true", "read", "export", "git_status", "find", "type"} {
		r.Allow = append(r.Allow, shell.Pattern{Words: strings.Split(w, "_")})
	}
	return r
}

// among reports whether a program that ran is one of the commands that Judge
// found.
func among(ran []string, cmds []shell.Command) bool {
	return slices.ContainsFunc(cmds, func(c shell.Command) bool {
		if len(c.Words) == 0 || c.Words[0] != ran[0] {
			return false
		}
		// git gets options that keep programs off; other arguments are as judged.
		return !c.Literal || ran[0] == "git" || slices.Equal(c.Words, ran)
	})
}

// script is what a plan runs, as text for bash.
func script(p *shell.Plan) string {
	if p.Pipe == nil {
		return p.Script
	}
	var parts []string
	for _, e := range p.Pipe {
		words := make([]string, len(e.Args))
		for i, a := range e.Args {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		parts = append(parts, strings.Join(words, " "))
	}
	return strings.Join(parts, " | ")
}

// compare runs an allowed text, and what the plan makes of it, and fails if
// either runs a program that Judge did not see or writes a file.
func compare(t *testing.T, j jail, text string) {
	t.Helper()
	res := shell.Judge(text, j.site(), jailRules())
	if res.Verdict != shell.Allow {
		return
	}
	for _, side := range []struct{ name, text string }{{"the plan", script(res.Plan)}, {"the text itself", text}} {
		ran, files := j.run(t, side.text)
		for _, r := range ran {
			if !among(r, res.Commands) {
				t.Errorf("Judge(%q) = allow with commands %v; bash ran %q of %s %q", text, res.Commands, r, side.name, side.text)
			}
		}
		if len(files) > 0 {
			t.Errorf("Judge(%q) = allow; bash wrote %q with %s %q", text, files, side.name, side.text)
		}
	}
}

// control shows that the jail sees what a text runs and writes.
func TestJailControl(t *testing.T) {
	j, err := newJail()
	if err != nil {
		t.Skip(err)
	}
	ran, files := j.run(t, "ls a | cat; evil 'x y'; nosuch z; echo > new")
	if len(ran) != 4 || !slices.ContainsFunc(ran, func(r []string) bool { return slices.Equal(r, []string{"evil", "x y"}) }) ||
		!slices.ContainsFunc(ran, func(r []string) bool { return slices.Equal(r, []string{"nosuch", "z"}) }) {
		t.Errorf("ran = %q, want ls, cat, evil and nosuch", ran)
	}
	if !slices.Equal(files, []string{"ws/new"}) {
		t.Errorf("files = %q, want ws/new", files)
	}
}

// parserCases are texts that the parser and bash read differently, or that
// come close to it.
var parserCases = []string{
	"echo \r# ; evil", "ls $\\\n(evil)", "echo \"$\\\n(evil)\"", "cat <<E\n\\\nE\nevil\nE", "[[ a == @($(evil)) ]]",
	"echo ${x:-'$(evil)'}", "echo \"${x:-'$(evil)'}\"", "echo $'\\'' ; ls", "for i in a b; do ls $i; done", "ls {a,b}{1,2}",
	"if test -f a.txt; then cat a.txt; else ls; fi", "x=a.txt; cat \"$x\"", "while read -r l; do echo \"$l\"; done < a.txt",
	"cat <<'E'\n$(evil)\nE", "cat <<E\nx $(ls) y\nE", "case a in a*) ls;; *) cat;; esac", "ls 'a'\"b\"\\c", "(cd src && ls) && cat a.txt",
	"ls *.txt", "ls [a-b].txt", "cat < a.txt | sort | head -2", "! grep x a.txt && ls", "{ ls; cat a.txt; } 2>&1 | wc",
	"echo \"$(ls `cat a.txt`)\"", "ls a\\\\b 'c\\d' \"e\\f\\\"g\"", "ls -- '-x' \"\" ''", "ls \"a\nb\" 'c\nd'", "ls $(echo 'a b')",
	"time ls", "time -p ls | cat", "ls & wait", "((1+2)); ls", "ls $((1 + 2)) ${#x}", "ls ~ ~/x", "[[ -f a.txt && a == b* ]] || ls",
	"ls \\\n -l", "ls # comment\ncat a.txt", "ls;cat a.txt;", "ls >/dev/null 2>&1", "ls 'if' \"then\" \\fi", "echo '!' ! a", "ls a=b -x=y",
	"'ls' \"-l\"", "ls $'a\\tb\\x41\\u00e9'", "cat <(ls) <(head a.txt)", "until ls; do cat a.txt; done", "f=a; f=b; ls $f",
	"ls | time cat", "ls | time", "ls | ! cat", "x=a; ls $x{a,b}", "ls ..*", "<<0&0\xa9",
}

func TestBashAgrees(t *testing.T) {
	j, err := newJail()
	if err != nil {
		t.Skip(err)
	}
	for _, text := range parserCases {
		compare(t, j, text)
	}
	if testing.Short() {
		return
	}
	file, err := publicCases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Cases {
		compare(t, j, c.Command)
	}
	for _, c := range ownCases(t) {
		compare(t, j, c.command)
	}
}

// FuzzBash looks for a text that is allowed and in which bash sees a program
// that the tree does not hold. It needs root, and runs everything as nobody.
func FuzzBash(f *testing.F) {
	for _, text := range parserCases {
		f.Add(text)
	}
	file, err := publicCases()
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range file.Cases {
		f.Add(c.Command)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 400 {
			return
		}
		j, err := newJail()
		if err != nil {
			t.Skip(err)
		}
		compare(t, j, text)
	})
}

// tokens are what FuzzTokens makes texts of: what quotes, nests, continues and
// separates, and a few words.
var tokens = []string{
	"ls", "cat", "evil", "echo", "a", "b.txt", "-x", "'", "\"", "\\", "$", "(", ")", "`", "{", "}", "\n", " ", " ", " ", ";", "|", "&", "<", ">", "#",
	"<<E\n", "\nE\n", "<<'E'\n", "x=a ", "x=a;", "$x", "${x:-", "${x%", "${#x}", "[[ ", " ]]", "*", "?", "[", "]", "~", "!", "\t", "$'", "$(( 1", "))", "<(", "$(",
	"if ", "; then ", "; fi", "for x in ", "; do ", "; done", "case a in ", " esac", "a)", ";;", "\\\n", "é", "&& ", "|| ", "| ", "2>&1", ">/dev/null", "<<<",
	"cd src", "true", "read y", "time ", "! ", "{ ", "; }", "=", ",", "{a,b}", "..", "[ ", " ]", "-eq 1", "while ", "test ", "&>/dev/null", "printf ", "%s",
}

// FuzzTokens is FuzzBash for texts that are likely to be parsed.
func FuzzTokens(f *testing.F) {
	f.Add([]byte{0, 17, 4, 20, 1, 18, 5})
	f.Add([]byte{3, 17, 8, 48, 0, 12, 8, 20, 2})
	f.Add([]byte{0, 26, 4, 60, 4, 27, 2})
	f.Fuzz(func(t *testing.T, picks []byte) {
		if len(picks) > 40 {
			return
		}
		j, err := newJail()
		if err != nil {
			t.Skip(err)
		}
		var b strings.Builder
		for _, p := range picks {
			b.WriteString(tokens[int(p)%len(tokens)])
		}
		compare(t, j, b.String())
	})
}

func TestMain(m *testing.M) {
	code := m.Run()
	if jailRoot != "" {
		os.RemoveAll(jailRoot)
	}
	os.Exit(code)
}
