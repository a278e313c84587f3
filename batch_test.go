package wasmtools_test

import (
	"os"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// One call of replace_block changes several files, or none.
func TestEditsOfSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"a.go": "package old\n", "sub/b.go": "package old\r\nold()\r\n", "c.go": "package x\n"})
	rt, turn := openRules(t, dir, policy.Policy{Mode: policy.ModeAllowEdits}, nil)
	call := func(args map[string]any) tool.Result {
		return turn.Call(t.Context(), []wasmtools.Request{dryReq("replace_block", args)})[0].Result
	}
	edit := func(path, old, new string) map[string]any {
		return map[string]any{"path": path, "old": old, "new": new}
	}
	read := func(name string) string {
		b, err := os.ReadFile(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	r := call(map[string]any{"edits": []any{edit("a.go", "old", "new"), edit("c.go", "nowhere", "new"), edit("sub/b.go", "old()", "new()")}})
	if r.Code != tool.NoMatch || !strings.Contains(r.PlainText(), "c.go") || read("a.go") != "package old\n" {
		t.Errorf("%s; a.go holds %q", r.PlainText(), read("a.go"))
	}
	r = call(map[string]any{"edits": []any{edit("a.go", "old", "new"), edit("sub/b.go", "package old", "package new"), edit("sub/b.go", "old()", "new()")}, "dry_run": true})
	if r.IsError || !strings.HasPrefix(r.PlainText(), "dry run, nothing was changed: would have changed 2 files\n") || read("a.go") != "package old\n" {
		t.Errorf("%s", r.PlainText())
	}
	r = call(map[string]any{"edits": []any{edit("a.go", "old", "new"), edit("sub/b.go", "package old", "package new"), edit("sub/b.go", "old()", "new()")}})
	if r.IsError || read("a.go") != "package new\n" || read("sub/b.go") != "package new\r\nnew()\r\n" {
		t.Errorf("%s", r.PlainText())
	}
	for name, args := range map[string]map[string]any{
		"no path at all":            {"old": "a", "new": "b"},
		"an edit without a path":    {"edits": []any{map[string]any{"old": "a", "new": "b"}}},
		"a digest for two files":    {"edits": []any{edit("a.go", "new", "x"), edit("c.go", "x", "y")}, "expected_sha256": strings.Repeat("0", 64)},
		"something else in an edit": {"edits": []any{map[string]any{"path": "a.go", "old": "a", "new": "b", "replace_all": true}}},
	} {
		if r := call(args); r.Code != tool.SchemaInvalid {
			t.Errorf("%s: %s", name, r.PlainText())
		}
	}
	if r := call(map[string]any{"edits": []any{edit("a.go", "new", "x"), edit("../out", "x", "y")}}); r.Code != tool.OutsideRoot || read("a.go") != "package new\n" {
		t.Errorf("a second file outside: %s", r.PlainText())
	}
	files, _ := rt.Files("")
	u, err := files.Undo(t.Context(), workspace.UndoOptions{})
	if err != nil || len(u.Conflicts) > 0 || read("a.go") != "package old\n" || read("sub/b.go") != "package old\r\nold()\r\n" {
		t.Errorf("one undo takes both back: %v %+v", err, u.Conflicts)
	}
}

// What is deleted permanently is asked about as that, and is gone.
func TestDeletePermanently(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"a": "1\n", "b": "1\n"})
	rt, turn := openRules(t, dir, policy.Policy{Mode: policy.ModeAllowEdits}, nil)
	for _, args := range []map[string]any{{"path": "a"}, {"path": "b", "permanent": true}} {
		if r := turn.Call(t.Context(), []wasmtools.Request{dryReq("delete_path", args)})[0].Result; r.IsError ||
			strings.Contains(r.PlainText(), "delete permanently b") != (args["permanent"] == true) {
			t.Errorf("%v: %s", args, r.PlainText())
		}
	}
	files, _ := rt.Files("")
	u, err := files.Undo(t.Context(), workspace.UndoOptions{})
	if err != nil || len(u.Conflicts) != 1 || u.Conflicts[0].Path != "b" {
		t.Errorf("b: %v %+v", err, u.Conflicts)
	}
	if u, err = files.Undo(t.Context(), workspace.UndoOptions{Commit: 1}); err != nil || len(u.Conflicts) != 0 {
		t.Errorf("a: %v %+v", err, u.Conflicts)
	}
}
