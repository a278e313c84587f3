package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/channel"
	"github.com/wasmtools/wasmtools/internal/ptytest"
	"github.com/wasmtools/wasmtools/tool"
)

// The tests of this file are about one promise: the model cannot widen its own
// powers. Each attack runs twice, from where the model is and from where a
// person is, so that a refusal cannot be a slip in the command.

// attacks are what a shell of the model's tries, with what it gets there and
// what a person gets. $TICKET is a call that waits.
var attacks = []struct {
	command string
	human   int // exit code for a person
}{
	{`wasmtools approvals list`, exitOK},
	{`wasmtools approvals list --json`, exitOK},
	{`wasmtools approvals show $TICKET`, exitOK},
	{`timeout $LIMIT wasmtools approvals watch --plain`, 124},
	{`timeout $LIMIT wasmtools approvals watch --jsonl`, 124},
	{`wasmtools secret set planted </dev/null`, exitFailure}, // an empty value
	{`echo x | wasmtools secret set planted`, exitOK},
	{`wasmtools secret list`, exitOK},
	{`wasmtools secret rm planted`, exitOK},
	{`wasmtools policy revoke none`, exitFailure}, // there is none
	{`sh -c 'exec wasmtools secret list'`, exitOK},
	{`env -i PATH="$PATH" WASMTOOLS_HOME="$WASMTOOLS_HOME" wasmtools secret list`, exitOK},
	{`script -qec "wasmtools secret list" /dev/null`, exitOK},               // a terminal of its own
	{`script -qec "setsid -cw wasmtools approvals list" /dev/null`, exitOK}, // and a session of its own
	{`script -qec "wasmtools approvals allow $TICKET" /dev/null`, exitOK},   // the call that waits
	{`rm -f "$OUT"; (setsid script -qec "wasmtools approvals deny --all; echo code=\$? >$OUT" /dev/null >/dev/null 2>&1 &); ` +
		`while ! [ -s "$OUT" ]; do sleep 0.05; done; code=$(cut -d= -f2 "$OUT"); sh -c "exit $code"`, exitOK}, // an orphan in a session and at a terminal of its own
}

// script is a shell program that runs them all and prints how each ended.
func attackScript() string {
	var b strings.Builder
	b.WriteString("stty -echo; ")
	for i, a := range attacks {
		fmt.Fprintf(&b, "%s\necho \"attack %d ends with $?\"\n", a.command, i)
	}
	return b.String()
}

// registry is what a terminal tells the channel.
type registry struct {
	leaders   []channel.Process
	sids      []int
	terminals []uint64
}

func (r *registry) Leaders() []channel.Process { return r.leaders }
func (r *registry) SIDs() []int                { return r.sids }
func (r *registry) Terminals() []uint64        { return r.terminals }

// noTest lets ptytest be used outside of a test.
type noTest struct{ testing.TB }

func (noTest) Helper()                           {}
func (noTest) Cleanup(func())                    {}
func (noTest) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (noTest) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }

// actSession is a runtime with a terminal: it starts a shell in a session of its
// own, and below itself whatever loses its parent, as the terminal does.
func actSession() int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	r := &registry{}
	s, err := channel.Listen(channel.Folder(userDirs().run), channel.Options{Sessions: r, About: channel.About{Program: "session"}})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	desk := approval.NewDesk([]approval.Approver{s}, time.Hour)
	tk, err := desk.Submit(approval.Request{Tool: "write_file", Preview: tool.Preview{Binding: "b"}})
	if err != nil {
		panic(err)
	}
	cmd := exec.Command("sh", "-c", "read go; "+os.Getenv("SCRIPT")+"\necho over")
	cmd.Env = append(os.Environ(), "TICKET="+tk.Request().Ticket)
	tm := ptytest.Start(noTest{}, cmd)
	p, err := channel.Identify(cmd.Process.Pid)
	if err != nil {
		panic(err)
	}
	r.leaders, r.sids, r.terminals = []channel.Process{p}, []int{p.PID}, []uint64{tm.Device()}
	tm.Send("\n")
	fmt.Print(strings.ReplaceAll(tm.Expect(`over\r\n`), "\r\n", "\n"))
	_, answered := tk.Decision()
	fmt.Println("answered:", answered)
	return 0
}

// TestSessionHasNoPower: nothing that a shell of the model's does through our
// commands gets it an answer, a secret or a rule; the same commands work for a
// person.
func TestSessionHasNoPower(t *testing.T) {
	for _, need := range []string{"script", "setsid", "timeout", "stty"} {
		if _, err := exec.LookPath(need); err != nil {
			skip(t, "root", need+" is not installed")
		}
	}
	home, ws := home(t), t.TempDir()
	env := []string{"SCRIPT=" + attackScript(), "OUT=" + filepath.Join(t.TempDir(), "out")}

	session := command(t, home, ws)
	session.Path, session.Err = lookPath(t, "wasmtools-session"), nil
	session.Args = []string{"wasmtools-session"}
	session.Env = append(session.Env, append(env, "LIMIT=60")...)
	printed, code := outcome(t, session)
	if code != 0 || !strings.Contains(printed, "answered: false") {
		t.Fatalf("the session ends with %d:\n%s", code, printed)
	}
	for i, a := range attacks {
		if !strings.Contains(printed, fmt.Sprintf("attack %d ends with %d\n", i, exitDenied)) {
			t.Errorf("in a session, this is not refused: %s", a.command)
		}
	}
	if t.Failed() {
		t.Log(printed)
	}

	// The control: a person, at a terminal of their own, beside a runtime that has
	// the same call waiting.
	c := connect(t, command(t, home, ws, "mcp", "-q"))
	ticket := c.asked("write_file", `{"path":"new","content":"x"}`)
	human := command(t, home, ws)
	human.Path, human.Args, human.Err = "/bin/sh", []string{"sh", "-c", attackScript()}, nil
	human.Env = append(human.Env, append(env, "TICKET="+ticket, "LIMIT=2")...)
	shown, _ := person(t, human)
	for i, a := range attacks {
		if !strings.Contains(shown, fmt.Sprintf("attack %d ends with %d\n", i, a.human)) {
			t.Errorf("a person does not get %d from: %s", a.human, a.command)
		}
	}
	if t.Failed() {
		t.Log(shown)
	}
	if r := c.call("write_file", `{"path":"new","content":"x"}`); r.IsError {
		t.Errorf("the call that the person allowed answers %+v", r)
	}
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// marker stands in every file of ours that a tool could be after.
const marker = "OURS-ALONE"

// layHome puts a file with the marker into every folder that is ours below
// home, and the same files into a folder beside it that is nobody's: what works
// there and not here was refused for what it is.
func layHome(t *testing.T, root string) (home string, files []string) {
	t.Helper()
	for _, top := range []string{"home", "plain"} {
		for _, file := range []string{
			"config/settings.toml", "data/kept.txt", "state/secrets/secrets.json", "state/rules/saved.toml", "state/key", "cache/module.bin", "run/approvals/1.1-x.sock",
		} {
			p := filepath.Join(root, top, filepath.FromSlash(file))
			if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte("# "+marker+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if top == "home" {
				files = append(files, file)
			}
		}
	}
	// Of this name only ours: it is on the list of protected paths everywhere.
	if err := os.WriteFile(filepath.Join(root, "home/config/wasmtools.toml"), []byte("# "+marker+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "home"), append(files, "config/wasmtools.toml")
}

// TestToolsCannotReachOurFolders: a workspace that holds all that is ours, and
// every tool, through every kind of path.
func TestToolsCannotReachOurFolders(t *testing.T) {
	compiled := home(t)
	ws := t.TempDir()
	home, files := layHome(t, ws)
	warm(t, compiled, home)
	secretFile := filepath.Join(home, "state/secrets/secrets.json")
	for link, to := range map[string]string{
		"link-dir": "home/state", "link-file": "home/state/secrets/secrets.json", "link-home": "home", "deep/link": "../home/state/secrets",
		"plain-dir": "plain/state", "plain-file": "plain/state/secrets/secrets.json", "plain-home": "plain", "deep/plain": "../plain/state/secrets",
	} {
		p := filepath.Join(ws, link)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, p); err != nil {
			t.Fatal(err)
		}
	}
	before := snapshot(t, home, files)

	c := connect(t, command(t, home, ws, "mcp", "-q", "--workspace", ws, "--approve", "all"))
	// both makes the same call on what is ours and on what is not: "@" stands for
	// home or plain, and "@-" for link or plain in the names of links.
	both := func(name, tool, args string) {
		t.Helper()
		ours := c.call(tool, strings.ReplaceAll(strings.ReplaceAll(args, "@-", "link"), "@", "home"))
		if !ours.IsError || ours.Meta.Code != "protected" && ours.Meta.Code != "outside_root" && ours.Meta.Code != "not_regular" {
			t.Errorf("%s: %s on what is ours answers %q %.300s", name, tool, ours.Meta.Code, ours.text())
		}
		if strings.Contains(ours.text(), marker) {
			t.Errorf("%s: %s shows what is ours: %.300s", name, tool, ours.text())
		}
		plain := c.call(tool, strings.ReplaceAll(strings.ReplaceAll(args, "@-", "plain"), "@", "plain"))
		if plain.IsError {
			t.Errorf("%s: the control does not work: %s answers %q %.300s", name, tool, plain.Meta.Code, plain.text())
		}
	}
	real := realPath(ws)
	for _, file := range files[:len(files)-1] {
		both(file, "read_open", `{"path":"@/`+file+`"}`)
	}
	both("dots", "read_open", `{"path":"@/../@/./state//secrets/secrets.json"}`)
	both("absolute", "read_open", `{"path":"`+real+`/@/state/secrets/secrets.json"}`)
	both("link to a folder", "read_open", `{"path":"@--dir/secrets/secrets.json"}`)
	both("link to a file", "read_open", `{"path":"@--file"}`)
	both("link to all of it", "read_open", `{"path":"@--home/config/settings.toml"}`)
	both("link in a folder", "read_open", `{"path":"deep/@-/secrets.json"}`)
	for _, dir := range []string{"state", "state/secrets", "config", "run/approvals", "cache", "data"} {
		both(dir, "read_discover", `{"mode":"list","path":"@/`+dir+`"}`)
		both(dir, "read_discover", `{"mode":"locate","query":"*","root":"@/`+dir+`"}`)
		both(dir, "grep", `{"pattern":"`+marker+`","path":"@/`+dir+`"}`)
		both(dir, "write_file", `{"path":"@/`+dir+`/new.txt","content":"x"}`)
	}
	both("through a link", "write_file", `{"path":"@--dir/new2.txt","content":"x"}`)
	both("onto a link", "write_file", `{"path":"@--file","content":"x","overwrite":true}`)
	both("change", "replace_block", `{"path":"@/state/rules/saved.toml","old":"`+marker+`","new":"allow"}`)
	both("overwrite", "write_file", `{"path":"@/config/settings.toml","content":"x","overwrite":true}`)
	both("out", "move_path", `{"from":"@/state/key","to":"taken-@"}`)
	both("delete", "delete_path", `{"path":"@/data/kept.txt"}`)
	both("delete a folder", "delete_path", `{"path":"@/run","recursive":true}`)

	// Into ours, and ours as a whole, which has no equal twin afterwards.
	c.call("write_file", `{"path":"bait","content":"bait"}`)
	both("in", "move_path", `{"from":"bait","to":"@/state/bait"}`)
	both("move all", "move_path", `{"from":"@","to":"elsewhere-@"}`)
	if r := c.call("delete_path", `{"path":"home","recursive":true}`); !r.IsError {
		t.Errorf("home is deleted as a whole: %s", r.text())
	}

	if r := c.call("read_open", `{"path":"home/config/wasmtools.toml"}`); r.Meta.Code != "protected" {
		t.Errorf("our configuration is shown: %.300s", r.text())
	}
	if r := c.call("write_file", `{"path":"home/config/wasmtools.toml","content":"x","overwrite":true}`); r.Meta.Code != "protected" {
		t.Errorf("our configuration is changed: %.300s", r.text())
	}

	// Searches over everything come by, and see nothing.
	for tool, args := range map[string]string{
		"grep":          `{"pattern":"` + marker + `","mode":"content"}`,
		"read_discover": `{"mode":"locate","query":"secrets.json"}`,
	} {
		r := c.call(tool, args)
		if strings.Contains(r.text(), "home/") {
			t.Errorf("%s over the whole tree shows what is ours: %.500s", tool, r.text())
		}
		if !strings.Contains(r.text(), "elsewhere-plain/") {
			t.Errorf("the control does not work: %s over the whole tree shows %.500s", tool, r.text())
		}
	}

	// Through the kernel's names for everything.
	for _, path := range []string{
		"/proc/self/root" + secretFile, "/proc/1/root" + secretFile, "/proc/" + fmt.Sprint(c.cmd.Process.Pid) + "/cwd/home/state/key",
		"/proc/self/fd/3", "/proc/self/environ", "/proc/self/mem", "/dev/fd/3", secretFile + "/../secrets.json",
	} {
		for tool, args := range map[string]string{
			"read_open":  `{"path":"` + path + `"}`,
			"write_file": `{"path":"` + path + `","content":"x","overwrite":true}`,
			"grep":       `{"pattern":".","path":"` + path + `"}`,
		} {
			if r := c.call(tool, args); !r.IsError && tool != "write_file" || strings.Contains(r.text(), marker) {
				t.Errorf("%s on %s answers %.300s", tool, path, r.text())
			}
		}
	}
	if after := snapshot(t, home, files); after != before {
		t.Errorf("what is ours was changed:\n%s\nbefore:\n%s", after, before)
	}
}

// snapshot is what stands in files.
func snapshot(t *testing.T, dir string, files []string) string {
	t.Helper()
	var b strings.Builder
	for _, f := range files {
		p, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f)))
		fmt.Fprintf(&b, "%s %q %v\n", f, p, err)
	}
	return b.String()
}

// TestWorkspaceInOurFolders: what is ours cannot be made a workspace, by name or
// by standing in it, nor through a link.
func TestWorkspaceInOurFolders(t *testing.T) {
	root := t.TempDir()
	home, _ := layHome(t, root)
	if err := os.Symlink(filepath.Join(home, "state"), filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]int{
		"home/state": exitUsage, "home/state/secrets": exitUsage, "home/config": exitUsage, "home/data": exitUsage, "home/cache": exitUsage,
		"home/run/approvals": exitUsage, "link": exitUsage, "link/secrets": exitUsage, "plain/state/secrets": exitOK,
	} {
		at := filepath.Join(root, dir)
		for name, cmd := range map[string]*exec.Cmd{
			"named": command(t, home, root, "tools", "-q", "--workspace", at), "current": command(t, home, at, "tools", "-q"),
		} {
			if out, code := outcome(t, cmd); code != want || want != exitOK && !strings.Contains(out, "its own") {
				t.Errorf("%s as a workspace, %s, exits with %d, want %d:\n%.300s", dir, name, code, want, out)
			}
		}
	}
}

// TestGuestsCannotReachOurFolders: a module with every file of the workspace
// granted does to what is ours whatever programs do, and to the same beside it.
func TestGuestsCannotReachOurFolders(t *testing.T) {
	compiled := home(t)
	ws := t.TempDir()
	home, files := layHome(t, ws)
	warm(t, compiled, home)
	for link, to := range map[string]string{"link-home": "home", "link-plain": "plain"} {
		if err := os.Symlink(to, filepath.Join(ws, link)); err != nil {
			t.Fatal(err)
		}
	}
	module := filepath.Join(t.TempDir(), "files.wasm")
	build := exec.Command("go", "build", "-trimpath", "-o", module, "../../testdata/foreign/files")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sidecar := filepath.Join(t.TempDir(), "files.toml")
	if err := os.WriteFile(sidecar, []byte(`name = "files"
version = "1.0.0"
[[tools]]
name = "files"
description = "Does to files what it is told."
args = ["{op}"]
[tools.input_schema]
type = "object"
required = ["op"]
[tools.input_schema.properties.op]
type = "string"
[tools.capabilities.fs]
read = ["**"]
write = ["**"]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, home, files)
	c := connect(t, command(t, home, ws, "mcp", "-q", "--workspace", ws, "--approve", "all", "--module", module+"="+sidecar, "--grant", "all"))
	for _, op := range []string{
		"read=@/state/secrets/secrets.json", "read=./@/../@/state/key", "read=/@/state/key", "read=link-@/state/key",
		"list=@/state", "list=@/state/secrets", "list=link-@/run/approvals", "stat=@/state/key",
		"write=@/state/new|x", "append=@/state/key|x", "leave=@/config/settings.toml|x", "patch=@/state/key|XY", "truncate=@/state/key|1",
		"mkdir=@/state/dir", "rename=@/state/rules/saved.toml|taken-@", "remove=@/data/kept.txt",
	} {
		args := func(top string) string { return fmt.Sprintf(`{"op":%q}`, strings.ReplaceAll(op, "@", top)) }
		if r := c.call("files", args("home")); !r.IsError || strings.Contains(r.text(), marker) {
			t.Errorf("%s on what is ours answers %.300s", op, r.text())
		}
		if r := c.call("files", args("plain")); r.IsError {
			t.Errorf("%s: the control does not work: %.300s", op, r.text())
		}
	}
	for _, op := range []string{
		"read=" + filepath.Join(home, "state/key"), "read=/proc/self/root" + filepath.Join(home, "state/key"), "read=/proc/self/environ",
		"link=home/state/key|hard", "symlink=home/state|soft", "read=hard", "read=soft/key",
	} {
		if r := c.call("files", fmt.Sprintf(`{"op":%q}`, op)); !r.IsError || strings.Contains(r.text(), marker) {
			t.Errorf("%s answers %.300s", op, r.text())
		}
	}
	if after := snapshot(t, home, files); after != before {
		t.Errorf("what is ours was changed:\n%s\nbefore:\n%s", after, before)
	}
}

// TestHardLinksToOurs: neither tools nor guests can make one (see the tests
// above). If a person has, nothing can be written through it, and the store of
// secrets, which cannot know who reads the other name, refuses to work.
func TestHardLinksToOurs(t *testing.T) {
	home, ws := home(t), t.TempDir()
	set := command(t, home, ws, "secret", "set", "token")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	set.Stdin = r
	fmt.Fprintln(w, "value")
	w.Close()
	if out, code := person(t, set); code != 0 {
		t.Fatalf("set exits with %d: %s", code, out)
	}
	if out, code := person(t, command(t, home, ws, "secret", "list")); code != 0 {
		t.Fatalf("control: list exits with %d: %s", code, out)
	}
	file := filepath.Join(home, "state/secrets/secrets.json")
	hard := filepath.Join(ws, "hard")
	if err := os.Link(file, hard); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range [][]string{
		{"write_file", `{"path":"hard","content":"x","overwrite":true}`}, {"replace_block", `{"path":"hard","old":"value","new":"other"}`},
	} {
		if out, code := outcome(t, command(t, home, ws, "run", "-q", "--approve", "all", call[0], call[1])); code == 0 {
			t.Errorf("%s through a hard link: %s", call[0], out)
		}
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the store holds %s, %v", after, err)
	}
	if out, code := person(t, command(t, home, ws, "secret", "list")); code == 0 || !strings.Contains(out, "second name") {
		t.Errorf("with a second name of its file, list exits with %d: %s", code, out)
	}
}
