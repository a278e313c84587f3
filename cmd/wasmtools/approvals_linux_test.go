package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/internal/ptytest"
)

// command is the program under test, in a home of its own.
func command(t *testing.T, home, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("wasmtools", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WASMTOOLS_HOME="+home, "TERM=xterm")
	return cmd
}

// compiledDir is a WASMTOOLS_HOME in which the built-in module is compiled. Not
// the one of sharedHome: documents show there what the first use says.
var (
	compiledOnce sync.Once
	compiledDir  string
)

// home is a WASMTOOLS_HOME of one test, in which nothing need be compiled.
func home(t *testing.T) string {
	t.Helper()
	compiledOnce.Do(func() {
		var err error
		if compiledDir, err = os.MkdirTemp("", "wasmtools-test-compiled-"); err != nil {
			t.Fatal(err)
		}
		if out, err := command(t, compiledDir, t.TempDir(), "run", "-q", "grep", `{"pattern":"x"}`).CombinedOutput(); err != nil {
			t.Fatalf("compiling: %v\n%s", err, out)
		}
	})
	dir := t.TempDir()
	warm(t, compiledDir, dir)
	return dir
}

// warm copies state and cache of one home to another. They belong together:
// what is compiled is authenticated with a key in the state.
func warm(t *testing.T, from, to string) {
	t.Helper()
	for _, dir := range []string{"state", "cache"} {
		if err := os.CopyFS(filepath.Join(to, dir), os.DirFS(filepath.Join(from, dir))); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(to, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(p, 0o700)
		}
		return os.Chmod(p, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// outcome runs a command without a terminal and returns its output and code.
func outcome(t *testing.T, cmd *exec.Cmd) (string, int) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// person runs a command at a terminal of its own and returns what it shows, and
// its code.
func person(t *testing.T, cmd *exec.Cmd) (string, int) {
	t.Helper()
	tm := ptytest.Start(t, cmd)
	code := tm.Wait()
	return tm.Rest(), code
}

// client is an MCP client that cannot be asked anything.
type client struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	id  int
}

func connect(t *testing.T, cmd *exec.Cmd) *client {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	c := &client{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	c.out.Buffer(nil, 16<<20)
	c.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}})
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *client) request(method string, params any) json.RawMessage {
	c.t.Helper()
	c.id++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.id, "method": method, "params": params})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		c.t.Fatal(err)
	}
	for c.out.Scan() {
		var m struct {
			ID     int
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(c.out.Bytes(), &m); err != nil {
			c.t.Fatalf("%v in %s", err, c.out.Bytes())
		}
		if m.ID != c.id {
			continue
		}
		if m.Error != nil {
			c.t.Fatalf("%s: %s", method, m.Error)
		}
		return m.Result
	}
	c.t.Fatalf("%s: the server has ended", method)
	return nil
}

// toolResult is what a call answers.
type toolResult struct {
	IsError bool
	Content []struct{ Text string }
	Meta    struct {
		Code    string         `json:"wasmtools/code"`
		Details map[string]any `json:"wasmtools/details"`
	} `json:"_meta"`
}

func (r toolResult) text() string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

func (c *client) call(tool, args string) toolResult {
	c.t.Helper()
	var r toolResult
	raw := c.request("tools/call", map[string]any{"name": tool, "arguments": json.RawMessage(args)})
	if err := json.Unmarshal(raw, &r); err != nil {
		c.t.Fatalf("%v in %s", err, raw)
	}
	return r
}

// asked makes a call that has to wait and returns its ticket.
func (c *client) asked(tool, args string) string {
	c.t.Helper()
	r := c.call(tool, args)
	ticket, _ := r.Meta.Details["ticket"].(string)
	if !r.IsError || r.Meta.Code != "approval_required" || ticket == "" || !strings.Contains(r.text(), ticket) {
		c.t.Fatalf("%s answers %+v; want approval_required with a ticket", tool, r)
	}
	return ticket
}

// TestApproveFromAnotherTerminal: a client that cannot ask anybody gets a ticket
// at once; a person decides it elsewhere; the same call, repeated, completes.
func TestApproveFromAnotherTerminal(t *testing.T) {
	home, ws := home(t), t.TempDir()
	c := connect(t, command(t, home, ws, "mcp", "-q"))
	const args = `{"path":"new.txt","content":"hello\n"}`
	file := filepath.Join(ws, "new.txt")

	began := time.Now()
	ticket := c.asked("write_file", args)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the ticket took %v", took) // clients give up after 60 s
	}
	if again := c.asked("write_file", args); again != ticket {
		t.Errorf("the same call got another ticket: %s and %s", ticket, again)
	}

	out, code := outcome(t, command(t, home, ws, "approvals", "list", "--json"))
	var list []struct {
		Ticket, Summary string
		Runtime         struct {
			Program, Workspace string
			PID                int
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list) != 1 {
		t.Fatalf("list exits with %d and prints %s (%v)", code, out, err)
	}
	if l := list[0]; l.Ticket != ticket || l.Summary != "write_file: create new.txt" || l.Runtime.Program != "mcp" || l.Runtime.PID != c.cmd.Process.Pid || l.Runtime.Workspace != realPath(ws) {
		t.Errorf("list: %+v", l)
	}
	out, code = outcome(t, command(t, home, ws, "approvals", "show", ticket[:8]))
	if code != 0 || !strings.Contains(out, "  | +hello\n") || !strings.Contains(out, "create "+file) {
		t.Errorf("show exits with %d and prints:\n%s", code, out)
	}

	// Nobody at a terminal: no answer is taken.
	out, code = outcome(t, command(t, home, ws, "approvals", "allow", ticket))
	if code != exitDenied || !strings.Contains(out, "no controlling terminal") {
		t.Errorf("allow without a terminal exits with %d and prints:\n%s", code, out)
	}
	c.asked("write_file", args)
	if _, err := os.Stat(file); err == nil {
		t.Fatal("the file was made before anybody agreed")
	}

	out, code = person(t, command(t, home, ws, "approvals", "allow", ticket))
	if code != 0 || !strings.Contains(out, "allowed "+ticket) {
		t.Fatalf("allow exits with %d and prints:\n%s", code, out)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file was made before the call was repeated")
	}
	if r := c.call("write_file", args); r.IsError {
		t.Fatalf("the repeated call answers %+v", r)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "hello\n" {
		t.Errorf("the file holds %q, %v", got, err)
	}

	// The yes is spent.
	out, code = person(t, command(t, home, ws, "approvals", "allow", ticket))
	if code != exitFailure || !strings.Contains(out, "no call waits under this ticket") {
		t.Errorf("a second allow exits with %d and prints:\n%s", code, out)
	}
}

// TestDenyFromAnotherTerminal: several at once, with the reason for the model.
func TestDenyFromAnotherTerminal(t *testing.T) {
	home, ws := home(t), t.TempDir()
	c := connect(t, command(t, home, ws, "mcp", "-q"))
	calls := []string{`{"path":"a","content":"a"}`, `{"path":"b","content":"b"}`, `{"path":"c","content":"c"}`}
	for _, args := range calls {
		c.asked("write_file", args)
	}
	out, code := person(t, command(t, home, ws, "approvals", "deny", "--all", "--reason", "not before the release", "--json"))
	var answers []answered
	if err := json.Unmarshal([]byte(out), &answers); err != nil || code != 0 || len(answers) != 3 || !answers[0].OK {
		t.Fatalf("deny exits with %d and prints %s (%v)", code, out, err)
	}
	for _, args := range calls {
		if r := c.call("write_file", args); r.Meta.Code != "denied" || !strings.Contains(r.text(), "not before the release") {
			t.Errorf("the call answers %+v", r)
		}
	}
	if left, err := os.ReadDir(ws); err != nil || len(left) > 0 {
		t.Errorf("the workspace holds %v, %v", left, err)
	}
}

// TestAllowSeveral: batch answers, with one wrong ticket among them.
func TestAllowSeveral(t *testing.T) {
	home, ws := home(t), t.TempDir()
	c := connect(t, command(t, home, ws, "mcp", "-q"))
	a, b := c.asked("write_file", `{"path":"a","content":"a"}`), c.asked("write_file", `{"path":"b","content":"b"}`)
	out, code := person(t, command(t, home, ws, "approvals", "allow", a, "abcdefghij", b[:7]))
	if code != exitFailure || !strings.Contains(out, "allowed "+a) || !strings.Contains(out, "allowed "+b) || !strings.Contains(out, "abcdefghij: no call waits") {
		t.Errorf("allow exits with %d and prints:\n%s", code, out)
	}
	for _, args := range []string{`{"path":"a","content":"a"}`, `{"path":"b","content":"b"}`} {
		if r := c.call("write_file", args); r.IsError {
			t.Errorf("the call answers %+v", r)
		}
	}
}

func TestApprovalsUsage(t *testing.T) {
	home, ws := home(t), t.TempDir()
	for _, args := range [][]string{
		{"nonsense"}, {"allow"}, {"deny"}, {"deny", "--all", "x"}, {"show"}, {"show", "a", "b"}, {"list", "x"},
		{"allow", "--save", "r", "a", "b"}, {"deny", "x", "--reason", strings.Repeat("x", 4000)},
	} {
		if out, code := outcome(t, command(t, home, ws, append([]string{"approvals"}, args...)...)); code != exitUsage {
			t.Errorf("approvals %.60v exits with %d, want %d:\n%s", args, code, exitUsage, out)
		}
	}
	if out, code := outcome(t, command(t, home, ws, "approvals", "list", "--json")); code != 0 || out != "[]\n" {
		t.Errorf("an empty list exits with %d and prints %q", code, out)
	}
	if out, code := outcome(t, command(t, home, ws, "approvals", "show", "abcdef")); code != exitFailure || !strings.Contains(out, "no call waits") {
		t.Errorf("show of nothing exits with %d and prints %q", code, out)
	}
}

// TestRunAsks: run asks at the terminal while its output goes elsewhere.
func TestRunAsks(t *testing.T) {
	home := home(t)
	for _, c := range []struct {
		name, typed string
		code        int
		output      string
		made        bool
	}{
		{"yes", "yes\n", exitOK, "", true},
		{"no", "no I would rather not\n", exitDenied, "I would rather not", false},
		{"Enter", "\n", exitDenied, "denied", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ws := t.TempDir()
			cmd := command(t, home, ws, "run", "-q", "write_file", `{"path":"new.txt","content":"hello\n"}`)
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdout, cmd.Stderr = out, out
			tm := ptytest.Start(t, cmd)
			tm.Expect(`(?s)\| \+hello.*Allow this call once\?`)
			tm.Send(c.typed)
			if code := tm.Wait(); code != c.code {
				t.Errorf("it exits with %d, want %d", code, c.code)
			}
			printed, err := os.ReadFile(out.Name())
			if err != nil || !strings.Contains(string(printed), c.output) || strings.Contains(string(printed), "Allow") {
				t.Errorf("its output is %q, %v", printed, err)
			}
			if _, err := os.Stat(filepath.Join(ws, "new.txt")); (err == nil) != c.made {
				t.Errorf("the file: %v", err)
			}
		})
	}
	t.Run("never", func(t *testing.T) {
		ws := t.TempDir()
		write := []string{"run", "-q", "write_file", `{"path":"new.txt","content":"hello\n"}`}
		for name, cmd := range map[string]*exec.Cmd{
			"--no-input":     command(t, home, ws, append(write, "--no-input")...),
			"--approve none": command(t, home, ws, append(write, "--approve", "none")...),
		} {
			if out, code := person(t, cmd); code != map[string]int{"--no-input": exitApproval, "--approve none": exitDenied}[name] || strings.Contains(out, "Allow") {
				t.Errorf("with %s it exits with %d and shows:\n%s", name, code, out)
			}
		}
		if out, code := outcome(t, command(t, home, ws, write...)); code != exitApproval {
			t.Errorf("without a terminal it exits with %d and prints:\n%s", code, out)
		}
	})
	t.Run("another terminal is first", func(t *testing.T) {
		ws := t.TempDir()
		tm := ptytest.Start(t, command(t, home, ws, "run", "-q", "write_file", `{"path":"new.txt","content":"hello\n"}`))
		ticket := strings.Fields(tm.Expect(`ticket +[a-z2-7]{26}`))
		tm.Expect(`Allow this call once\?`)
		if out, code := person(t, command(t, home, ws, "approvals", "allow", ticket[len(ticket)-1])); code != 0 {
			t.Fatalf("allow exits with %d and prints:\n%s", code, out)
		}
		if code := tm.Wait(); code != exitOK {
			t.Errorf("run exits with %d", code)
		}
	})
}

// configure writes the user's configuration.
func configure(t *testing.T, home, text string) {
	t.Helper()
	dir := filepath.Join(home, "config")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "wasmtools.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHeadlessQueue: without a terminal, run waits for another one if it is told
// to, and says for what.
func TestHeadlessQueue(t *testing.T) {
	home, ws := home(t), t.TempDir()
	configure(t, home, "[approvals]\nheadless = \"queue\"\n")
	for verdict, want := range map[string]int{"allow": exitOK, "deny": exitDenied} {
		cmd := command(t, home, ws, "run", "write_file", `{"path":"`+verdict+`.txt","content":"x"}`)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		said, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(said).ReadString('\n')
		fields := strings.Fields(line)
		if err != nil || !strings.Contains(line, "waits for a person") {
			t.Fatalf("run says %q, %v", line, err)
		}
		if out, code := person(t, command(t, home, ws, "approvals", verdict, fields[len(fields)-1])); code != 0 {
			t.Errorf("%s exits with %d and prints:\n%s", verdict, code, out)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("after %s run exits with %d, want %d", verdict, code, want)
		}
	}
}

// TestSaveRuleFromAnotherTerminal: the rule that was shown is the one that is
// saved, and no other id is taken for it.
func TestSaveRuleFromAnotherTerminal(t *testing.T) {
	home, ws := home(t), t.TempDir()
	c := connect(t, command(t, home, ws, "mcp", "-q"))
	const args = `{"path":"notes/a.txt","content":"hello\n"}`
	ticket := c.asked("write_file", args)
	out, code := outcome(t, command(t, home, ws, "approvals", "show", "--json", ticket))
	var shown struct {
		Ticket string
		Diff   string
		Offer  *struct{ ID, TOML string }
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil || code != 0 || shown.Ticket != ticket || shown.Offer == nil || !strings.Contains(shown.Diff, "+hello") {
		t.Fatalf("show exits with %d and prints %s (%v)", code, out, err)
	}
	if out, _ := outcome(t, command(t, home, ws, "approvals", "show", ticket)); !strings.Contains(out, shown.Offer.ID) || !strings.Contains(out, strings.Split(shown.Offer.TOML, "\n")[0]) {
		t.Errorf("show does not show the rule:\n%s", out)
	}
	if out, code := person(t, command(t, home, ws, "approvals", "allow", "--save", "wider", ticket)); code != exitFailure || !strings.Contains(out, "another id") {
		t.Errorf("with a made-up id, allow exits with %d and prints:\n%s", code, out)
	}
	if out, code := person(t, command(t, home, ws, "approvals", "allow", "--save", shown.Offer.ID, ticket)); code != 0 {
		t.Fatalf("allow exits with %d and prints:\n%s", code, out)
	}
	if r := c.call("write_file", args); r.IsError {
		t.Fatalf("the repeated call answers %+v", r)
	}
	saved, err := filepath.Glob(filepath.Join(home, "state/rules/*"))
	if err != nil || len(saved) == 0 {
		t.Fatalf("saved are %v, %v", saved, err)
	}
	found := false
	for _, f := range saved {
		p, err := os.ReadFile(f)
		found = found || err == nil && strings.Contains(string(p), strings.TrimSpace(shown.Offer.TOML))
	}
	if !found {
		t.Errorf("no file of %v holds the rule as it was shown:\n%s", saved, shown.Offer.TOML)
	}
}

// TestSecretCommands: values come from a hidden prompt or from standard input,
// and only from a person.
func TestSecretCommands(t *testing.T) {
	home, ws := home(t), t.TempDir()
	stored := func(name string) string {
		get := secrets(filepath.Join(home, "state"))
		v, err := get(name)
		if err != nil {
			return err.Error()
		}
		return v
	}
	tm := ptytest.Start(t, command(t, home, ws, "secret", "set", "token"))
	tm.Expect("not shown")
	tm.Send("hunter2 \n")
	if code := tm.Wait(); code != 0 || strings.Contains(tm.Output(), "hunter2") {
		t.Errorf("set exits with %d and shows %q", code, tm.Output())
	}
	if got := stored("token"); got != "hunter2 " {
		t.Errorf("stored is %q", got)
	}
	for in, want := range map[string]string{"plain": "plain", "line\n": "line", "dos\r\n": "dos", "two\n\n": "two\n", "cr\r": "cr\r"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := command(t, home, ws, "secret", "set", "piped")
		cmd.Stdin = r
		if _, err := io.WriteString(w, in); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if out, code := person(t, cmd); code != 0 {
			t.Errorf("set from a pipe exits with %d and prints %s", code, out)
		}
		r.Close()
		if got := stored("piped"); got != want {
			t.Errorf("of %q, stored is %q, want %q", in, got, want)
		}
	}
	out, code := person(t, command(t, home, ws, "secret", "list"))
	if code != 0 || !strings.Contains(out, "token") || !strings.Contains(out, "piped") || strings.Contains(out, "hunter2") {
		t.Errorf("list exits with %d and prints:\n%s", code, out)
	}
	if out, code := person(t, command(t, home, ws, "secret", "rm", "token")); code != 0 {
		t.Errorf("rm exits with %d and prints:\n%s", code, out)
	}
	if out, code := person(t, command(t, home, ws, "secret", "rm", "token")); code != exitFailure || !strings.Contains(out, "not_found") {
		t.Errorf("a second rm exits with %d and prints:\n%s", code, out)
	}
	for _, args := range [][]string{{"list"}, {"set", "x"}, {"rm", "piped"}} {
		cmd := command(t, home, ws, append([]string{"secret"}, args...)...)
		cmd.Stdin = strings.NewReader("value\n")
		if out, code := outcome(t, cmd); code != exitDenied || !strings.Contains(out, "for a person") {
			t.Errorf("secret %v without a terminal exits with %d and prints:\n%s", args, code, out)
		}
	}
	if got := stored("piped"); strings.Contains(got, "not_found") {
		t.Error("a command without a terminal removed a secret")
	}
}
