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
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// openRules opens a runtime on a directory with a policy and a state folder of its
// own, and begins a turn.
func openRules(t *testing.T, dir string, p policy.Policy, sink *ledger, approvers ...approval.Approver) (*wasmtools.Runtime, *wasmtools.Turn) {
	t.Helper()
	o := wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: dir, Policy: func() policy.Policy { return p }}},
		Approvers:  approvers, StateDir: t.TempDir(), CacheDir: filepath.Join(cacheDir(t), "cache"),
	}
	if sink != nil {
		o.Workspaces[0].Evidence = sink
	}
	rt, err := wasmtools.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	turn, err := rt.Begin(t.Context(), wasmtools.Facts{Exposure: catalog.ExposeAll})
	if err != nil {
		t.Fatal(err)
	}
	return rt, turn
}

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func dryReq(name string, args map[string]any) wasmtools.Request {
	b, _ := json.Marshal(args)
	return wasmtools.Request{Tool: name, Arguments: b}
}

func TestOverlay(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"a.txt": "one\ntwo\n", "d/x": "deep\n", ".env": "KEY=1\n"})
	sink := &ledger{}
	asked := 0
	rt, turn := openRules(t, dir, policy.Policy{Mode: policy.ModeAsk, Headless: policy.HeadlessQueue}, sink,
		approverFunc(func(r approval.Request, answer approval.Answer) func() {
			asked++
			if r.Tool != wasmtools.CommitName || !strings.Contains(r.Preview.Diff, "+ONE\n") || !strings.Contains(r.Preview.Diff, "rename from d\n") {
				t.Errorf("asked about %s:\n%s", r.Tool, r.Preview.Diff)
			}
			answer(approval.Decision{Verdict: approval.Allow, By: "test"})
			return func() {}
		}))
	o := turn.Overlay()
	ok := func(name string, args map[string]any, says string) {
		t.Helper()
		out := o.Call(t.Context(), dryReq(name, args))
		if out.Result.IsError || !strings.Contains(out.Result.PlainText(), says) {
			t.Fatalf("%s: %s\nwant %q in it", name, out.Result.PlainText(), says)
		}
	}
	fails := func(name string, args map[string]any, code tool.Code) {
		t.Helper()
		if out := o.Call(t.Context(), dryReq(name, args)); out.Result.Code != code {
			t.Errorf("%s: %s; want the code %s", name, out.Result.PlainText(), code)
		}
	}
	ok("replace_block", map[string]any{"path": "a.txt", "old": "one", "new": "ONE"}, "+ONE")
	ok("read_open", map[string]any{"path": "a.txt"}, "ONE")
	ok("replace_block", map[string]any{"path": "a.txt", "old": "ONE\ntwo", "new": "ONE\nTWO"}, "+TWO")
	ok("move_path", map[string]any{"from": "d", "to": "e/d2"}, "moved d to e/d2")
	ok("write_file", map[string]any{"path": "e/d2/new.txt", "content": "n\n"}, "created")
	ok("grep", map[string]any{"pattern": "deep|^n$", "mode": "content"}, "e/d2/x:1: deep")
	ok("read_discover", map[string]any{"mode": "locate", "query": "e/**"}, "e/d2/new.txt")
	fails("read_open", map[string]any{"path": "d/x"}, tool.NotFound)
	fails("read_open", map[string]any{"path": ".env"}, tool.Protected)
	fails("replace_block", map[string]any{"path": "a.txt", "old": "nope", "new": "x"}, tool.NoMatch)
	fails("todowrite", map[string]any{"todos": []any{}}, tool.NotAvailable)
	fails("no_such_tool", nil, tool.NotRegistered)

	if b, _ := os.ReadFile(dir + "/a.txt"); string(b) != "one\ntwo\n" {
		t.Fatalf("the disk was changed: %q", b)
	}
	diff, err := o.Diff(t.Context())
	if err != nil || !strings.Contains(diff, "-one\n-two\n+ONE\n+TWO\n") || !strings.Contains(diff, "rename from d\nrename to e/d2\n") {
		t.Errorf("%v\n%s", err, diff)
	}
	var refused []tool.Refusal
	for _, c := range o.Calls() {
		refused = append(refused, c.Refused...)
	}
	if len(refused) != 1 || refused[0] != (tool.Refusal{What: "fs", Path: ".env", Code: tool.Protected}) {
		t.Errorf("refused: %+v", refused)
	}
	// Another process goes on with it.
	saved, err := o.Save()
	if err != nil {
		t.Fatal(err)
	}
	o, err = turn.Restore(saved)
	if err != nil {
		t.Fatal(err)
	}
	ok("read_open", map[string]any{"path": "e/d2/new.txt"}, "n")

	out := o.Commit(t.Context(), wasmtools.Request{})
	if out.Result.IsError || asked != 1 {
		t.Fatalf("asked %d times: %s", asked, out.Result.PlainText())
	}
	if b, _ := os.ReadFile(dir + "/e/d2/new.txt"); string(b) != "n\n" {
		t.Errorf("not committed: %q", b)
	}
	if !o.Writes().Empty() || len(o.Calls()) != 0 {
		t.Error("the overlay is not empty after its commit")
	}
	if out := o.Commit(t.Context(), wasmtools.Request{}); out.Result.Code != tool.NoChange {
		t.Errorf("a second commit: %s", out.Result.PlainText())
	}
	// It is one commit, and one undo.
	files, err := rt.Files("")
	if err != nil {
		t.Fatal(err)
	}
	u, err := files.Undo(t.Context(), workspace.UndoOptions{})
	if err != nil || len(u.Conflicts) > 0 || u.Commits[0].By.Tool != wasmtools.CommitName {
		t.Fatalf("undo: %v, %+v", err, u)
	}
	if b, _ := os.ReadFile(dir + "/d/x"); string(b) != "deep\n" {
		t.Error("the undo did not bring everything back")
	}
}

func TestOverlayCommitIsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"a": "1\n", "b": "1\n"})
	_, turn := openRules(t, dir, policy.Policy{Mode: policy.ModeAllowEdits}, nil)
	o := turn.Overlay()
	o.Call(t.Context(), dryReq("write_file", map[string]any{"path": "a", "content": "2\n", "overwrite": true}))
	o.Call(t.Context(), dryReq("write_file", map[string]any{"path": "b", "content": "2\n", "overwrite": true}))
	put(t, dir, map[string]string{"b": "mine\n"})
	if _, err := o.Diff(t.Context()); tool.CodeOf(err) != tool.Stale {
		t.Errorf("Diff = %v", err)
	}
	if out := o.Call(t.Context(), dryReq("read_open", map[string]any{"path": "a"})); out.Result.Code != tool.Stale {
		t.Errorf("a call after a change on the disk: %s", out.Result.PlainText())
	}
	if out := o.Commit(t.Context(), wasmtools.Request{}); out.Result.Code != tool.Stale {
		t.Errorf("commit: %s", out.Result.PlainText())
	}
	if b, _ := os.ReadFile(dir + "/a"); string(b) != "1\n" {
		t.Error("half of it was committed")
	}
	o.Drop()
	if !o.Writes().Empty() {
		t.Error("Drop left something")
	}
}

func TestOverlayRules(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"a": "1\n", "b": "1\n"})
	rule := func(name string, d policy.Decision) policy.Rule {
		return policy.Rule{Name: "r-" + name, Decision: d, Tools: []string{name}}
	}
	_, turn := openRules(t, dir, policy.Policy{Mode: policy.ModeAllowEdits, Headless: policy.HeadlessDeny, Rules: []policy.Rule{
		rule("delete_path", policy.Deny), rule("move_path", policy.Ask), rule("grep", policy.Ask),
	}}, nil)
	o := turn.Overlay()
	if out := o.Call(t.Context(), dryReq("delete_path", map[string]any{"path": "a"})); out.Result.Code != tool.Denied {
		t.Errorf("a denied tool on an overlay: %s", out.Result.PlainText())
	}
	if out := o.Call(t.Context(), dryReq("grep", map[string]any{"pattern": "1"})); out.Result.Code != tool.Denied {
		t.Errorf("a reader that a person must agree to: %s", out.Result.PlainText())
	}
	if out := o.Call(t.Context(), dryReq("move_path", map[string]any{"from": "a", "to": "c"})); out.Result.IsError {
		t.Errorf("a tool that is asked about, on an overlay: %s", out.Result.PlainText())
	}
	// The mode allows edits; the rule wants a person, and nobody is there.
	if out := o.Commit(t.Context(), wasmtools.Request{}); out.Result.Code != tool.ApprovalRequired {
		t.Errorf("the commit: %s", out.Result.PlainText())
	}
	if _, err := os.Stat(dir + "/c"); err == nil {
		t.Error("what a rule wants asked about was committed without asking")
	}
	o.Drop()
	o.Call(t.Context(), dryReq("write_file", map[string]any{"path": "n", "content": "2\n"}))
	if out := o.Commit(t.Context(), wasmtools.Request{}); out.Result.IsError {
		t.Errorf("what the mode allows: %s", out.Result.PlainText())
	}
}

func TestOverlayRestoreRefuses(t *testing.T) {
	dir := t.TempDir()
	_, turn := openRules(t, dir, policy.Policy{Mode: policy.ModeAllowEdits}, nil)
	o := turn.Overlay()
	o.Call(t.Context(), dryReq("write_file", map[string]any{"path": "n", "content": "2\n"}))
	saved, _ := o.Save()
	for name, bad := range map[string]string{
		"no JSON":         "{",
		"other workspace": strings.Replace(string(saved), dir, "/elsewhere", 1),
		"other content":   strings.Replace(string(saved), `"Mgo="`, `"Mwo="`, 1),
		"no content":      strings.Replace(string(saved), `"content":["Mgo="]`, `"content":[]`, 1),
	} {
		if bad == string(saved) {
			t.Fatalf("%s: the test changes nothing", name)
		}
		if _, err := turn.Restore([]byte(bad)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// A path that leaves is refused when it is loaded.
	evil, err := turn.Restore([]byte(strings.ReplaceAll(string(saved), `"path":"n"`, `"path":"../n"`)))
	if err == nil {
		if out := evil.Commit(t.Context(), wasmtools.Request{}); !out.Result.IsError {
			t.Error("a saved overlay wrote outside the workspace")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "..", "n")); err == nil {
		t.Error("a file was made outside")
	}
}
