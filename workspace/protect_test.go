package workspace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// noGitSettings keeps the settings of whoever runs the tests out of them.
func noGitSettings(t testing.TB) (home string) {
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "xdg"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("GIT_CONFIG_GLOBAL", "")
	os.Unsetenv("GIT_CONFIG_GLOBAL")
	return home
}

const gitConfigText = "[core]\n\trepositoryformatversion = 0\n"

// protectCase is one change, and what of it is protected.
type protectCase struct {
	name  string
	build []string
	do    func(t *testing.T, o *Overlay)
	want  string // the protected paths with their rules, "" for a neighbour on which nothing is protected
	opts  Options
}

func put(path, text string) func(t *testing.T, o *Overlay) {
	return func(t *testing.T, o *Overlay) { must(t, second(o.Write(t.Context(), path, []byte(text), true))) }
}

func del(path string) func(t *testing.T, o *Overlay) {
	return func(t *testing.T, o *Overlay) { must(t, second(o.Remove(t.Context(), path, true))) }
}

func move(from, to string) func(t *testing.T, o *Overlay) {
	return func(t *testing.T, o *Overlay) { must(t, second(o.Rename(t.Context(), from, to, true))) }
}

func all(list ...func(t *testing.T, o *Overlay)) func(t *testing.T, o *Overlay) {
	return func(t *testing.T, o *Overlay) {
		for _, f := range list {
			f(t, o)
		}
	}
}

var gitTree = []string{".git/HEAD = ref: refs/heads/main\n", ".git/config = " + gitConfigText, ".git/objects/", ".git/refs/", ".git/hooks/", "f = f", "sub/x = x"}

func bare(dir string) []string {
	return []string{dir + "/HEAD = ref: refs/heads/main\n", dir + "/config = " + gitConfigText, dir + "/objects/", dir + "/refs/", dir + "/hooks/h = h", dir + "/notes/n = n"}
}

func withConfig(text string, more ...string) []string {
	return append([]string{".git/HEAD = ref: refs/heads/main\n", ".git/objects/", ".git/refs/", ".git/config = " + gitConfigText + text, "f = f"}, more...)
}

var protectCases = []protectCase{
	// By name.
	{"write", gitTree, put(".git/config", "x"), ".git/config:git", Options{}},
	{"write, a neighbour", gitTree, put("git/config", "x"), "", Options{}},
	{"a name that does not exist yet", []string{".claude/"}, put(".claude/settings.json", "{}"), ".claude/settings.json:agent", Options{}},
	{"with its directory", nil, put(".vscode/tasks.json", "{}"), ".vscode:editor .vscode/tasks.json:editor", Options{}},
	{"mkdir", nil, func(t *testing.T, o *Overlay) { must(t, o.Mkdir(t.Context(), "a/.husky")) }, "a/.husky:hooks", Options{}},
	{"other case", nil, put(".VSCode/x", "x"), ".VSCode:editor .VSCode/x:editor", Options{}},
	{"ignorable code points", nil, put(".g\u200cit/config", "x"), ".g\u200cit:git .g\u200cit/config:git", Options{}},
	{"dots at the end", nil, put(".git./config", "x"), ".git.:git .git./config:git", Options{}},
	{"a short name", nil, put("GIT~1/config", "x"), "GIT~1:git GIT~1/config:git", Options{}},
	{"edit", gitTree, func(t *testing.T, o *Overlay) {
		must(t, second(o.Edit(t.Context(), ".git/config", []Edit{{Old: "[core]", New: "[core]\nfsmonitor=id"}})))
	}, ".git/config:git", Options{}},
	{"delete a file", gitTree, del(".git/config"), ".git/config:git", Options{}},
	{"delete it all", gitTree, del(".git"), ".git:git", Options{}},
	{"delete what holds it", []string{"p/.git/config = x", "p/f = f"}, del("p"), "p/.git:git", Options{}},
	{"delete, a neighbour", []string{"p/git/config = x", "p/f = f"}, del("p"), "", Options{}},
	{"move there", append(gitTree, "x.sh = x"), move("x.sh", ".git/hooks/post-commit"), ".git/hooks/post-commit:git", Options{}},
	{"move away", gitTree, move(".git/config", "c"), ".git/config:git", Options{}},
	{"move what holds it", []string{"p/.git/config = x"}, move("p", "q"), "p/.git:git q/.git:git", Options{}},
	{"move, a neighbour", []string{"p/git/config = x"}, move("p", "q"), "", Options{}},
	{"rename a directory to it", []string{"p/config = x"}, move("p", ".git"), ".git:git", Options{}},
	{"rename so that what is in it becomes it", []string{"p/fish/x = x"}, move("p", ".config"), ".config/fish:shell", Options{}},
	{"rename so that it is none any more", []string{".config/fish/x = x"}, move(".config", "p"), ".config/fish:shell", Options{}},
	{"rename in two steps", []string{"p/q/x = x"}, all(move("p/q", "p/fish"), move("p", ".config")), ".config/fish:shell", Options{}},
	{"through a link", append(gitTree, "l => .git"), put("l/hooks/x", "x"), ".git/hooks/x:git", Options{}},
	{"through a link to a file", append(gitTree, "l => .git/config"), put("l", "x"), ".git/config:git", Options{}},
	{"the link itself", append(gitTree, "l => .git"), del("l"), "", Options{}},
	{"where a protected link leads", []string{".vscode => conf/vscode", "conf/vscode/x = x"}, put("conf/vscode/tasks.json", "{}"), "conf/vscode/tasks.json:editor", Options{}},
	{"where no protected link leads", []string{"vscode => conf/vscode", "conf/vscode/x = x"}, put("conf/vscode/tasks.json", "{}"), "", Options{}},
	{"a file that a protected link leads to", []string{".bashrc => dot/bashrc", "dot/bashrc = x", "dot/other = x"}, all(put("dot/bashrc", "y"), put("dot/other", "y")), "dot/bashrc:shell", Options{}},
	{"a .git file", nil, put("sub/.git", "gitdir: ../x\n"), "sub/.git:git", Options{}},
	{"created and moved in one call", nil, all(put("a/tasks.json", "{}"), move("a", ".vscode")), ".vscode:editor .vscode/tasks.json:editor", Options{}},
	{"moved away and made anew", gitTree, all(move(".git", "old"), put(".git/config", "x")), ".git:git .git/config:git old:git", Options{}},
	{"deleted and made anew", gitTree, all(del(".git"), put(".git/config", "x")), ".git:git .git/config:git", Options{}},
	{"made and taken back", nil, all(put(".git/config", "x"), del(".git")), "", Options{}},
	{"a rule of the user", []string{"deploy/run = x"}, all(put("deploy/run", "y"), put("deployed", "y")), "deploy/run:deploy", Options{Protect: []Rule{{Glob: "deploy/**", Name: "deploy"}}}},
	{"an alias that is written apart", append(gitTree, "hl = x"), put("hl", "y"), "", Options{}},

	// Git directories by what is in them.
	{"bare: config", bare("r.git"), put("r.git/config", "x"), "r.git/config:git", Options{}},
	{"bare: a hook", bare("r.git"), put("r.git/hooks/post-update", "x"), "r.git/hooks/post-update:git", Options{}},
	{"bare: other files", bare("r.git"), put("r.git/notes/x", "x"), "", Options{}},
	{"bare: HEAD makes it one", bare("r.git")[1:], put("r.git/HEAD", "ref: x"), "r.git/HEAD:git", Options{}},
	{"bare: config in what is none", bare("r.git")[1:], put("r.git/config", "x"), "", Options{}},
	{"bare: all at once", nil, all(put("r/config", "[core]\nfsmonitor=id"), put("r/HEAD", "ref: x"), put("r/objects/o", "o"), put("r/refs/r", "r"), put("r/f", "f")),
		"r/HEAD:git r/config:git r/objects:git r/objects/o:git r/refs:git r/refs/r:git", Options{}},
	{"bare: by a move", append(bare("r.git")[1:], "head = ref: x"), move("head", "r.git/HEAD"), "r.git/HEAD:git", Options{}},
	{"bare: moved whole", bare("r.git"), move("r.git", "s"), "r.git:git s:git", Options{}},
	{"bare: moved within", bare("a/r"), move("a", "b"), "a/r:git b/r:git", Options{}},
	{"bare: removed", bare("r"), del("r"), "r/HEAD:git r/config:git r/hooks:git r/objects:git r/refs:git", Options{}},
	{"bare: the root itself", bare("."), all(put("config", "x"), put("src/f", "x")), "config:git", Options{}},
	{"bare: of a worktree", []string{"w/HEAD = ref: x", "w/commondir = ../c", "w/f = f"}, all(put("w/config", "x"), put("w/f", "x")), "w/config:git", Options{}},
	{"bare: other case", append(bare("r"), "r/x = x"), move("r/x", "r/CONFIG"), "r/CONFIG:git", Options{}},

	// What points elsewhere.
	{"gitdir file", []string{"wt/.git = gitdir: ../store/wt\n", "store/wt/x = x"}, all(put("store/wt/config", "x"), put("store/y", "x")), "store/wt/config:git", Options{}},
	{"gitdir file, absolute", []string{"wt/.git = gitdir: $W/store/wt\n", "store/wt/x = x"}, put("store/wt/config", "x"), "store/wt/config:git", Options{}},
	{"gitdir file, elsewhere", []string{"wt/.git = gitdir: ../other\n", "store/wt/x = x"}, put("store/wt/config", "x"), "", Options{}},
	{"hooksPath", withConfig("\thooksPath = tools/hooks\n"), all(put("tools/hooks/pre-commit", "x"), put("tools/x", "x")), "tools/hooks:hooks tools/hooks/pre-commit:hooks", Options{}},
	{"hooksPath in other words", withConfig("[CORE] HooksPath=\"tools/ho\\\noks\" ; here\n"), put("tools/hooks/pre-commit", "x"), "tools/hooks:hooks tools/hooks/pre-commit:hooks", Options{}},
	{"hooksPath, absolute", withConfig("\thooksPath = $W/h\n", "h/x = x"), put("h/pre-push", "x"), "h/pre-push:hooks", Options{}},
	{"hooksPath outside", withConfig("\thooksPath = $O/h\n", "h/x = x"), put("h/pre-push", "x"), "", Options{}},
	{"hooksPath, the root", withConfig("\thooksPath = .\n"), all(put("pre-commit", "x"), put("f", "x"), put("sub/pre-commit", "x")), "pre-commit:hooks", Options{}},
	{"hooksPath of a nested repository", []string{"n/.git/config = [core]\nhooksPath = ../shared/h\n", "shared/h/x = x"}, put("shared/h/pre-commit", "x"), "shared/h/pre-commit:hooks", Options{}},
	{"hooksPath, moved away", withConfig("\thooksPath = tools/hooks\n", "tools/hooks/pre-commit = x"), move("tools", "t2"), "tools/hooks:hooks", Options{}},
	{"hooksPath, removed", withConfig("\thooksPath = tools/hooks\n", "tools/hooks/pre-commit = x", "tools/x = x"), del("tools"), "tools/hooks:hooks", Options{}},
	{"hooksPath, moved there", withConfig("\thooksPath = tools/hooks\n", "t2/hooks/pre-commit = x"), move("t2", "tools"), "tools/hooks:hooks", Options{}},
	{"hooksPath, a link moved there", withConfig("\thooksPath = tools/hooks\n", "t2 => f2", "f2/hooks/x = x"), move("t2", "tools"), "tools:hooks", Options{}},
	{"hooksPath through a link", withConfig("\thooksPath = l/hooks\n", "l => real", "real/hooks/x = x"), put("real/hooks/pre-commit", "x"), "real/hooks/pre-commit:hooks", Options{}},
	{"hooksPath through a link, which goes", withConfig("\thooksPath = l/hooks\n", "l => real", "real/hooks/x = x"), del("l"), "l:hooks", Options{}},
	{"a hook that is a link", append(gitTree[:4:4], ".git/hooks/pre-commit => ../../scripts/check.sh", "scripts/check.sh = x"), all(put("scripts/check.sh", "y"), put("scripts/x", "x")), "scripts/check.sh:hooks", Options{}},
	{"hooks that are a link", append(gitTree[:4:4], ".git/hooks => ../scripts", "scripts/check.sh = x"), put("scripts/pre-push", "y"), "scripts/pre-push:hooks", Options{}},
	{"a hook of hooksPath that is a link", withConfig("\thooksPath = tools/hooks\n", "tools/hooks/pre-commit => ../../scripts/check.sh", "scripts/check.sh = x"), put("scripts/check.sh", "y"), "scripts/check.sh:hooks", Options{}},
	{"settings that are a link", []string{".git/HEAD = x", ".git/config => ../conf", "conf = [core]\nhooksPath = lh\n"}, all(put("conf", "x"), put("lh/x", "x")), "conf:git lh:hooks lh/x:hooks", Options{}},
	{"included", withConfig("[include]\npath = ../team.gitconfig\n", "team.gitconfig = [core]\n\thooksPath = th\n"), all(put("th/x", "x"), put("team.gitconfig", "x"), put("other.gitconfig", "x")),
		"team.gitconfig:git th:hooks th/x:hooks", Options{}},
	{"included on a condition", withConfig("[includeIf \"onbranch:none\"]\n\tpath = more\n", ".git/more = [core]\nhooksPath=ch\n"), put("ch/x", "x"), "ch:hooks ch/x:hooks", Options{}},
	{"included without end", withConfig("[include]\npath = config\n[core]\nhooksPath = e\n"), put("e/x", "x"), "e:hooks e/x:hooks", Options{}},
	{"config.worktree", withConfig("", ".git/config.worktree = [core]\nhooksPath = wh\n"), put("wh/x", "x"), "wh:hooks wh/x:hooks", Options{}},
	{"submodule", withConfig("", "s/.git = gitdir: ../.git/modules/s\n", ".git/modules/s/config = [core]\n\tworktree = ../../../s\n\thooksPath = sh\n"), all(put("s/sh/x", "x"), put("sh/x", "x")), "s/sh:hooks s/sh/x:hooks", Options{}},
	{"worktree", []string{"main/.git/HEAD = x", "main/.git/config = [core]\nhooksPath = mh\n", "main/.git/worktrees/w/commondir = ../..\n", "main/.git/worktrees/w/HEAD = x", "w/.git = gitdir: ../main/.git/worktrees/w\n"},
		all(put("w/mh/x", "x"), put("mh/x", "x"), put("main/mh/x", "x")), "main/mh:hooks main/mh/x:hooks w/mh:hooks w/mh/x:hooks", Options{}},
	{"a setting of the same call", gitTree, all(put(".git/config", "[core]\nhooksPath = now\n"), put("now/x", "x")), ".git/config:git now:hooks now/x:hooks", Options{}},
	{"no setting", gitTree, put("now/x", "x"), "", Options{}},
}

// TestProtected: what is protected of a change is listed, and the commit refuses
// it unless exactly that is allowed. A case without anything protected is the
// control of those beside it.
func TestProtected(t *testing.T) {
	noGitSettings(t)
	for _, c := range protectCases {
		t.Run(c.name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, b *box) {
				opts := c.opts
				opts.NoOpenat2, opts.NoSync, opts.AllowHardLinks = b.opts.NoOpenat2, true, true
				b = newBox(t, opts)
				for _, e := range c.build {
					b.build(strings.NewReplacer("$W", b.W, "$O", b.O).Replace(e))
				}
				if strings.HasPrefix(c.name, "an alias") {
					must(t, os.Remove(b.W+"/hl"), os.Link(b.W+"/.git/config", b.W+"/hl"))
				}
				o := b.overlay()
				c.do(t, o)
				list, err := o.Protected(t.Context())
				must(t, err)
				if got := protectedText(list); got != c.want {
					t.Fatalf("protected: %s\nwant: %s", got, c.want)
				}
				ws := o.WriteSet()
				before := tree(t, b.W)
				wrong := append([]tool.ProtectedPath{{Path: "elsewhere", Rule: "git"}, {Path: ".", Rule: "none"}}, list[min(1, len(list)):]...)
				for _, allowed := range [][]tool.ProtectedPath{nil, wrong} {
					if c.want == "" {
						break
					}
					err := b.w.Commit(t.Context(), ws, allowed...)
					wantCode(t, err, tool.Protected)
					if after := tree(t, b.W); after != before {
						t.Fatalf("a refused commit changed:\n%s\nto\n%s", before, after)
					}
					if err == nil {
						t.Fatal("committed")
					}
					if s := err.Error(); !strings.Contains(s, fmt.Sprintf("%q", list[0].Path)) || !strings.Contains(s, "wasmtools.toml") || !strings.Contains(s, "rule "+list[0].Rule+" (") {
						t.Errorf("%q does not say by which rule, and how a person allows it", s)
					}
				}
				must(t, b.w.Commit(t.Context(), ws, list...))
				if len(ws.Entries) > 0 && tree(t, b.W) == before && !strings.HasPrefix(c.name, "made and") {
					t.Error("an allowed commit changed nothing")
				}
				noTemps(t, b)
			})
		})
	}
}

func protectedText(list []tool.ProtectedPath) string {
	var out []string
	for _, p := range list {
		out = append(out, p.Path+":"+p.Rule)
	}
	return strings.Join(out, " ")
}

// TestProtectedAbove: the workspace is a part of a repository, and the settings
// that count are those of the repository, the user and the system.
func TestProtectedAbove(t *testing.T) {
	if isWindows {
		t.Skip("links")
	}
	for _, c := range []struct {
		name  string
		build []string // below the directory that holds the workspace "ws"
		want  string
	}{
		{"above", []string{".git/config = [core]\nhooksPath = ws/h\n"}, "h/x:hooks"},
		{"far above", []string{"../.git/config = [core]\nhooksPath = in/ws/h\n"}, "h/x:hooks"},
		{"nearer first", []string{".git/config = ", "../.git/config = [core]\nhooksPath = in/ws/h\n"}, ""},
		{"by the user", []string{".git/config = ", "home/.gitconfig = [core]\nhooksPath = ws/h\n"}, "h/x:hooks"},
		{"by the user's other file", []string{".git/config = ", "home/xdg/git/config = [core]\nhooksPath = ws/h\n"}, "h/x:hooks"},
		{"by a file of the user's", []string{".git/config = ", "home/.gitconfig = [include]\npath = more\n", "home/more = [core]\nhooksPath = $BASE/ws/h\n"}, "h/x:hooks"},
		{"in the home folder", []string{".git/config = [core]\nhooksPath = ~/link/h\n", "home/link => ../ws"}, "h/x:hooks"},
		{"by the user, without a repository", []string{"home/.gitconfig = [core]\nhooksPath = ws/h\n"}, ""},
		{"of a worktree", []string{"ws/.git = gitdir: ../main/.git/worktrees/ws\n", "main/.git/worktrees/ws/commondir = ../..\n", "main/.git/config = [core]\nhooksPath = h\n"}, "h/x:hooks"},
		{"of a worktree's own", []string{"ws/.git = gitdir: $BASE/main/.git/worktrees/ws\n", "main/.git/worktrees/ws/config.worktree = [core]\nhooksPath = h\n"}, "h/x:hooks"},
		{"a bare repository above", []string{"HEAD = ref: x", "objects/", "refs/", "config = [core]\nhooksPath = ws/h\n"}, "h/x:hooks"},
		{"a device for settings", []string{".git/config = [include]\npath = /dev/zero\n[core]\nhooksPath = ws/h\n"}, "h/x:hooks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			base += "/in"
			noGitSettings(t)
			t.Setenv("HOME", base+"/home")
			t.Setenv("XDG_CONFIG_HOME", base+"/home/xdg")
			b := &box{t: t, W: base}
			b.build("ws/h/")
			for _, e := range c.build {
				b.build(strings.ReplaceAll(e, "$BASE", base))
			}
			w, err := Open(base+"/ws", Options{NoSync: true})
			must(t, err)
			defer w.Close()
			o := w.Overlay(OverlayOptions{})
			write(t, o, "h/x", "x")
			list, err := o.Protected(t.Context())
			must(t, err)
			if got := protectedText(list); got != c.want {
				t.Errorf("protected: %q, want %q", got, c.want)
			}
		})
	}
}

// TestProtectedInBetween: what was no protected path when it was checked becomes
// one before the commit is over. The control is a name that has no meaning.
func TestProtectedInBetween(t *testing.T) {
	noGitSettings(t)
	for _, c := range []struct {
		name  string
		build []string
		do    func(t *testing.T, o *Overlay)
		then  []string
		else_ []string
	}{
		{"a git directory", []string{"d/objects/", "d/refs/"}, put("d/config", "x"), []string{"d/HEAD = ref: x"}, []string{"d/HEAP = ref: x"}},
		{"a git directory, replaced", []string{"d/objects/", "d/refs/", "d/config = old"}, put("d/config", "x"), []string{"d/HEAD = ref: x"}, []string{"d/HEAP = ref: x"}},
		{"hooks elsewhere", []string{".git/HEAD = x", "h/"}, put("h/pre-commit", "x"), []string{".git/config = [core]\nhooksPath = h\n"}, []string{".git/config = [core]\nhooksPath = g\n"}},
		{"in a directory that moves", []string{"d/x = x"}, move("d", "e"), []string{"d/.git/config = x"}, []string{"d/git/config = x"}},
		{"a secret in a directory that moves", []string{"d/x = x"}, move("d", "e"), []string{"d/.env = x"}, []string{"d/env = x"}},
		{"a removed file", []string{"d/objects/", "d/refs/", "d/config = old"}, del("d/config"), []string{"d/HEAD = ref: x"}, []string{"d/HEAP = ref: x"}},
	} {
		for _, protect := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", c.name, protect), func(t *testing.T) {
				bothSwaps(t, func(t *testing.T, b *box) {
					then := c.then
					if !protect {
						then = c.else_
					}
					// Let it happen before each step in turn, until one comes too late for it.
					for at := 0; ; at++ {
						b := newBox(t, Options{NoSync: true})
						b.build(c.build...)
						o := b.overlay()
						c.do(t, o)
						if list, err := o.Protected(t.Context()); err != nil || len(list) > 0 {
							t.Fatal(list, err)
						}
						n, did, judged := 0, false, 0
						b.w.onStep = func(op string) {
							n++
							if op == "judge" {
								judged = n
							}
							if n == at+1 {
								did = true
								if _, err := os.Lstat(b.W + "/d"); err == nil || !strings.HasPrefix(then[0], "d/") {
									b.build(then...)
								}
							}
						}
						err := b.commit(o)
						b.w.onStep = nil
						if !did {
							if at == 0 {
								t.Fatal("there was no step")
							}
							must(t, err)
							return
						}
						made := strings.SplitN(then[0], " = ", 2)[0]
						_, seen := os.Lstat(b.W + "/" + made)
						_, moved := os.Lstat(b.W + "/" + strings.Replace(made, "d/", "e/", 1))
						code := tool.CodeOf(err)
						switch {
						case protect && err == nil && (seen == nil || moved == nil):
							if at < judged {
								t.Errorf("made before step %d, looked at in step %d, and the commit went on:\n%s", at+1, judged, tree(t, b.W))
							}
						case !protect && code == tool.Protected:
							t.Errorf("control: %v", err)
						case err != nil && code != tool.Protected && code != tool.ApprovalMismatch:
							t.Errorf("made before step %d: %v", at+1, err)
						}
						noTemps(t, b)
					}
				})
			})
		}
	}
}

// TestGitOddities: nothing that stands where git has its files makes a look wait,
// or read without end.
func TestGitOddities(t *testing.T) {
	noGitSettings(t)
	eachWay(t, func(t *testing.T, b *box) {
		fifo := func(path string) { must(t, os.MkdirAll(filepath.Dir(path), 0o755)); skipUnless(t, makeFIFO(path)) }
		long := strings.Repeat("x", maxGitConfig)
		b.build("f = f", "deep/a/b/f = f", ".git/HEAD = x", ".git/config = [include]\npath = "+b.O+"/fifo\npath = ../pipe\npath = /dev/zero\npath = config\npath = "+long+"\n",
			"one/.git = gitdir: ../two/.git\n", "two/.git = gitdir: ../one/.git\n", "self/.git = gitdir: .git\n", "long/.git = gitdir: "+long+"\n", "none/.git = nonsense\n",
			"loop/.git => .git", "far/.git => $O", "ring/.git/HEAD = x", "ring/.git/commondir = ../.git\n", "dev/.git => /dev/zero", "null/.git = gitdir: \x00\n",
			"many/.git/config = "+strings.Repeat("[core]\nhooksPath = h\n", 5000), "wide/.git/config = [core]\n")
		for i := range 3 * maxHooksPaths {
			p, err := os.OpenFile(b.W+"/wide/.git/config", os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			_, err = fmt.Fprintf(p, "hooksPath = h%d\n", i)
			must(t, err, p.Close())
		}
		fifo(b.O + "/fifo")
		fifo(b.W + "/pipe")
		fifo(b.W + "/sub/.git")
		fifo(b.W + "/bare/config")
		fifo(b.W + "/bare/hooks")
		b.build("bare/HEAD = x", "bare/objects/", "bare/refs/")
		fifo(b.W + "/p/.git/config")
		fifo(b.W + "/p/.git/commondir")
		o := b.overlay()
		for _, dir := range []string{"", "deep/a/b/", "one/", "two/", "self/", "long/", "none/", "loop/", "ring/", "dev/", "null/", "many/", "wide/", "sub/", "bare/", "p/"} {
			write(t, o, dir+"f", "x")
		}
		list, err := o.Protected(t.Context())
		must(t, err)
		if len(list) > 0 {
			t.Errorf("protected: %s", protectedText(list))
		}
		must(t, b.commit(o))
		o = b.overlay()
		write(t, o, fmt.Sprintf("wide/h%d/x", 3*maxHooksPaths-1), "x")
		if list, err = o.Protected(t.Context()); err != nil || len(list) != 2 {
			t.Errorf("the last of many settings: %v, %v", list, err)
		}
	})
}

func skipUnless(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Skip(err)
	}
}

// TestGitAgrees lets git itself say where its hooks are and what its directories
// are.
func TestGitAgrees(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	home := noGitSettings(t)
	run := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command(git, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	b := newBox(t, Options{NoSync: true})
	must(t, os.MkdirAll(home, 0o755))
	run(b.W, "init", "-q", ".")
	run(b.W, "commit", "-q", "--allow-empty", "-m", "x")
	run(b.W, "config", "core.hooksPath", "tools/hooks")
	run(b.W, "worktree", "add", "-q", "wt", "-b", "other")
	run(b.W, "init", "-q", "--bare", "bare")
	run(b.W, "init", "-q", "--separate-git-dir", b.W+"/store", "apart")
	run(b.W+"/apart", "config", "core.hooksPath", "../h2")
	run(b.W, "-c", "protocol.file.allow=always", "submodule", "add", "-q", b.W, "sm")
	run(b.W+"/sm", "config", "core.hooksPath", "smh")
	for _, dir := range []string{"", "wt", "bare", "apart", "sm"} {
		hooks := run(b.W+"/"+dir, "rev-parse", "--git-path", "hooks")
		config := run(b.W+"/"+dir, "rev-parse", "--git-path", "config")
		for _, p := range []string{hooks, config} {
			if !filepath.IsAbs(p) {
				p = filepath.Join(b.W, dir, p)
			}
			rel, err := filepath.Rel(b.W, p)
			must(t, err)
			o := b.overlay()
			if p == hooks || strings.HasSuffix(p, "hooks") || strings.HasSuffix(p, "h2") || strings.HasSuffix(p, "smh") {
				rel += "/pre-commit"
			}
			must(t, second(o.Write(t.Context(), rel, []byte("#!/bin/sh\n"), true)))
			list, err := o.Protected(t.Context())
			must(t, err)
			if len(list) == 0 {
				t.Errorf("in %q git uses %s, and it is not protected", dir, rel)
			}
		}
	}
	o := b.overlay()
	write(t, o, "tools/other/pre-commit", "x")
	write(t, o, "wt/f", "x")
	if list, err := o.Protected(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("control: %v, %v", list, err)
	}
}

// TestProtectedIsBounded: a directory too large to be looked through is not
// moved on trust.
func TestProtectedIsBounded(t *testing.T) {
	b := newBox(t, Options{NoSync: true})
	b.build("d" + strings.Repeat("/x", maxDepth+2) + "/")
	j := &judge{w: b.w, ctx: t.Context(), before: &view{w: b.w}, after: &view{w: b.w}, final: &view{w: b.w}, git: map[gitKey]bool{}, hits: map[string]*Rule{}}
	wantCode(t, j.inside("d", "d", "e"), tool.TooLarge)
	ctx, cancel := contextWithSteps(t, 2)
	defer cancel()
	j.ctx = ctx
	if err := j.inside("d", "d", "e"); err == nil {
		t.Error("it went on after the call had ended")
	}
}
