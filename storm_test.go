//go:build unix

package wasmtools_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/tool"
)

const stormEnv = "WASMTOOLS_STORM" // directory; set in the processes that are killed

// storm makes calls until it is killed, and says on stdout what each one
// answered, after it was answered.
func storm(base string) error {
	root := filepath.Join(base, "ws")
	state := filepath.Join(base, "state")
	log, err := evidence.Open(evidence.Options{Dir: evidence.Dir(state, root), Workspace: root, Program: "storm"})
	if err != nil {
		return err
	}
	ctx := context.Background()
	rt, err := wasmtools.Open(ctx, wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: root, Evidence: log}}, StateDir: state, CacheDir: filepath.Join(base, "cache"),
		Approvers: []approval.Approver{approval.Func(func(r approval.Request) approval.Decision {
			if strings.Contains(string(r.Arguments), "refused") {
				return approval.Decision{Verdict: approval.Deny, By: "storm"}
			}
			return approval.Decision{Verdict: approval.Allow, By: "storm"}
		})},
	})
	if err != nil {
		return err
	}
	turn, err := rt.Begin(ctx, wasmtools.Facts{})
	if err != nil {
		return err
	}
	pid := os.Getpid()
	for i := 0; ; i++ {
		id := fmt.Sprintf("%d-%d", pid, i)
		own := fmt.Sprintf("f-%s.txt", id)
		var name, args string
		switch i % 6 {
		case 0, 1, 2:
			name, args = "write_file", fmt.Sprintf(`{"path":%q,"content":%q}`, own, id)
		case 3:
			name, args = "write_file", fmt.Sprintf(`{"path":"shared.txt","content":%q,"overwrite":true}`, id)
		case 4:
			name, args = "write_file", fmt.Sprintf(`{"path":"refused-%s","content":%q}`, own, id)
		case 5:
			name, args = "read_open", `{"path":"shared.txt"}`
		}
		o := turn.Call(ctx, []wasmtools.Request{{CallID: id, Tool: name, Arguments: []byte(args)}})[0]
		fmt.Printf("%s %s\n", id, o.Result.Code)
	}
}

// TestKilledStorm: four processes make calls in one workspace and are killed at
// random points. The record then verifies; no file is there without an intent
// that begun to act; every answer that was given has its outcome; and what a
// record says of a file is so.
func TestKilledStorm(t *testing.T) {
	kills := 2
	if os.Getenv("WASMTOOLS_LONG") != "" {
		kills = 200
	}
	base := t.TempDir()
	root := filepath.Join(base, "ws")
	for _, d := range []string{root, filepath.Join(base, "state")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(cacheDir(t), filepath.Join(base, "cache")); err != nil {
		t.Fatal(err)
	}
	var (
		mu       sync.Mutex
		answered = map[string]tool.Code{}
		readers  sync.WaitGroup
	)
	start := func() (*exec.Cmd, chan struct{}) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), stormEnv+"="+base)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		working := make(chan struct{})
		readers.Go(func() {
			for i, r := 0, bufio.NewReader(out); ; i++ {
				line, err := r.ReadString('\n')
				if err != nil {
					return // a line that was torn was not told
				}
				id, code, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
				mu.Lock()
				answered[id] = tool.Code(code)
				mu.Unlock()
				if i == 5 {
					close(working)
				}
			}
		})
		return cmd, working
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const processes = 4
	var cmds [processes]*exec.Cmd
	var working [processes]chan struct{}
	for i := range cmds {
		cmds[i], working[i] = start()
	}
	kill := func(i int) {
		if err := cmds[i].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmds[i].Wait() // killed
	}
	for range kills {
		i := random.IntN(processes)
		<-working[i]
		time.Sleep(time.Duration(random.Int64N(int64(30 * time.Millisecond)))) // the random point
		kill(i)
		cmds[i], working[i] = start()
	}
	for i := range cmds {
		kill(i)
	}
	readers.Wait()

	dir := evidence.Dir(filepath.Join(base, "state"), root)
	report, err := evidence.Verify(dir, evidence.VerifyOptions{KeyFile: filepath.Join(base, "state", "evidence", "key")})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Faults {
		t.Error(f)
	}
	r, err := evidence.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]*evidence.Call{}
	for c, err := range r.Calls(time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if calls[c.Intent.Call] != nil {
			t.Errorf("%s is recorded twice", c.Intent.Call)
		}
		calls[c.Intent.Call] = c
	}
	checkRecords(t, root, calls, answered)
	t.Logf("%d calls recorded, %d answered, %d kills", len(calls), len(answered), kills+processes)
}

func checkRecords(t *testing.T, root string, calls map[string]*evidence.Call, answered map[string]tool.Code) {
	t.Helper()
	for id, code := range answered {
		switch c := calls[id]; {
		case c == nil:
			t.Errorf("%s was answered and has no record", id)
		case c.Outcome == nil || c.Status == evidence.Interrupted:
			t.Errorf("%s was answered and has no outcome", id)
		case c.Outcome.Code != code:
			t.Errorf("%s was answered %q and recorded as %q", id, code, c.Outcome.Code)
		}
	}
	list, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") {
			continue // a temporary file of a process that was killed
		}
		p, err := os.ReadFile(filepath.Join(root, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		there[e.Name()] = true
		id := string(p)
		c := calls[id]
		switch {
		case c == nil:
			t.Errorf("%s holds %q, and no call of this name has an intent", e.Name(), id)
		case !c.Acted():
			t.Errorf("%s was written by %s, which is recorded as not having begun", e.Name(), id)
		case c.Outcome != nil && c.Status != evidence.Completed:
			t.Errorf("%s was written by %s, which is recorded as %s", e.Name(), id, c.Status)
		}
	}
	completed, interrupted := 0, 0
	for id, c := range calls {
		own := "f-" + id + ".txt"
		pid, n, _ := strings.Cut(id, "-")
		i, err := strconv.Atoi(n)
		if _, bad := strconv.Atoi(pid); bad != nil || err != nil {
			t.Fatalf("a call is named %q", id)
		}
		switch c.Status {
		case evidence.Completed:
			completed++
			if i%6 <= 2 && !there[own] {
				t.Errorf("%s is recorded as completed, and its file is not there", id)
			}
		case evidence.Interrupted:
			interrupted++
		case evidence.Denied, evidence.Failed:
			if there[own] || there["refused-"+own] {
				t.Errorf("%s is recorded as %s, and its file is there", id, c.Status)
			}
		default:
			t.Errorf("%s is recorded as %s after its process was killed", id, c.Status)
		}
	}
	if completed == 0 || interrupted == 0 {
		t.Errorf("%d calls completed and %d were interrupted: this tested nothing", completed, interrupted)
	}
}

func stormChild() {
	crashChild()
	if base := os.Getenv(stormEnv); base != "" {
		fmt.Fprintln(os.Stderr, storm(base))
		os.Exit(1)
	}
}
