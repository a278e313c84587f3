package wasmtools_test

import (
	"os"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/tool"
)

// What a session has read and somebody changed since is not overwritten, through
// the tools themselves.
func TestStaleGuard(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"a": "one\n", "b": "one\n"})
	_, turn := openRules(t, dir, policy.Policy{Mode: policy.ModeAllowEdits}, nil)
	call := func(turn *wasmtools.Turn, name string, args map[string]any) tool.Code {
		t.Helper()
		return turn.Call(t.Context(), []wasmtools.Request{dryReq(name, args)})[0].Result.Code
	}
	over := func(text string) map[string]any {
		return map[string]any{"path": "a", "content": text, "overwrite": true}
	}
	want := func(what string, got, code tool.Code) {
		t.Helper()
		if got != code {
			t.Errorf("%s: %q; want %q", what, got, code)
		}
	}
	want("read", call(turn, "read_open", map[string]any{"path": "a"}), "")
	put(t, dir, map[string]string{"a": "theirs\n"})
	want("overwrite what changed", call(turn, "write_file", over("mine\n")), tool.Stale)
	want("the same call again", call(turn, "write_file", over("mine\n")), tool.Stale)
	want("a dry run", call(turn, "write_file", map[string]any{"path": "a", "content": "mine\n", "overwrite": true, "dry_run": true}), tool.Stale)
	want("a search is no reading", call(turn, "grep", map[string]any{"pattern": "theirs", "mode": "content"}), "")
	want("still", call(turn, "write_file", over("mine\n")), tool.Stale)
	want("an edit matches afresh", call(turn, "replace_block", map[string]any{"path": "a", "old": "theirs", "new": "ours"}), "")
	want("own write", call(turn, "write_file", over("mine\n")), "")
	want("own write again", call(turn, "write_file", over("mine 2\n")), "")
	put(t, dir, map[string]string{"a": "theirs again\n"})
	want("changed after our write", call(turn, "write_file", over("mine 3\n")), tool.Stale)
	sum := tool.DigestOf([]byte("theirs again\n"))
	args := over("mine 3\n")
	args["expected_sha256"] = string(sum)
	want("with the digest of what is there", call(turn, "write_file", args), "")
	want("what was never read", call(turn, "write_file", map[string]any{"path": "b", "content": "x", "overwrite": true}), "")

	// Another session knows nothing of what this one has read.
	_, other := openRules(t, dir, policy.Policy{Mode: policy.ModeAllowEdits}, nil)
	want("read", call(turn, "read_open", map[string]any{"path": "a"}), "")
	want("another session", call(other, "write_file", over("other\n")), "")
	want("and then this one", call(turn, "write_file", over("this\n")), tool.Stale)

	strict, err := wasmtools.Open(t.Context(), wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: dir, RequireRead: true, Policy: func() policy.Policy { return policy.Policy{Mode: policy.ModeAllowEdits} }}},
		StateDir:   t.TempDir(), CacheDir: cacheDir(t) + "/cache",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	turn = begin(t, strict)
	want("required, and not read", call(turn, "write_file", over("x\n")), tool.Stale)
	want("a new file", call(turn, "write_file", map[string]any{"path": "new", "content": "x"}), "")
	want("read", call(turn, "read_open", map[string]any{"path": "a"}), "")
	want("required, and read", call(turn, "write_file", over("x\n")), "")
	if b, _ := os.ReadFile(dir + "/a"); string(b) != "x\n" {
		t.Errorf("a holds %q", b)
	}

}
