//go:build amd64 || arm64

package wasmtools_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/internal/ptytest"
	"github.com/wasmtools/wasmtools/tool"
)

// terminalAt opens a runtime that runs commands by rules.
func terminalAt(t *testing.T, dir string, rules *policy.Policy) (*wasmtools.Runtime, *wasmtools.Turn) {
	t.Helper()
	ptytest.NeedSandbox(t)
	home := t.TempDir()
	rt, err := wasmtools.Open(t.Context(), wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: dir, Policy: func() policy.Policy { return *rules }}},
		StateDir:   filepath.Join(home, "state"), CacheDir: filepath.Join(cacheDir(t), "cache"),
		Terminal: &wasmtools.Terminal{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt, begin(t, rt)
}

func terminalCall(t *testing.T, turn *wasmtools.Turn, args map[string]any) wasmtools.Outcome {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return turn.Call(t.Context(), []wasmtools.Request{{Tool: "terminal_session", Arguments: raw}})[0]
}

// TestTerminalRunsWhatWasAgreedTo: a yes to a command in a directory is of no use
// once another directory has that name, or to another command, variable, time or
// profile. Control: with nothing changed it runs.
func TestTerminalRunsWhatWasAgreedTo(t *testing.T) {
	args := func(change string, v any) map[string]any {
		a := map[string]any{"op": "exec", "command": "pwd; cat who", "cwd": "d", "env": map[string]any{"CI": "1"}, "timeout_ms": 5000}
		if change != "" {
			a[change] = v
		}
		return a
	}
	for _, c := range []struct {
		name string
		swap bool
		args map[string]any
		want tool.Code
	}{
		{"nothing", false, args("", nil), ""},
		{"directory", true, args("", nil), tool.ApprovalMismatch},
		{"command", false, args("command", "cat who"), tool.ApprovalRequired},
		{"variable", false, args("env", map[string]any{"CI": "2"}), tool.ApprovalRequired},
		{"time", false, args("timeout_ms", 6000), tool.ApprovalRequired},
		{"profile", false, args("profile", "read-only"), tool.ApprovalRequired},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, d := range []string{"d", "e"} {
				if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, d, "who"), []byte("I am "+d), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			rt, turn := terminalAt(t, dir, &policy.Policy{Headless: policy.HeadlessQueue})
			first := terminalCall(t, turn, args("", nil))
			wantCode(t, first, tool.ApprovalRequired)
			if err := rt.Decide(first.Ticket, approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
				t.Fatal(err)
			}
			if c.swap {
				for _, m := range [][2]string{{"d", "f"}, {"e", "d"}} {
					if err := os.Rename(filepath.Join(dir, m[0]), filepath.Join(dir, m[1])); err != nil {
						t.Fatal(err)
					}
				}
			}
			o := terminalCall(t, turn, c.args)
			wantCode(t, o, c.want)
			if ran := strings.Contains(o.Result.PlainText(), "I am"); ran != (c.want == "") {
				t.Errorf("it answers %s", o.Result.PlainText())
			}
		})
	}
}

// TestTerminalByRule: what a rule allows runs as it was judged, without a
// session's aliases; a rule that denies holds for what is typed too, and none
// allows that. Looking needs no question, also where nobody is asked.
func TestTerminalByRule(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	rules := &policy.Policy{Headless: policy.HeadlessQueue, Rules: []policy.Rule{
		{Name: "cat", Decision: policy.Allow, Tools: []string{"terminal_session"}, Commands: [][]string{{"cat"}, {"pwd"}}},
		{Name: "no-rm", Decision: policy.Deny, Commands: [][]string{{"rm"}}},
	}}
	rt, turn := terminalAt(t, dir, rules)
	o := terminalCall(t, turn, map[string]any{"op": "exec", "command": "cat a.txt"})
	wantCode(t, o, "")
	if !strings.Contains(o.Result.PlainText(), "text") {
		t.Error(o.Result.PlainText())
	}
	wantCode(t, terminalCall(t, turn, map[string]any{"op": "exec", "command": "rm a.txt"}), tool.Denied)
	wantCode(t, terminalCall(t, turn, map[string]any{"op": "exec", "command": "cat a.txt", "profile": "none"}), tool.Denied)

	approved := func(args map[string]any) wasmtools.Outcome {
		t.Helper()
		first := terminalCall(t, turn, args)
		wantCode(t, first, tool.ApprovalRequired)
		if err := rt.Decide(first.Ticket, approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
			t.Fatal(err)
		}
		o := terminalCall(t, turn, args)
		wantCode(t, o, "")
		return o
	}
	var opened struct{ Session string }
	if err := json.Unmarshal(approved(map[string]any{"op": "open"}).Result.Structured, &opened); err != nil {
		t.Fatal(err)
	}
	run := func(command string) map[string]any {
		return map[string]any{"op": "run", "session": opened.Session, "command": command}
	}
	wantCode(t, terminalCall(t, turn, run("cat a.txt")), "") // the shell is as it was started
	approved(run("cat() { echo forged; }"))
	wantCode(t, terminalCall(t, turn, run("cat a.txt")), tool.ApprovalRequired) // and now it is not
	wantCode(t, terminalCall(t, turn, map[string]any{"op": "send", "session": opened.Session, "text": "cat a.txt\n"}), tool.ApprovalRequired)
	wantCode(t, terminalCall(t, turn, map[string]any{"op": "send", "session": opened.Session, "text": "rm a.txt\n"}), tool.Denied)
	*rules = policy.Policy{Mode: policy.ModeDeny}
	wantCode(t, terminalCall(t, turn, run("cat a.txt")), tool.Denied)
	for _, args := range []map[string]any{{"op": "list"}, {"op": "read", "session": opened.Session}, {"op": "close", "session": opened.Session}} {
		wantCode(t, terminalCall(t, turn, args), "")
	}
}

// TestSecretsThatCannotBeFound: in a tree too deep to be looked at whole nothing
// runs, rather than beside secrets that nobody hid. Control: a directory less, and
// it does.
func TestSecretsThatCannotBeFound(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, strings.Repeat("d/", 256))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	rules := &policy.Policy{Rules: []policy.Rule{{Name: "echo", Decision: policy.Allow, Commands: [][]string{{"echo"}}}}}
	args := map[string]any{"op": "exec", "command": "echo it ran"}
	for _, c := range []struct {
		change func(string) error
		want   tool.Code
	}{
		{func(string) error { return nil }, ""},
		{func(p string) error { return os.Mkdir(filepath.Join(p, "d"), 0o755) }, tool.NotAvailable},
	} {
		if err := c.change(deep); err != nil {
			t.Fatal(err)
		}
		_, turn := terminalAt(t, dir, rules)
		o := terminalCall(t, turn, args)
		wantCode(t, o, c.want)
		if text := o.Result.PlainText(); strings.Contains(text, "it ran") != (c.want == "") {
			t.Error(text)
		}
	}
}
