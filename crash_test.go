//go:build unix

package wasmtools_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/tool"
)

const (
	crashEnv   = "WASMTOOLS_CRASH"    // directory; set in the process that ends itself
	crashAtEnv = "WASMTOOLS_CRASH_AT" // the event after which it does
)

// mortal is a record whose process is killed once an event of one kind is
// written.
type mortal struct {
	evidence.Sink
	at evidence.EventKind
}

func (m mortal) Event(h evidence.Handle, e evidence.Event) error {
	err := m.Sink.Event(h, e)
	if err == nil && e.Kind == m.at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal is there
	}
	return err
}

func crashOptions(base string, sink evidence.Sink, approver approval.Approver) wasmtools.Options {
	return wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: filepath.Join(base, "ws"), Evidence: sink}},
		StateDir:   filepath.Join(base, "state"), CacheDir: filepath.Join(base, "cache"), Approvers: []approval.Approver{approver},
	}
}

// crash makes one call that a person agrees to.
func crash(base string) error {
	root, state := filepath.Join(base, "ws"), filepath.Join(base, "state")
	log, err := evidence.Open(evidence.Options{Dir: evidence.Dir(state, root), Workspace: root, Program: "crash"})
	if err != nil {
		return err
	}
	yes := approval.Func(func(approval.Request) approval.Decision {
		return approval.Decision{Verdict: approval.Allow, By: "ann"}
	})
	ctx := context.Background()
	rt, err := wasmtools.Open(ctx, crashOptions(base, mortal{log, evidence.EventKind(os.Getenv(crashAtEnv))}, yes))
	if err != nil {
		return err
	}
	turn, err := rt.Begin(ctx, wasmtools.Facts{})
	if err != nil {
		return err
	}
	turn.Call(ctx, []wasmtools.Request{{CallID: "c", Tool: "write_file", Arguments: []byte(`{"path":"a.txt","content":"x"}`)}})
	return log.Close()
}

// TestCrashBetweenYesAndCommit: the process ends after the yes is recorded. The
// file is not there, the one record of the call tells of the yes and of no
// outcome, and the yes is gone with the process: the same call is asked about
// again. Control: a process that goes on writes the file.
func TestCrashBetweenYesAndCommit(t *testing.T) {
	for _, c := range []struct {
		at     evidence.EventKind
		status evidence.Status
		there  bool
	}{
		{evidence.Decided, evidence.Interrupted, false},
		{evidence.Started, evidence.Interrupted, false},
		{"", evidence.Completed, true},
	} {
		t.Run("after "+string(c.at), func(t *testing.T) {
			base := t.TempDir()
			root, state := filepath.Join(base, "ws"), filepath.Join(base, "state")
			for _, d := range []string{root, state} {
				if err := os.Mkdir(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(cacheDir(t), filepath.Join(base, "cache")); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), crashEnv+"="+base, crashAtEnv+"="+string(c.at))
			if out, err := cmd.CombinedOutput(); (err == nil) != c.there {
				t.Fatalf("the process ended with %v: %s", err, out)
			}
			if _, err := os.Stat(filepath.Join(root, "a.txt")); (err == nil) != c.there {
				t.Errorf("the file is there: %t, want %t", err == nil, c.there)
			}
			dir := evidence.Dir(state, root)
			report, err := evidence.Verify(dir, evidence.VerifyOptions{KeyFile: filepath.Join(state, "evidence", "key")})
			if err != nil || len(report.Faults) > 0 {
				t.Fatal(err, report.Faults)
			}
			r, err := evidence.OpenReader(dir)
			if err != nil {
				t.Fatal(err)
			}
			calls := 0
			for call, err := range r.Calls(time.Time{}) {
				if err != nil {
					t.Fatal(err)
				}
				calls++
				last := evidence.EventKind("")
				for _, e := range call.Events {
					last = e.Kind
				}
				if call.Status != c.status || c.at != "" && (call.Outcome != nil || last != c.at) {
					t.Errorf("the record says %s after %s, want %s after %s", call.Status, last, c.status, c.at)
				}
			}
			if calls != 1 {
				t.Errorf("%d calls are recorded", calls)
			}

			if c.there {
				return
			}
			rt, err := wasmtools.Open(t.Context(), crashOptions(base, evidence.Discard{}, &asker{}))
			if err != nil {
				t.Fatal(err)
			}
			defer rt.Close()
			o := begin(t, rt).Call(t.Context(), []wasmtools.Request{{
				CallID: "c", Tool: "write_file", Arguments: []byte(`{"path":"a.txt","content":"x"}`), Patience: time.Millisecond,
			}})[0]
			wantCode(t, o, tool.ApprovalRequired)
		})
	}
}

// crashChild ends the process if it was started by TestCrashBetweenYesAndCommit.
func crashChild() {
	base := os.Getenv(crashEnv)
	if base == "" {
		return
	}
	if err := crash(base); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}
