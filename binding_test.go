package wasmtools_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/internal/wasmasm"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
)

// diceGuest is a module whose tool writes eight bytes to the file r, which are
// random if dice is set and constant otherwise.
func diceGuest(dice bool) []byte {
	const answer = `{"content":[{"type":"text","text":"ok"}]}`
	i32, i64 := wasmasm.I32, wasmasm.I64
	about := `{"abi":1,"name":"dice","version":"1.0.0","tools":[{"name":"throw","description":"Writes a file.",` +
		`"inputSchema":{"type":"object"},"effects":["write"],"capabilities":{"fs.write":["**"]}}]}`
	body := wasmasm.Code{}
	if dice {
		body = body.I32Const(2048).I32Const(8).Call(0).Drop()
	}
	body = body.I32Const(1500).I32Const(1).I32Const(2048).I32Const(8).I32Const(1).Call(1).Drop().Packed(8, uint32(len(answer)))
	m := &wasmasm.Module{
		Imports: []wasmasm.Import{
			{Module: "wasi_snapshot_preview1", Name: "random_get", Type: wasmasm.FuncType{Params: []byte{i32, i32}, Results: []byte{i32}}},
			{Module: "wasmtools_v1", Name: "fs_write", Type: wasmasm.FuncType{Params: []byte{i32, i32, i32, i32, i32}, Results: []byte{i64}}},
		},
		Memory: &wasmasm.Limits{Min: 1, Max: -1},
		Data:   []wasmasm.Data{{Offset: 8, Bytes: []byte(answer)}, {Offset: 1500, Bytes: []byte("r")}, {Offset: 2048, Bytes: []byte("constant")}},
		Funcs: []wasmasm.Func{
			{Type: wasmasm.FuncType{Params: []byte{i32}, Results: []byte{i32}}, Body: wasmasm.Code{}.I32Const(1024), Export: "wt_alloc"},
			{Type: wasmasm.FuncType{Params: []byte{i32, i32}, Results: []byte{i64}}, Body: body, Export: "wt_call"},
		},
		Customs: []wasmasm.Custom{{Name: manifest.Section, Data: []byte(about)}},
	}
	return m.Encode()
}

// TestGuestThatWritesSomethingElse: the guest's second run would change other
// bytes than the person saw. The yes is for what was seen, so the repeated call
// is refused, and resuming the ticket writes what was seen. Control: a guest
// that writes the same again is carried out.
func TestGuestThatWritesSomethingElse(t *testing.T) {
	for _, c := range []struct {
		name         string
		dice, resume bool
		want         tool.Code
	}{
		{"repeated", true, false, tool.ApprovalMismatch},
		{"resumed", true, true, ""},
		{"control", false, false, ""},
	} {
		dir := t.TempDir()
		l := &ledger{}
		rt, err := wasmtools.Open(t.Context(), wasmtools.Options{
			Workspaces: []wasmtools.Workspace{{Dir: dir, Evidence: l}}, StateDir: filepath.Join(cacheDir(t), "state"), CacheDir: filepath.Join(cacheDir(t), "cache"),
			Modules: []wasmtools.Module{{Code: diceGuest(c.dice), Grants: map[string]hostfuncs.Grant{"throw": {Write: []string{"r"}}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		turn := begin(t, rt)
		first := turn.Call(t.Context(), []wasmtools.Request{req("one", "throw", "{}")})[0]
		wantCode(t, first, tool.ApprovalRequired)
		_, seen, _ := strings.Cut(first.Result.Details["diff"].(string), "\n@@")
		if err := rt.Decide(first.Ticket, approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
			t.Fatal(err)
		}
		var o wasmtools.Outcome
		if c.resume {
			o = turn.Resume(t.Context(), first.Ticket)
		} else {
			o = turn.Call(t.Context(), []wasmtools.Request{req("two", "throw", "{}")})[0]
		}
		wantCode(t, o, c.want)
		p, err := os.ReadFile(filepath.Join(dir, "r"))
		switch {
		case c.want != "":
			if err == nil {
				t.Errorf("%s: %q was written", c.name, p)
			}
			by := l.check(t)
			if by["one"].last().Status != evidence.Denied || by["two"].last().Code != tool.ApprovalMismatch {
				t.Errorf("%s: recorded as %+v and %+v", c.name, by["one"].last(), by["two"].last())
			}
		case err != nil:
			t.Errorf("%s: nothing was written: %v", c.name, err)
		case l.check(t)["one"].last().Writes[0].After != tool.DigestOf(p):
			t.Errorf("%s: the record and the disk differ", c.name)
		case !c.dice && !strings.Contains(seen, string(p)):
			t.Errorf("%s: the diff %q does not show %q", c.name, seen, p)
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestYesIsForOneCall: a yes to one call is of no use to one that differs in
// its arguments, in its session, or in the module behind the name.
func TestYesIsForOneCall(t *testing.T) {
	dir := t.TempDir()
	open := func(code []byte) (*wasmtools.Runtime, *wasmtools.Turn) {
		rt, err := wasmtools.Open(t.Context(), wasmtools.Options{
			Workspaces: []wasmtools.Workspace{{Dir: dir}}, StateDir: filepath.Join(cacheDir(t), "state"), CacheDir: filepath.Join(cacheDir(t), "cache"),
			Modules: []wasmtools.Module{{Code: code, Grants: map[string]hostfuncs.Grant{"throw": {Write: []string{"r"}}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rt.Close() })
		return rt, begin(t, rt)
	}
	rt, turn := open(diceGuest(false))
	approve := func(name, args string) string {
		t.Helper()
		o := call(t, turn, name, args)
		wantCode(t, o, tool.ApprovalRequired)
		if err := rt.Decide(o.Ticket, approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
			t.Fatal(err)
		}
		return o.Ticket
	}
	const args = `{"path":"a","content":"x"}`
	approve("write_file", args)
	approve("throw", "{}")
	wantCode(t, call(t, turn, "write_file", `{"path":"b","content":"x"}`), tool.ApprovalRequired)
	wantCode(t, call(t, turn, "write_file", `{"path":"a","content":"y"}`), tool.ApprovalRequired)
	_, otherModule := open(append(diceGuest(false), 0, 2, 1, 'x')) // one more, empty custom section: another identity
	wantCode(t, call(t, otherModule, "throw", "{}"), tool.ApprovalRequired)
	wantCode(t, call(t, otherModule, "write_file", args), tool.ApprovalRequired)
	// Control: the same calls, spelled differently, are the ones that were agreed to.
	if o := call(t, turn, "write_file", `{"content":"x",  "path":"a"}`); o.Result.IsError {
		t.Error(o.Result.PlainText())
	}
	if o := call(t, turn, "throw", ` { } `); o.Result.IsError {
		t.Error(o.Result.PlainText())
	}
}

// TestAnswersTwiceLateAndReordered: of all answers to all tickets each counts
// once, for its own ticket.
func TestAnswersTwiceLateAndReordered(t *testing.T) {
	dir := t.TempDir()
	a := &asker{}
	rt := open(t, dir, []approval.Approver{a})
	turn := begin(t, rt)
	var outs [2]wasmtools.Outcome
	for i, path := range []string{"a", "b"} {
		outs[i] = turn.Call(t.Context(), []wasmtools.Request{{
			Tool: "write_file", Arguments: []byte(`{"path":"` + path + `","content":"x"}`), Patience: time.Millisecond,
		}})[0]
		wantCode(t, outs[i], tool.ApprovalRequired)
	}
	yes, no := approval.Decision{Verdict: approval.Allow}, approval.Decision{Verdict: approval.Deny}
	if err := a.answers[1](no); err != nil { // b first
		t.Fatal(err)
	}
	if err := a.answers[0](yes); err != nil {
		t.Fatal(err)
	}
	if err := a.answers[1](yes); err != approval.ErrAnswered {
		t.Errorf("a second answer got %v", err)
	}
	wantCode(t, turn.Resume(t.Context(), outs[1].Ticket), tool.Denied)
	wantCode(t, turn.Resume(t.Context(), outs[0].Ticket), "")
	if err := a.answers[0](yes); err == nil {
		t.Error("an answer counted after the ticket was redeemed")
	}
	if _, err := os.Stat(filepath.Join(dir, "b")); err == nil {
		t.Error("the refused file was written")
	}
}

// TestExpiryAtTheBoundary: a yes that is used at the moment when the ticket
// ends is used too late; one a tick before is not.
func TestExpiryAtTheBoundary(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  error
	}{{time.Minute - 1, nil}, {time.Minute, approval.ErrExpired}} {
		synctest.Test(t, func(t *testing.T) {
			var lapsed atomic.Int32
			d := approval.NewDesk(nil, time.Minute)
			tk, err := d.Submit(approval.Request{Session: "s", Tool: "x", Lapsed: func() { lapsed.Add(1) }})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.after) // fake time
			if err := d.Decide(tk.Request().Ticket, approval.Decision{Verdict: approval.Allow}); err != c.want {
				t.Errorf("Decide after %s = %v; want %v", c.after, err, c.want)
			}
			if c.want == nil {
				if err := tk.Redeem(""); err != nil {
					t.Error(err)
				}
			} else if _, ok := d.Find(tk.Request().Ticket); ok {
				t.Error("an expired ticket is still there")
			}
			if got := lapsed.Load(); (got == 1) != (c.want != nil) {
				t.Errorf("after %s the ticket lapsed %d times", c.after, lapsed.Load())
			}
		})
	}
}

// shellTool runs a command in a directory, with an environment and a time limit
// that others may change at any time, as those of a terminal's session.
type shellTool struct {
	cwd     string
	env     map[string]string
	timeout time.Duration
	late    func() // called when the command is about to begin
	text    string // "" is make clean
	ran     int
	plan    *tool.Plan // of the last run
}

func (*shellTool) Definition() tool.Definition {
	return tool.Definition{Name: "run_it", Description: "Runs a command.", Input: []byte(`{"type":"object"}`), Effects: tool.Executes, Mode: tool.Sequential}
}

func (*shellTool) Origin() tool.Origin { return tool.Origin{Source: tool.Builtin} }

func (s *shellTool) Preview(context.Context, tool.Invocation, tool.Sink) (tool.Preview, error) {
	return tool.Preview{Command: cmp.Or(s.text, "make clean"), Cwd: s.cwd, Env: s.env, Binding: s.binding()}, nil
}

func (s *shellTool) binding() tool.Digest {
	return tool.DigestOf(fmt.Appendf(nil, "%q %q %v", s.cwd, s.env, s.timeout))
}

func (s *shellTool) Call(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
	if s.late != nil {
		s.late()
	}
	if inv.Approved != s.binding() {
		return tool.ErrorResult(tool.Errorf(tool.ApprovalMismatch, "the command would run otherwise")), nil
	}
	s.ran, s.plan = s.ran+1, inv.Plan
	return tool.TextResult("done"), nil
}

// TestCommandThatWouldRunOtherwise: what a person agreed to is a command in a
// directory, with an environment and a time limit. If one of them is another
// when it is to begin, nothing runs; the record says so. Control: with all of
// them the same it runs, once.
func TestCommandThatWouldRunOtherwise(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*shellTool)
		want   tool.Code
	}{
		{"nothing", func(*shellTool) {}, ""},
		{"cwd", func(s *shellTool) { s.cwd = "/" }, tool.ApprovalMismatch},
		{"env", func(s *shellTool) { s.env = map[string]string{"MAKEFLAGS": "-f other"} }, tool.ApprovalMismatch},
		{"timeout", func(s *shellTool) { s.timeout = time.Hour }, tool.ApprovalMismatch},
	} {
		for _, when := range []string{"repeated", "resumed", "begun"} {
			t.Run(c.name+" "+when, func(t *testing.T) {
				s := &shellTool{cwd: "/src", env: map[string]string{"V": "1"}, timeout: time.Minute}
				l := &ledger{}
				rt, err := wasmtools.Open(t.Context(), wasmtools.Options{
					Workspaces: []wasmtools.Workspace{{Dir: t.TempDir(), Evidence: l}},
					Sources:    []catalog.Source{catalog.Static("test", s)},
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { rt.Close() })
				turn := begin(t, rt)
				call := func() wasmtools.Outcome {
					return turn.Call(t.Context(), []wasmtools.Request{req("", "run_it", `{}`)})[0]
				}
				first := call()
				wantCode(t, first, tool.ApprovalRequired)
				if err := rt.Decide(first.Ticket, approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
					t.Fatal(err)
				}
				change := func() { c.change(s) }
				if when == "begun" {
					s.late = change
				} else {
					change()
				}
				var o wasmtools.Outcome
				if when == "resumed" {
					o = turn.Resume(t.Context(), first.Ticket)
				} else {
					o = call()
				}
				if o.Result.Code != c.want {
					t.Errorf("it answers %q: %s", o.Result.Code, o.Result.PlainText())
				}
				if want := map[bool]int{true: 1}[c.want == ""]; s.ran != want {
					t.Errorf("it ran %d times, want %d", s.ran, want)
				}
				l.check(t)
				if n := l.count(evidence.Completed); n != s.ran {
					t.Errorf("%d records are completed; it ran %d times", n, s.ran)
				}
			})
		}
	}
}

// TestCommandsAreJudged: rules about commands see what a preview says would run,
// where it would run, and what runs is what they saw. Files on the lists are not
// theirs to allow.
func TestCommandsAreJudged(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	for _, p := range []string{filepath.Join(bin, "make"), filepath.Join(bin, "cat"), filepath.Join(dir, ".env"), filepath.Join(dir, "a.txt")} {
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".env", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "relative"+string(filepath.ListSeparator)+bin)
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text     string
		decision policy.Decision
		want     tool.Code
	}{
		{"make clean", policy.Allow, ""},
		{"make clean", policy.Deny, tool.Denied},
		{"make other", policy.Allow, tool.ApprovalRequired},
		{"cat a.txt", policy.Allow, ""},
		{"cat .env", policy.Allow, tool.Protected},
		{"cat link", policy.Allow, tool.Protected},
	} {
		t.Run(fmt.Sprint(c.text, " ", c.decision), func(t *testing.T) {
			s := &shellTool{cwd: dir, text: c.text}
			rules := policy.Policy{Headless: policy.HeadlessQueue, Rules: []policy.Rule{
				{Name: "ours", Decision: c.decision, Tools: []string{"run_it"}, Commands: [][]string{{"make", "clean"}, {"cat"}}},
			}}
			rt, err := wasmtools.Open(t.Context(), wasmtools.Options{
				Workspaces: []wasmtools.Workspace{{Dir: dir, Policy: func() policy.Policy { return rules }}},
				Sources:    []catalog.Source{catalog.Static("test", s)},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { rt.Close() })
			o := begin(t, rt).Call(t.Context(), []wasmtools.Request{req("", "run_it", `{}`)})[0]
			wantCode(t, o, c.want)
			if c.want != "" {
				if s.ran != 0 {
					t.Errorf("it ran %d times", s.ran)
				}
				return
			}
			words := strings.Fields(c.text)
			if s.plan == nil || len(s.plan.Pipe) != 1 || s.plan.Pipe[0].Path != filepath.Join(bin, words[0]) || !slices.Equal(s.plan.Pipe[0].Args, words) {
				t.Errorf("what was judged is %+v", s.plan)
			}
		})
	}
}
