package wasmtools_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

// TestToolsTakenAway: what the configuration takes away stays registered, says
// why it is not there, and cannot be called by any of its names.
func TestToolsTakenAway(t *testing.T) {
	gone := map[string]bool{"delete_path": true, "replace_block": true}
	turn := begin(t, openNarrow(t, wasmtools.Workspace{Dir: t.TempDir(), Tools: func(name string) bool { return !gone[name] }}, wasmtools.Limits{}))
	for _, d := range turn.Tools() {
		if gone[d.Name] {
			t.Errorf("%s is shown", d.Name)
		}
	}
	for _, it := range turn.List() {
		if gone[it.Definition.Name] != (it.State != catalog.Exposed) {
			t.Errorf("%s is %s (%s)", it.Definition.Name, it.State, it.Reason)
		}
	}
	for _, name := range []string{"delete_path", "replace_block", "edit"} {
		out := turn.Call(t.Context(), []wasmtools.Request{req("", name, `{"path":"a","old":"x","new":"y"}`)})[0]
		if out.Result.Code != tool.NotAvailable {
			t.Errorf("%s = %q, want not_available", name, out.Result.Code)
		}
	}
}

// TestLimitsAreLowered: a call that needs more than it may have ends, and does
// not without the limit.
func TestLimitsAreLowered(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limits wasmtools.Limits
		want   tool.Code
	}{
		{wasmtools.Limits{}, ""},
		{wasmtools.Limits{HostCalls: 1}, tool.Quota},
		{wasmtools.Limits{Time: time.Nanosecond}, tool.Timeout},
	} {
		turn := begin(t, openNarrow(t, wasmtools.Workspace{Dir: dir}, c.limits))
		out := turn.Call(t.Context(), []wasmtools.Request{req("", "write_file", `{"path":"b/c.txt","content":"x","dry_run":true}`)})[0]
		if out.Result.Code != c.want {
			t.Errorf("with %+v: %q, want %q", c.limits, out.Result.Code, c.want)
		}
	}
}

// TestHardLinks: a file with two names is written only where that was allowed.
func TestHardLinks(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		dir := t.TempDir()
		a := filepath.Join(dir, "a.txt")
		if err := os.WriteFile(a, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(a, filepath.Join(dir, "b.txt")); err != nil {
			t.Skip("hard links cannot be made here: ", err)
		}
		turn := begin(t, openNarrow(t, wasmtools.Workspace{Dir: dir, AllowHardLinks: allowed}, wasmtools.Limits{}))
		out := turn.Call(t.Context(), []wasmtools.Request{req("", "write_file", `{"path":"a.txt","content":"new","overwrite":true}`)})[0]
		if out.Result.IsError == allowed {
			t.Errorf("allowed %v: %q", allowed, out.Result.Code)
		}
	}
}

func openNarrow(t *testing.T, w wasmtools.Workspace, l wasmtools.Limits) *wasmtools.Runtime {
	t.Helper()
	rt, err := wasmtools.Open(t.Context(), wasmtools.Options{
		Workspaces: []wasmtools.Workspace{w}, Limits: l,
		StateDir: filepath.Join(cacheDir(t), "state"), CacheDir: filepath.Join(cacheDir(t), "cache"),
		Approvers: []approval.Approver{approval.Always(approval.Allow)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}
