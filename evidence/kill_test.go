//go:build unix

package evidence

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// stormKinds are the calls of the storm: what they do, and whether an effect
// stays on the disk.
var stormKinds = []struct {
	name    string
	effects tool.Effects
	acts    bool
	outcome Status
}{
	{"read", tool.Reads, false, Completed},
	{"write", tool.Writes, true, Completed},
	{"destroy", tool.Destroys, true, Completed},
	{"refused", tool.Writes, false, Denied},
	{"fails", tool.Executes, true, Failed},
}

// storm makes calls until the process is killed, and tells each step on
// standard output after it was done.
func storm(dir, effects string) error {
	l, err := Open(Options{Dir: dir, SegmentBytes: 64 << 10})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	for g := range 2 {
		wg.Go(func() {
			for i := 0; ; i++ {
				k := stormKinds[(i+g)%len(stormKinds)]
				call := fmt.Sprintf("%s-%d-%d-%d", k.name, os.Getpid(), g, i)
				if err := stormCall(l, effects, call, k.effects, k.acts, k.outcome); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	return <-errs
}

func stormCall(l *Log, effects, call string, e tool.Effects, acts bool, status Status) error {
	say := func(what string, h Handle) error {
		_, err := fmt.Fprintf(os.Stdout, "%s %s %s\n", what, call, h)
		return err
	}
	h, err := l.Begin(Intent{
		Call: call, Session: "storm", Tool: strings.SplitN(call, "-", 2)[0], Effects: e,
		Arguments: json.RawMessage(fmt.Sprintf(`{"call":%q}`, call)), Input: tool.DigestOf([]byte(call)),
	})
	if err != nil {
		return err
	}
	if err := say("begun", h); err != nil {
		return err
	}
	o := Outcome{Status: status}
	if acts {
		if err := l.Event(h, Event{Kind: Started}); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(effects, call), []byte(call), 0o600); err != nil {
			return err
		}
		if err := say("did", h); err != nil {
			return err
		}
		o.Writes = []Write{{Op: tool.OpWrite, Path: call, After: tool.DigestOf([]byte(call))}}
	}
	if err := l.End(h, o); err != nil {
		return err
	}
	return say("answered", h)
}

// told is what the processes said that they did.
type told struct {
	mu    sync.Mutex
	steps []string
}

// judge holds a record against what was told and what is on the disk.
func judge(dir, effects string, steps []string) (faults []string) {
	bad := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	r, err := Verify(dir, VerifyOptions{})
	if err != nil || !r.OK {
		bad("verify: %v\n%s", err, r.Summary())
		return faults
	}
	reader, err := OpenReader(dir)
	if err != nil {
		return []string{err.Error()}
	}
	byCall := map[string]*Call{}
	for c, err := range reader.Calls(time.Time{}) {
		if err != nil {
			bad("read: %v", err)
			return faults
		}
		if byCall[c.Intent.Call] != nil {
			bad("%s is recorded twice", c.Intent.Call)
		}
		byCall[c.Intent.Call] = c
		// Nothing but what was done is recorded.
		kind := strings.SplitN(c.Intent.Call, "-", 2)[0]
		if string(c.Intent.Arguments) != fmt.Sprintf(`{"call":%q}`, c.Intent.Call) || c.Intent.Tool != kind {
			bad("%s: the intent says %s %s", c.Intent.Call, c.Intent.Tool, c.Intent.Arguments)
		}
		for _, k := range stormKinds {
			if k.name != kind {
				continue
			}
			if c.Outcome == nil {
				if c.Status != Interrupted {
					bad("%s has no outcome and is %s", c.Intent.Call, c.Status)
				}
			} else if c.Status != k.outcome {
				bad("%s is %s, want %s", c.Intent.Call, c.Status, k.outcome)
			}
			_, err := os.Stat(filepath.Join(effects, c.Intent.Call))
			switch did := err == nil; {
			case did && !c.Acted():
				bad("%s has an effect, and the record says that it never acted", c.Intent.Call)
			case !did && k.acts && c.Outcome != nil:
				bad("%s is recorded as done, and has no effect", c.Intent.Call)
			}
		}
	}
	for _, s := range steps {
		f := strings.Fields(s)
		if len(f) != 3 {
			continue // the process was killed while it said so
		}
		c := byCall[f[1]]
		switch {
		case c == nil:
			bad("%q was said, and there is no intent", s)
		case string(c.Handle) != f[2]:
			bad("%q was said, and the record knows it as %s", s, c.Handle)
		case f[0] == "answered" && c.Outcome == nil:
			bad("%q was said, and there is no outcome", s)
		}
	}
	entries, err := os.ReadDir(effects)
	if err != nil {
		bad("%v", err)
	}
	for _, e := range entries {
		if byCall[e.Name()] == nil {
			bad("the effect of %s is on the disk, and there is no intent", e.Name())
		}
	}
	return faults
}

// TestKillStorm: four processes write at once, and one after another is killed
// at a random moment.
func TestKillStorm(t *testing.T) {
	if dir := os.Getenv("EVIDENCE_TEST_STORM"); dir != "" {
		t.Fatal(storm(dir, os.Getenv("EVIDENCE_TEST_EFFECTS")))
	}
	const processes = 4
	points := 20
	if os.Getenv("WASMTOOLS_LONG") != "" {
		points = 200
	}
	dir, effects := filepath.Join(t.TempDir(), "evidence", "w"), t.TempDir()
	var all told
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			for range points / processes {
				// The first calls make the record; later kills meet every state.
				stormOnce(t, dir, effects, &all, 1+rand.IntN(150), time.Duration(rand.IntN(3000))*time.Microsecond)
			}
		})
	}
	wg.Wait()
	for _, f := range judge(dir, effects, all.steps) {
		t.Error(f)
	}
	r, _ := Verify(dir, VerifyOptions{})
	t.Logf("%d kills, %d steps told; %d calls in %d records, %d interrupted, %d notes", points, len(all.steps), r.Calls, r.Records, r.Interrupted, len(r.Notes))
	if r.Interrupted == 0 || r.Calls < points {
		t.Error("the storm was no storm")
	}

	// Control: the judge sees what it is there for.
	reader, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	var done, undone *Call
	for c, err := range reader.Calls(time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Outcome == nil {
			undone = c
		} else if len(c.Outcome.Writes) > 0 {
			done = c
		}
	}
	for name, c := range map[string]struct {
		steps []string
		stray string
		gone  string
		want  string
	}{
		"an effect without an intent":      {stray: "write-0-0-0", want: "no intent"},
		"an answer without an outcome":     {steps: []string{"answered " + undone.Intent.Call + " " + string(undone.Handle)}, want: "no outcome"},
		"an answer without an intent":      {steps: []string{"begun write-0-0-1 1"}, want: "no intent"},
		"an outcome that lies":             {gone: done.Intent.Call, want: "has no effect"},
		"an answer under another's handle": {steps: []string{"answered " + done.Intent.Call + " 1"}, want: "knows it as"},
	} {
		if c.stray != "" {
			write(t, filepath.Join(effects, c.stray), nil)
		}
		if c.gone != "" {
			if err := os.Rename(filepath.Join(effects, c.gone), filepath.Join(t.TempDir(), "x")); err != nil {
				t.Fatal(err)
			}
		}
		if faults := judge(dir, effects, c.steps); len(faults) != 1 || !strings.Contains(faults[0], c.want) {
			t.Errorf("control: %s: %q, want one with %q", name, faults, c.want)
		}
		if c.stray != "" {
			os.Remove(filepath.Join(effects, c.stray))
		}
		if c.gone != "" {
			write(t, filepath.Join(effects, c.gone), nil)
		}
	}

	// The next process writes down who is gone.
	reopened(t, dir)
	if left, err := os.ReadDir(filepath.Join(dir, writersName)); err != nil || len(left) > 0 {
		t.Errorf("%d processes count as writing, %v", len(left), err)
	}
}

// stormOnce runs one process, kills it some time after it told a number of
// steps, and keeps what it told.
func stormOnce(t *testing.T, dir, effects string, all *told, steps int, more time.Duration) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillStorm$")
	cmd.Env = append(os.Environ(), "EVIDENCE_TEST_STORM="+dir, "EVIDENCE_TEST_EFFECTS="+effects)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	var mine []string
	r := bufio.NewReader(out)
	var kill *time.Timer
	for {
		line, err := r.ReadString('\n')
		if err == nil {
			mine = append(mine, strings.TrimSuffix(line, "\n"))
		} else if err != io.EOF {
			t.Error(err)
		}
		if len(mine) >= steps && kill == nil {
			kill = time.AfterFunc(more, func() { _ = cmd.Process.Kill() })
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process was not killed: %v\n%s", err, strings.Join(mine, "\n"))
	}
	all.mu.Lock()
	all.steps = append(all.steps, mine...)
	all.mu.Unlock()
}
