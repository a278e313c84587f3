//go:build amd64 || arm64

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wasmtools/wasmtools/internal/ptytest"
)

// desk is where an agent works: a client of a running server, and a person at
// terminals of their own.
type desk struct {
	*testing.T
	home, ws string
	cmd      *exec.Cmd // the server
	session  *mcpsdk.ClientSession
	seen     *bytes.Buffer // all that came back
}

// sit starts a server on a workspace.
func sit(t *testing.T, home, ws string, args ...string) *desk {
	t.Helper()
	return serve(t, home, ws, command(t, home, ws, append([]string{"mcp", "-q"}, args...)...))
}

// serve is sit with the command that starts the server.
func serve(t *testing.T, home, ws string, cmd *exec.Cmd) *desk {
	t.Helper()
	d := &desk{T: t, home: home, ws: ws, cmd: cmd, seen: &bytes.Buffer{}}
	d.cmd.Stderr = os.Stderr
	var err error
	d.session, err = mcpsdk.NewClient(&mcpsdk.Implementation{Name: "agent", Version: "1"}, nil).
		Connect(t.Context(), &mcpsdk.CommandTransport{Command: d.cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.session.Close() })
	return d
}

// in is d for a subtest.
func (d *desk) in(t *testing.T) *desk {
	c := *d
	c.T = t
	return &c
}

// shellAnswer is what a call of the terminal answers.
type shellAnswer struct {
	State, Signal, Session, Process, Cwd, Output, Foreground, Artifact, Reason, Hint, Sandbox, Match string

	ExitCode  *int `json:"exit_code"`
	Cursor    int64
	Omitted   int64 `json:"omitted_bytes"`
	Screen    []string
	Alternate bool `json:"alternate_screen"`

	code, text string
	isError    bool
	ticket     string
}

// exit is the exit code; -1 for none.
func (a shellAnswer) exit() int {
	if a.ExitCode == nil {
		return -1
	}
	return *a.ExitCode
}

// tool makes a call of any tool.
func (d *desk) tool(name string, args map[string]any) shellAnswer {
	d.Helper()
	r, err := d.session.CallTool(d.Context(), &mcpsdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		d.Fatalf("%v: %v", args, err)
	}
	var a shellAnswer
	all, err := json.Marshal(r)
	if err != nil {
		d.Fatal(err)
	}
	d.seen.Write(all)
	details := r.StructuredContent
	if details == nil {
		details = r.Meta["wasmtools/details"]
	}
	if p, err := json.Marshal(details); err != nil || details != nil && json.Unmarshal(p, &a) != nil {
		d.Fatalf("%v answers %s, %v", args, all, err)
	}
	a.isError = r.IsError
	a.code, _ = r.Meta["wasmtools/code"].(string)
	for _, c := range r.Content {
		if t, ok := c.(*mcpsdk.TextContent); ok {
			a.text += t.Text
		}
	}
	if d, ok := r.Meta["wasmtools/details"].(map[string]any); ok {
		a.ticket, _ = d["ticket"].(string)
	}
	return a
}

// arguments are name, value, name, value...
func arguments(pairs []any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// try makes a call of the terminal.
func (d *desk) try(op string, pairs ...any) shellAnswer {
	d.Helper()
	args := arguments(pairs)
	args["op"] = op
	return d.tool("terminal_session", args)
}

// free makes a call that nobody has to be asked about, or that a rule allows.
func (d *desk) free(op string, pairs ...any) shellAnswer {
	d.Helper()
	a := d.try(op, pairs...)
	if a.code != "" && a.code != "timeout" {
		d.Fatalf("%s %v answers %s: %s", op, pairs, a.code, a.text)
	}
	return a
}

// allowed makes a call that a person is asked about, who says yes at another
// terminal, and makes it again.
func (d *desk) allowed(op string, pairs ...any) shellAnswer {
	d.Helper()
	a := d.try(op, pairs...)
	if a.code != "approval_required" || a.ticket == "" {
		d.Fatalf("%s %v answers %q, %s; want that a person is asked", op, pairs, a.code, a.text)
	}
	if out, code := person(d.T, command(d.T, d.home, d.ws, "approvals", "allow", a.ticket)); code != 0 {
		d.Fatalf("allow exits with %d and prints:\n%s", code, out)
	}
	return d.free(op, pairs...)
}

// wants compares what a call answered.
func (d *desk) wants(a shellAnswer, state string, exit int, output string) shellAnswer {
	d.Helper()
	if a.State != state || a.exit() != exit || a.Output != output {
		d.Errorf("it answers %s, exit code %d, output %q; want %s, %d, %q\n%s", a.State, a.exit(), a.Output, state, exit, output, a.text)
	}
	return a
}

// buildTool builds a program of testdata into dir.
func buildTool(t *testing.T, name, dir string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "./testdata/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
}

// rulesOfTheDay allow what is done all day, and forbid what is never done.
const rulesOfTheDay = `
[[rules]]
name = "git by day"
verdict = "allow"
tools = ["terminal_session"]
commands = [["git", "status"], ["git", "log"], ["git", "diff"], ["pwd"], ["ls"], ["cat"], ["wc"]]

[[rules]]
name = "no push"
verdict = "deny"
commands = [["git", "push"]]
reason = "people push"
`

// TestWorkingDay is an agent's day over MCP: what people do at a terminal, with
// a person's yes where no rule speaks, and without a step that hangs.
func TestWorkingDay(t *testing.T) {
	ptytest.NeedSandbox(t)
	home, ws := home(t), t.TempDir()
	configure(t, home, rulesOfTheDay)
	buildTool(t, "daytool", ws)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(ws, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		p, err := os.ReadFile(filepath.Join(ws, name))
		if err != nil {
			return err.Error()
		}
		return string(p)
	}
	day := sit(t, home, ws)
	open := day.allowed("open")
	session := open.Session
	if session == "" || open.State != "finished" || open.Cwd != "." || !strings.HasPrefix(open.Sandbox, "workspace-write") {
		t.Fatalf("open answers %+v", open)
	}
	step := func(name string, do func(d *desk)) {
		t.Run(name, func(t *testing.T) { do(day.in(t)) })
	}
	needs := func(d *desk, program string) string {
		d.Helper()
		path, err := exec.LookPath(program)
		for _, dir := range []string{"/usr/sbin/", "/usr/local/sbin/"} { // of those that not everybody has in PATH
			if err != nil {
				path, err = exec.LookPath(dir + program)
			}
		}
		if err != nil {
			skip(d.T, program, err.Error())
		}
		return path
	}

	step("git with an editor", func(d *desk) {
		needs(d, "git")
		for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "Agent"}, {"config", "user.email", "a@example.com"}, {"config", "core.editor", "vi"}, {"config", "commit.gpgsign", "false"}} {
			cmd := exec.Command("git", args...)
			cmd.Dir = ws
			if out, err := cmd.CombinedOutput(); err != nil {
				d.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
		write("notes.txt", "one\n")
		d.allowed("run", "session", session, "command", "git add notes.txt")
		// Without a message git asks its editor, which agrees to nothing at once.
		if a := d.allowed("run", "session", session, "command", "git commit"); a.State != "finished" || a.exit() != 1 || !strings.Contains(a.Output, "empty commit message") {
			d.Errorf("git commit answers %+v", a)
		}
		if a := d.allowed("run", "session", session, "command", "git commit -q -m 'first'"); a.State != "finished" || a.exit() != 0 {
			d.Errorf("git commit -m answers %+v", a)
		}
		if a := d.allowed("run", "session", session, "command", "git commit --amend -q && git log --format=%s"); a.State != "finished" || a.exit() != 0 || a.Output != "first\n" {
			d.Errorf("git commit --amend answers %+v", a)
		}
		// A rule allows looking, also for exec, and a pager does not wait.
		d.wants(d.free("exec", "command", "git log --format=%an:%s"), "finished", 0, "Agent:first\n")
		d.wants(d.free("exec", "command", "git status --short", "tty", true), "finished", 0, "?? daytool\n")
		if a := d.try("exec", "command", "git push"); a.code != "denied" || !strings.Contains(a.text, "people push") {
			d.Errorf("git push answers %+v", a)
		}
	})

	step("directory and exit code", func(d *desk) {
		if err := os.MkdirAll(filepath.Join(ws, "sub/dir"), 0o755); err != nil {
			d.Fatal(err)
		}
		if a := d.wants(d.allowed("run", "session", session, "command", "cd sub/dir && (exit 7)"), "finished", 7, ""); a.Cwd != "sub/dir" {
			d.Errorf("it is in %q", a.Cwd)
		}
		if a := d.wants(d.allowed("run", "session", session, "command", "cat <<'EOF'\nhere: $HOME\nEOF\ncd ../.."), "finished", 0, "here: $HOME\n"); a.Cwd != "." {
			d.Errorf("it is in %q", a.Cwd)
		}
	})

	step("progress bars", func(d *desk) {
		const want = "added 42 packages\nDownloaded 1000 kB\ngo: downloading example.com/m0 v1.0.0\ngo: downloading example.com/m1 v1.0.0\ngo: downloading example.com/m2 v1.0.0\n"
		d.wants(d.allowed("run", "session", session, "command", "./daytool progress"), "finished", 0, want)
		d.wants(d.allowed("exec", "command", "./daytool progress", "tty", true), "finished", 0, want)
		d.wants(d.allowed("exec", "command", "./daytool progress 2>&1 | cat"), "finished", 0, want)
	})

	step("development server", func(d *desk) {
		write("page", "version 1\n")
		if a := d.allowed("run", "session", session, "command", "./daytool serve 8080 >server.log 2>&1 &"); a.State != "finished" || a.exit() != 0 || !strings.HasPrefix(a.Output, "[1] ") {
			d.Fatalf("it answers %+v", a)
		}
		if a := d.free("wait", "session", session, "until", "port:8080", "timeout_ms", 60000); a.Reason != "port" {
			d.Fatalf("the port does not come: %+v; %s", a, read("server.log"))
		}
		get := "curl -sS http://127.0.0.1:8080/hello"
		if _, err := exec.LookPath("curl"); err != nil {
			get = "./daytool get http://127.0.0.1:8080/hello"
		}
		d.wants(d.allowed("run", "session", session, "command", get), "finished", 0, "GET /hello: version 1\n")
		write("page", "version 2\n")
		d.wants(d.allowed("run", "session", session, "command", get), "finished", 0, "GET /hello: version 2\n")
		// All that this server runs shares a network, which nobody else has.
		d.wants(d.allowed("exec", "command", "./daytool get http://127.0.0.1:8080/"), "finished", 0, "GET /: version 2\n")
		if a := sit(d.T, home, ws).allowed("exec", "command", "./daytool get http://127.0.0.1:8080/"); a.State != "finished" || a.exit() != 1 || !strings.Contains(a.Output, "refused") {
			d.Errorf("another server's command gets %+v", a)
		}
		if out, err := exec.Command(filepath.Join(ws, "daytool"), "get", "http://127.0.0.1:8080/").CombinedOutput(); err == nil && strings.Contains(string(out), "version 2") {
			d.Errorf("the machine gets %s", out)
		}
		if a := d.allowed("run", "session", session, "command", "kill %1; wait %1 2>/dev/null; ./daytool get http://127.0.0.1:8080/"); a.State != "finished" || a.exit() != 1 {
			d.Errorf("afterwards it answers %+v", a)
		}
	})

	step("what the sandbox refuses", func(d *desk) {
		needs(d, "git")
		write(".env", "KEY=secret-6620\n")
		for command, says := range map[string]string{
			"./daytool get http://192.0.2.1/":  "network is unreachable", // as Go spells it
			`cat "$(printf '.e%s' nv)"`:        "No such device or address",
			"mkdir /etc/made":                  "Read-only file system",
			"git config user.name X || exit 1": "Device or resource busy",
		} {
			if a := d.allowed("exec", "command", command); a.exit() != 1 || !strings.Contains(a.Output, says) || !strings.Contains(a.Hint, "sandbox") {
				d.Errorf("%s answers %+v; want that it is explained", command, a)
			}
		}
		d.keepsNo("secret-6620")
	})

	step("a REPL", func(d *desk) {
		needs(d, "python3")
		if a := d.allowed("run", "session", session, "command", "python3 -q -i", "until", "regex:>>> $", "yield_ms", 60000); a.Reason != "regex" || a.exit() != -1 {
			d.Fatalf("python3 answers %+v", a)
		}
		if a := d.try("run", "session", session, "command", "pwd"); a.State != "busy" && a.code != "approval_required" {
			d.Errorf("a second command answers %+v", a)
		}
		d.allowed("send", "session", session, "text", "def twice(x):\n    y = x * 2\n    return y\n\nprint('got', twice(21))\n")
		if a := d.free("wait", "session", session, "until", "regex:^got 42$", "timeout_ms", 60000); a.Match != "got 42" {
			// The answer may have come with what send gave back.
			if r := d.free("read", "session", session, "cursor", 0, "max_bytes", 65536); !strings.Contains(r.Output, "\ngot 42\n") {
				d.Errorf("the block answers %+v; all: %s", a, r.Output)
			}
		}
		d.allowed("send", "session", session, "text", "exit(3)\n")
		if a := d.free("wait", "session", session, "until", "finished", "timeout_ms", 60000); a.State != "finished" || a.exit() != 3 {
			d.Errorf("leaving answers %+v", a)
		}
	})

	step("a password from a person", func(d *desk) {
		const password = "correct-horse-7391"
		a := d.allowed("run", "session", session, "command", "./daytool ask", "yield_ms", 120000)
		if a.State != "waiting_for_secret" || a.Reason != "input" || a.Foreground == "" || !strings.Contains(a.Output, "password for agent:") {
			d.Fatalf("it answers %+v", a)
		}
		at := ptytest.Start(d.T, command(d.T, home, ws, "attach", session))
		at.Expect("password for agent:")
		at.Send(password + "\r")
		at.Expect("access granted")
		at.Send("\x1d")
		if code := at.Wait(); code != 0 {
			d.Errorf("attach exits with %d", code)
		}
		if a := d.free("wait", "session", session, "until", "finished", "timeout_ms", 60000); a.State != "finished" || a.exit() != 0 {
			d.Errorf("afterwards it answers %+v", a)
		}
		if got, want := read("digest"), fmt.Sprintf("%x", sha256.Sum256([]byte(password))); got != want {
			d.Errorf("the program got another password: %s", got)
		}
		all := d.free("read", "session", session, "cursor", 0, "max_bytes", 65536)
		if strings.Contains(all.Output, password) || strings.Contains(at.Output(), password) {
			d.Error("the password was shown")
		}
		d.keepsNo(password)
	})

	step("a password by reference", func(d *desk) {
		const password = "battery-staple-4186"
		set := ptytest.Start(d.T, command(d.T, home, ws, "secret", "set", "sudo"))
		set.Expect("not shown")
		set.Send(password + "\n")
		if code := set.Wait(); code != 0 {
			d.Fatalf("secret set exits with %d", code)
		}
		if a := d.allowed("run", "session", session, "command", "./daytool ask show", "yield_ms", 120000); a.State != "waiting_for_secret" {
			d.Fatalf("it answers %+v", a)
		}
		d.refuses("send", "denied", "session", session, "text", "guess\n")
		d.allowed("send", "session", session, "secret_ref", "sudo")
		if a := d.free("wait", "session", session, "until", "finished", "timeout_ms", 60000); a.State != "finished" || a.exit() != 0 {
			d.Errorf("it answers %+v", a)
		}
		if got, want := read("digest"), fmt.Sprintf("%x", sha256.Sum256([]byte(password))); got != want {
			d.Errorf("the program got another password: %s", got)
		}
		if all := d.free("read", "session", session, "cursor", 0, "max_bytes", 65536); !strings.Contains(all.Output, "you typed [secret]") {
			d.Errorf("what it shows of the password is not taken out:\n%s", all.Output)
		}
		d.keepsNo(password)
	})

	step("vim", func(d *desk) {
		needs(d, "vim")
		a := d.allowed("run", "session", session, "command", "vim -u NONE -i NONE -n letter.txt", "until", "idle:300", "yield_ms", 60000)
		if a.exit() != -1 {
			d.Fatalf("vim answers %+v", a)
		}
		screen := d.until(session, "vim is on the screen", func(a shellAnswer) bool { return a.Alternate && len(a.Screen) > 1 && a.Screen[1] == "~" })
		if !strings.Contains(screen.Foreground, "vim") && screen.Foreground != "vi" {
			d.Errorf("in the foreground is %q", screen.Foreground)
		}
		d.allowed("send", "session", session, "text", "ihello from vim")
		d.until(session, "it is typed", func(a shellAnswer) bool { return len(a.Screen) > 0 && a.Screen[0] == "hello from vim" })
		d.allowed("send", "session", session, "text", "\x1b:wq\r")
		if a := d.free("wait", "session", session, "until", "finished", "timeout_ms", 60000); a.State != "finished" || a.exit() != 0 {
			d.Errorf("leaving vim answers %+v", a)
		}
		if got := read("letter.txt"); got != "hello from vim\n" {
			d.Errorf("the file holds %q", got)
		}
		if a := d.free("screen", "session", session); a.Alternate {
			d.Errorf("vim is still on the screen: %+v", a)
		}
	})

	step("ssh", func(d *desk) {
		needs(d, "ssh")
		server := needs(d, "sshd")
		if os.Getuid() == 0 {
			skip(d.T, "sshd", "as root it changes to another user, which a sandbox does not let it")
		}
		dir := filepath.Join(ws, "remote")
		if err := os.Mkdir(dir, 0o700); err != nil {
			d.Fatal(err)
		}
		for _, name := range []string{"host", "agent"} {
			if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
				d.Fatalf("ssh-keygen: %v\n%s", err, out)
			}
		}
		write("remote/authorized", read("remote/agent.pub"))
		write("remote/known", "[127.0.0.1]:2222 "+read("remote/host.pub"))
		write("remote/config", "Port 2222\nListenAddress 127.0.0.1\nPidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nHostKey "+
			dir+"/host\nAuthorizedKeysFile "+dir+"/authorized\n")
		d.allowed("run", "session", session, "command", server+" -D -e -f remote/config 2>remote/log &")
		if a := d.free("wait", "session", session, "until", "port:2222", "timeout_ms", 60000); a.Reason != "port" {
			d.Fatalf("the port does not come: %+v; %s", a, read("remote/log"))
		}
		ssh := "ssh -F none -p 2222 -i remote/agent -o UserKnownHostsFile=remote/known -o BatchMode=yes "
		d.wants(d.allowed("run", "session", session, "command", ssh+"127.0.0.1 'echo over there; exit 9'"), "finished", 9, "over there\n")
		if a := d.allowed("run", "session", session, "command", ssh+"-T 127.0.0.1 'PS1=there: exec sh -i'", "until", "regex:there:$", "yield_ms", 60000); a.Reason != "regex" {
			d.Fatalf("ssh answers %+v; %s", a, read("remote/log"))
		}
		// What is typed into ssh is a command, and asked about as one.
		d.allowed("send", "session", session, "text", "echo $((6*7))-remote\n")
		if !within(patience, func() bool {
			return strings.Contains(d.free("read", "session", session, "cursor", 0, "max_bytes", 65536).Output, "42-remote\n")
		}) {
			d.Errorf("the other side answers %s", d.free("read", "session", session, "cursor", 0, "max_bytes", 65536).Output)
		}
		d.allowed("send", "session", session, "text", "exit 6\n")
		if a := d.free("wait", "session", session, "until", "finished", "timeout_ms", 60000); a.State != "finished" || a.exit() != 6 {
			d.Errorf("leaving ssh answers %+v; %s", a, read("remote/log"))
		}
		d.allowed("run", "session", session, "command", "kill %1; wait %1 2>/dev/null")
	})

	step("a build is interrupted", func(d *desk) {
		if a := d.allowed("run", "session", session, "command", "./daytool build; echo not reached", "until", "regex:compiling 5$", "yield_ms", 60000); a.Reason != "regex" || a.State != "running" {
			d.Fatalf("the build answers %+v", a)
		}
		d.free("send", "session", session, "keys", []string{"C-c"})
		if a := d.free("wait", "session", session, "until", "finished", "timeout_ms", 60000); a.State != "finished" || a.exit() != 130 || strings.Contains(a.Output, "not reached") {
			d.Errorf("interrupted, it answers %+v", a)
		}
		d.wants(d.allowed("run", "session", session, "command", "echo still there"), "finished", 0, "still there\n")
		d.allowed("run", "session", session, "command", "./daytool build", "until", "regex:compiling 5$", "yield_ms", 60000)
		d.free("signal", "session", session, "signal", "TERM")
		if a := d.free("wait", "session", session, "until", "finished", "timeout_ms", 60000); a.State != "finished" || a.exit() != 143 {
			d.Errorf("after TERM, it answers %+v", a)
		}
	})

	step("a job outlives polls", func(d *desk) {
		a := d.allowed("exec", "command", "echo begun; until [ -e go ]; do sleep 0.05; done; echo over; exit 4", "yield_ms", 50)
		if a.State != "running" || a.Process == "" {
			d.Fatalf("it answers %+v", a)
		}
		for range 3 {
			if p := d.free("wait", "process", a.Process, "until", "exit", "timeout_ms", 100); p.State != "running" || p.Reason != "time" || p.exit() != -1 {
				d.Errorf("a poll answers %+v", p)
			}
		}
		write("go", "")
		if p := d.free("wait", "process", a.Process, "until", "exit", "timeout_ms", 60000); p.State != "finished" || p.exit() != 4 || !strings.HasSuffix(p.Output, "over\n") {
			d.Errorf("at its end it answers %+v", p)
		}
		d.wants(d.free("read", "process", a.Process, "cursor", 0), "finished", 4, "begun\nover\n")
		d.wants(d.free("read", "process", a.Process, "cursor", len("begun\n")), "finished", 4, "over\n")
	})

	step("reading on from a cursor", func(d *desk) {
		a := d.allowed("exec", "command", "seq 1 3000", "max_output_bytes", 2048)
		if a.State != "finished" || a.exit() != 0 || a.Omitted == 0 {
			d.Fatalf("it answers %+v", a)
		}
		var want strings.Builder
		for i := 1; i <= 3000; i++ {
			fmt.Fprintln(&want, i)
		}
		var all string
		cursor := int64(0)
		for range 100 {
			p := d.free("read", "process", a.Process, "cursor", cursor, "max_bytes", 1000)
			if p.Output == "" {
				break
			}
			if p.Cursor <= cursor {
				d.Fatalf("the cursor stays at %d: %+v", cursor, p)
			}
			// A page ends with a remark that more is to come.
			all, cursor = all+want.String()[cursor:p.Cursor], p.Cursor
			if !strings.Contains(p.Output, strings.TrimSpace(want.String()[cursor-10:cursor])) {
				d.Errorf("the page up to %d is %q", cursor, p.Output)
			}
		}
		if all != want.String() {
			d.Errorf("pages give %d bytes, want %d", len(all), want.Len())
		}
	})

	step("a flood", func(d *desk) {
		a := d.allowed("exec", "command", "echo THE-BEGINNING; yes | head -c 200000000; echo THE-END; exit 5", "yield_ms", 120000)
		for a.State == "running" { // a slow machine
			a = d.free("wait", "process", a.Process, "until", "exit", "timeout_ms", 120000)
		}
		if a.State != "finished" || a.exit() != 5 || a.Omitted < 190_000_000 || a.Artifact == "" || len(a.Output) > 25<<10 || len(a.text) > 30<<10 {
			d.Fatalf("it answers %s, exit code %d, %d omitted, artifact %q, %d bytes of output, %d of text", a.State, a.exit(), a.Omitted, a.Artifact, len(a.Output), len(a.text))
		}
		if !strings.HasSuffix(a.Output, "THE-END\n") {
			d.Errorf("its end is not shown: ...%q", a.Output[max(0, len(a.Output)-100):])
		}
		handle := "artifact:" + strings.TrimPrefix(a.Artifact, "artifact:")
		if r := d.tool("read_open", map[string]any{"path": handle, "selection": map[string]any{"lines": map[string]any{"start": 1, "end": 3}}}); r.isError || !strings.Contains(r.text, "THE-BEGINNING") {
			d.Errorf("read_open answers %s", r.text)
		}
		if r := d.tool("grep", map[string]any{"path": handle, "pattern": "^THE-", "mode": "content"}); r.isError || !strings.Contains(r.text, "THE-BEGINNING") {
			d.Errorf("grep answers %s", r.text)
		}
	})

	if a := day.free("close", "session", session); a.State != "session_ended" && a.State != "finished" {
		t.Errorf("close answers %+v", a)
	}
	day.refuses("run", "", "session", session, "command", "pwd")
	out, code := outcome(t, command(t, home, ws, "evidence", "verify"))
	if code != 0 {
		t.Errorf("evidence verify exits with %d and prints:\n%s", code, out)
	}
}

// refuses makes a call that must fail without a question; code "" leaves open how.
func (d *desk) refuses(op, code string, pairs ...any) {
	d.Helper()
	a := d.try(op, pairs...)
	if a.code == "approval_required" { // it is found out when it is carried out
		if out, code := person(d.T, command(d.T, d.home, d.ws, "approvals", "allow", a.ticket)); code != 0 {
			d.Fatalf("allow exits with %d and prints:\n%s", code, out)
		}
		a = d.try(op, pairs...)
	}
	if code != "" && a.code != code || a.code == "" && a.State == "finished" {
		d.Errorf("%s %v answers %q: %s; want %q", op, pairs, a.code, a.text, code)
	}
}

// patience is for what may take long on a slow machine, and does not unless it
// fails.
const patience = time.Minute

// until looks at a screen until it is so.
func (d *desk) until(session, what string, so func(shellAnswer) bool) shellAnswer {
	d.Helper()
	var a shellAnswer
	if !within(patience, func() bool { a = d.free("screen", "session", session); return so(a) }) {
		d.Fatalf("it never came that %s: %+v", what, a)
	}
	return a
}

// keepsNo holds all that came back, and all that is kept, against a secret.
func (d *desk) keepsNo(secret string) {
	d.Helper()
	if bytes.Contains(d.seen.Bytes(), []byte(secret)) {
		d.Errorf("a result holds %s", secret)
	}
	err := filepath.WalkDir(d.home, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.Contains(path, "/cache/") || strings.Contains(path, "/state/secrets/") {
			return err
		}
		p, err := os.ReadFile(path)
		if bytes.Contains(p, []byte(secret)) {
			d.Errorf("%s holds %s", path, secret)
		}
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
	for _, args := range [][]string{{"evidence", "export"}, {"artifacts", "list"}} {
		if out, _ := outcome(d.T, command(d.T, d.home, d.ws, args...)); strings.Contains(out, secret) {
			d.Errorf("%v shows %s", args, secret)
		}
	}
}
