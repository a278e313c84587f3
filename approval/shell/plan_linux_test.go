package shell_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/approval/shell"
)

// runPlan runs what a plan says, as its consumer will.
func runPlan(t *testing.T, p *shell.Plan, dir string, env []string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	env = append(slices.Clone(env), p.Env...)
	if p.Pipe == nil {
		argv := p.Argv("/bin/bash")
		return output(exec.CommandContext(ctx, argv[0], argv[1:]...), dir, env)
	}
	var cmds []*exec.Cmd
	for _, e := range p.Pipe {
		cmd := exec.CommandContext(ctx, e.Path, e.Args[1:]...)
		cmd.Args[0] = e.Args[0]
		cmds = append(cmds, cmd)
	}
	last := cmds[len(cmds)-1]
	for i, cmd := range cmds[:len(cmds)-1] {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Dir, cmd.Env, cmd.Stdout = dir, env, w
		cmds[i+1].Stdin = r
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		defer cmd.Wait()
		defer r.Close()
	}
	return output(last, dir, env)
}

func output(cmd *exec.Cmd, dir string, env []string) (string, int) {
	cmd.Dir, cmd.Env = dir, env
	out, _ := cmd.Output()
	return string(out), cmd.ProcessState.ExitCode()
}

// TestPlansDoTheSame runs everyday texts as they were typed and as their plans
// say, and compares output and exit status.
func TestPlansDoTheSame(t *testing.T) {
	f := newFixture(t, "")
	env := []string{"HOME=" + filepath.Join(f.root, "home"), "PATH=/usr/bin:/bin", "LANG=C.UTF-8", "TZ=UTC", "GIT_CONFIG_NOSYSTEM=1"}
	site := f.site(".", "")
	site.Path = []string{"/usr/bin", "/bin"}
	slowOrChanging := []string{"go ", "npm", "node", "python3", "make", "cargo", "tail -f", "git add", "git commit", "git branch new", "nohup", "setsid", "date",
		"time", "df", "ps", "jq", "rg ", "tree", "uptime", "&", "du", "export", "rm", "sed -n '/"}
	ran := 0
	for _, c := range ownCases(t) {
		if c.want != "yes" || !slices.ContainsFunc(c.rules.Allow, func(p shell.Pattern) bool { return p.Words[0] == "which" }) {
			continue // only the everyday ones
		}
		if slices.ContainsFunc(slowOrChanging, func(s string) bool { return strings.Contains(strings.ReplaceAll(c.command, "&&", ""), s) }) {
			continue
		}
		text := f.fill(c.command)
		res := shell.Judge(text, site, c.rules)
		if res.Verdict != shell.Allow {
			t.Errorf("Judge(%q) = %s: %s", text, res.Verdict, res.Reason)
			continue
		}
		missing := slices.ContainsFunc(res.Commands, func(c shell.Command) bool {
			_, err := exec.LookPath(c.Words[0])
			return c.Program == "" && err != nil && !slices.Contains([]string{"cd", "type", "command", "exit", ":", "read"}, c.Words[0])
		})
		if missing {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		want, wantCode := output(exec.CommandContext(ctx, "/bin/bash", "-c", text), f.ws(), env)
		cancel()
		got, code := runPlan(t, res.Plan, f.ws(), env)
		if got != want || code != wantCode {
			t.Errorf("%q prints %q, %d; its plan %+v prints %q, %d", text, want, wantCode, *res.Plan, got, code)
		}
		ran++
	}
	t.Logf("%d texts were run", ran)
	if ran < 100 {
		t.Errorf("only %d texts were run", ran)
	}
}

// TestGitRunsNoHelpers plants programs in every setting that git reads from a
// repository, and runs allowed commands with the plan and without.
func TestGitRunsNoHelpers(t *testing.T) {
	f := newFixture(t, `
mkdir -p ../helper hooks2
printf '#!/bin/sh\necho "$0 $*" >> "`+"$PWD"+`/../ran"\ncat 2>/dev/null </dev/null\n' > ../helper/helper; chmod +x ../helper/helper
H=$PWD/../helper/helper
for h in pre-commit commit-msg post-commit prepare-commit-msg post-index-change post-checkout reference-transaction; do cp ../helper/helper .git/hooks/$h; done
git config core.fsmonitor "$H"; git config core.pager "$H"; git config pager.log "$H"; git config core.editor "$H"
git config diff.external "$H"; git config diff.e.command "$H"; git config diff.e.textconv "$H"
git config commit.gpgSign true; git config gpg.program "$H"; git config log.showSignature true
git config gpg.ssh.program "$H"; git config gpg.ssh.allowedSignersFile /dev/null; git config pretty.sig '%G?'
id=$(git cat-file commit HEAD | sed '/^committer/a gpgsig -----BEGIN SSH SIGNATURE-----\n x\n -----END SSH SIGNATURE-----' | git hash-object -t commit -w --stdin)
git -c core.hooksPath=/dev/null tag signed "$id"
echo '*.txt diff=e' > .gitattributes
git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c gpg.program=false -c commit.gpgSign=false add .gitattributes
echo more >> a.txt
mkdir nested; cd nested; git init -q .; echo y > y; git add y; git -c commit.gpgSign=false commit -qm i; git config core.fsmonitor "$H"; cd ..
`)
	ran := filepath.Join(f.root, "ran")
	env := []string{"HOME=" + filepath.Join(f.root, "home"), "PATH=/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM=1", "TERM=xterm"}
	site := f.site(".", "")
	site.Path = []string{"/usr/bin", "/bin"}
	var rules shell.Rules
	for _, w := range []string{"status", "diff", "log", "show", "blame", "grep", "add", "commit", "ls-files", "branch", "stash"} {
		rules.Allow = append(rules.Allow, shell.Pattern{Words: []string{"git", w}})
	}
	rules.Allow = append(rules.Allow, shell.Pattern{Words: []string{"cat"}}, shell.Pattern{Words: []string{"find"}})
	helped := 0
	for _, text := range []string{
		"git status", "git status --short", "git diff", "git diff HEAD~1", "git log -p -2", "git show HEAD", "git show HEAD:a.txt", "git blame a.txt",
		"git grep TODO", "git log --stat -1", "git ls-files -m", "git diff --cached", "git branch", "git log -1 --pretty=sig signed",
		"git add a.txt", "git commit -qm x", "git commit --amend -qm y", "git add -A . && git status", "bash -c 'git diff'", "env git diff",
		"git diff | cat", "find . -maxdepth 1 -name go.mod -exec git log -p -1 \\;", "git stash list", "git commit",
	} {
		clear := func() { os.Remove(ran) }
		seen := func() string { b, _ := os.ReadFile(ran); return string(b) }
		res := shell.Judge(text, site, rules)
		if res.Verdict != shell.Allow {
			t.Errorf("Judge(%q) = %s: %s", text, res.Verdict, res.Reason)
			continue
		}
		clear()
		runPlan(t, res.Plan, f.ws(), env)
		if s := seen(); s != "" {
			t.Errorf("the plan of %q ran a helper: %s", text, s)
		}
		clear()
		output(exec.Command("/bin/bash", "-c", text), f.ws(), env) // the control
		if s := seen(); s != "" {
			helped++
			t.Logf("without the plan, %q ran %q", text, s)
		}
	}
	if helped < 10 {
		t.Errorf("only %d texts run a helper without the plan", helped)
	}
}
