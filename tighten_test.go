package wasmtools_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// TestListsAreAddedTo: a path that is put on the list of secrets while the
// runtime is open is one from the next call on, and stays one when the list is
// taken back. Control: before that it is read.
func TestListsAreAddedTo(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.txt"), []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var deny atomic.Bool
	rt, err := wasmtools.Open(t.Context(), wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: dir, Lists: func() (denyRead, protect []workspace.Rule) {
			if deny.Load() {
				denyRead = []workspace.Rule{{Glob: "plan.*", Name: "plans", Where: "wasmtools.toml:3"}}
				protect = []workspace.Rule{{Glob: "*.lock", Name: "locks", Where: "wasmtools.toml:4"}}
			}
			return denyRead, protect
		}}},
		StateDir: filepath.Join(cacheDir(t), "state"), CacheDir: filepath.Join(cacheDir(t), "cache"), Approvers: []approval.Approver{approval.Always(approval.Allow)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	turn := begin(t, rt)
	read := func() wasmtools.Outcome { return call(t, turn, "read_open", `{"path":"plan.txt"}`) }
	wantCode(t, read(), "")
	wantCode(t, call(t, turn, "write_file", `{"path":"a.lock","content":"x"}`), "")
	deny.Store(true)
	wantCode(t, read(), tool.Protected)
	wantCode(t, call(t, turn, "write_file", `{"path":"b.lock","content":"x"}`), tool.ApprovalRequired)
	deny.Store(false)
	wantCode(t, read(), tool.Protected)
}
