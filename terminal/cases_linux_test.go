package terminal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/terminal"
	"github.com/wasmtools/wasmtools/tool"
)

// terminalCase is one of testdata/terminal_cases.json: a public bug report as
// steps and what is to come of them. The file says what each field means.
type terminalCase struct {
	ID     string
	Source string
	Needs  []string
	Env    map[string]string `json:"tool_env"`
	Setup  string            `json:"setup_shell"`
	Steps  []caseStep
	Expect []caseExpect
}

type caseStep struct {
	Op, As, Session, Proc, Shell, Command, Text, For, Mode, Signal string
	TTY                                                            bool
	Cols, Rows, Repeat                                             int
	Keys                                                           []string
	Until                                                          string
	Value                                                          any
	Yield                                                          int `json:"yield_ms"`
	Timeout                                                        int `json:"timeout_ms"`
	MaxOutput                                                      int `json:"max_output_bytes"`
}

type caseExpect struct {
	Step, Assert, Path, When string
	Steps                    []string
	Value                    any
	Count                    int
	After                    int `json:"after_ms"`
}

func (e *caseExpect) text() string { s, _ := e.Value.(string); return s }
func (e *caseExpect) number() float64 {
	n, _ := e.Value.(float64)
	return n
}

// archive is a Store that keeps what it gets.
type archive struct{ texts []string }

func (a *archive) Artifact(_ tool.ArtifactInfo, r io.Reader) (tool.ArtifactRef, error) {
	b, err := io.ReadAll(r)
	a.texts = append(a.texts, string(b))
	return tool.ArtifactRef{Handle: fmt.Sprintf("artifact%d", len(a.texts)), Bytes: int64(len(b))}, err
}

type caseResult struct {
	terminal.Result
	took time.Duration
	err  error
}

// state is the word that the cases use.
func (r *caseResult) state() string {
	if r.err != nil {
		return "error"
	}
	return string(r.State)
}

var repeated = regexp.MustCompile(`\{\{(?s:(.+?))\*(\d+)\}\}`)

// cases are those of the file.
func cases(t *testing.T) (l []json.RawMessage) {
	t.Helper()
	b, err := os.ReadFile("testdata/terminal_cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []json.RawMessage }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 20 {
		t.Fatalf("the file holds %d cases", len(file.Cases))
	}
	return file.Cases
}

// measuresMemory tells the cases that look at the memory of this process, which
// is that of all that runs at the same time.
func measuresMemory(raw json.RawMessage) bool {
	return bytes.Contains(raw, []byte("max_rss_growth_mb"))
}

// TestCases runs the cases under the default profile and without any.
func TestCases(t *testing.T) {
	t.Parallel()
	all := cases(t)
	for _, profile := range []string{proctree.WorkspaceWrite, proctree.None} {
		for _, raw := range all {
			if measuresMemory(raw) {
				continue
			}
			runsCase(t, raw, profile, true)
		}
	}
}

// TestCasesFlood runs those that flood, of which each has half a minute.
func TestCasesFlood(t *testing.T) {
	n := 0
	for _, raw := range cases(t) {
		if !measuresMemory(raw) {
			continue
		}
		for _, profile := range []string{proctree.WorkspaceWrite, proctree.None} {
			n++
			begin := time.Now()
			runsCase(t, raw, profile, false)
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
		}
	}
	if n == 0 {
		t.Error("no case floods")
	}
}

func runsCase(t *testing.T, raw json.RawMessage, profile string, parallel bool) {
	var id struct{ ID string }
	if err := json.Unmarshal(raw, &id); err != nil {
		t.Fatal(err)
	}
	t.Run(profile+"/"+id.ID, func(t *testing.T) {
		if profile == proctree.WorkspaceWrite {
			needBox(t)
		} else if id.ID == "typed-injection-blocked" {
			t.Skip("without a sandbox nothing forbids it")
		}
		if parallel {
			t.Parallel()
		}
		runCase(t, raw, profile)
	})
}

func runCase(t *testing.T, raw []byte, profile string) {
	w, state := realDir(t), realDir(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	fill := func(s string) string {
		s = strings.NewReplacer("$W", w, "$STATE", state, "$PORT", port).Replace(s)
		return repeated.ReplaceAllStringFunc(s, func(m string) string {
			g := repeated.FindStringSubmatch(m)
			n, _ := strconv.Atoi(g[2])
			return strings.Repeat(g[1], n)
		})
	}
	var c terminalCase
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Needs {
		if !strings.Contains(n, " ") {
			need(t, n)
		}
	}
	if c.Setup != "" {
		cmd := exec.Command("bash", "-c", fill(c.Setup))
		cmd.Dir = w
		cmd.Env = withoutGit(os.Environ())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("setup: %v\n%s", err, out)
		}
	}
	environ := withoutGit(os.Environ())
	for k, v := range c.Env {
		environ = append(environ, k+"="+v)
	}
	var before int64
	if measuresMemory(raw) {
		resetPeak(t)
		before = peak(t)
	}
	m := open(t, terminal.Options{Root: w, State: state, Environ: environ, Profile: profile, AllowUnsandboxed: true})
	a := &archive{}
	results := map[string]*caseResult{}
	var texts []string
	names := map[string]string{}
	for i, s := range c.Steps {
		r := runStep(t, m, s, fill, names, a)
		texts = append(texts, r.Output)
		t.Logf("step %d %s %s: %s in %s, %d bytes %v", i, s.Op, s.As, r.state(), r.took.Round(time.Millisecond), len(r.Output), r.err)
		if s.As != "" {
			results[s.As] = r
		}
	}
	texts = append(texts, a.texts...)
	for _, e := range c.Expect {
		check(t, e, fill, results, texts, before, m)
	}
}

func runStep(t *testing.T, m *terminal.Manager, s caseStep, fill func(string) string, names map[string]string, a *archive) *caseResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	fb := terminal.Feedback{Store: a}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	begin := time.Now()
	r := &caseResult{}
	id := names[s.Session]
	if id == "" {
		id = names[s.Proc]
	}
	patient := func() { // a step without yield waits for the end
		for r.err == nil && s.Yield == 0 && (r.State == terminal.Running || r.State == terminal.WaitingForInput || r.State == terminal.WaitingForSecret) {
			name := r.Session + r.Process
			text := r.Output
			r.Result, r.err = m.Wait(ctx, terminal.WaitRequest{ID: name, Until: until(t, "finished"), Timeout: time.Minute}, fb)
			r.Output = text + r.Output
		}
	}
	switch s.Op {
	case "open":
		r.Result, r.err = m.Open(ctx, terminal.OpenRequest{Shell: s.Shell, Cols: s.Cols, Rows: s.Rows}, fb)
		names[s.Session] = r.Session
	case "exec":
		for range max(s.Repeat, 1) {
			var u *terminal.Until
			if s.Until != "" {
				u = until(t, s.Until)
			}
			if s.Session != "" {
				r.Result, r.err = m.Run(ctx, terminal.RunRequest{Session: id, Command: fill(s.Command), Yield: ms(s.Yield), Timeout: ms(s.Timeout), Until: u, Limit: s.MaxOutput}, fb)
			} else {
				r.Result, r.err = m.Exec(ctx, terminal.ExecRequest{Command: fill(s.Command), TTY: s.TTY, Yield: ms(s.Yield), Timeout: ms(s.Timeout), Until: u, Limit: s.MaxOutput}, fb)
				names[s.Proc] = r.Process
			}
			patient()
		}
	case "send":
		r.Result, r.err = m.Send(ctx, terminal.SendRequest{ID: id, Text: s.Text, Keys: s.Keys}, fb)
	case "wait":
		u := until(t, "exit")
		switch s.For {
		case "port", "regex", "idle":
			u = until(t, s.For+":"+fill(fmt.Sprint(s.Value)))
		case "finished", "input", "exit":
			u = until(t, s.For)
		case "time":
			n, _ := s.Value.(float64)
			s.Timeout = int(n)
		default:
			t.Fatalf("wait for %q", s.For)
		}
		r.Result, r.err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: u, Timeout: ms(s.Timeout)}, fb)
	case "read":
		if s.Mode == "screen" {
			r.Result, r.err = m.Screen(ctx, id)
			r.Output = strings.Join(r.Screen, "\n")
		} else {
			r.Result, r.err = m.Read(ctx, terminal.ReadRequest{ID: id})
		}
	case "resize":
		r.Result, r.err = m.Resize(ctx, id, s.Cols, s.Rows)
	case "signal":
		r.Result, r.err = m.Signal(ctx, terminal.SignalRequest{ID: id, Signal: s.Signal}, fb)
	case "close":
		r.Result, r.err = m.Close(ctx, id, fb)
	default:
		t.Fatalf("operation %q", s.Op)
	}
	r.took = time.Since(begin)
	return r
}

func check(t *testing.T, e caseExpect, fill func(string) string, results map[string]*caseResult, texts []string, before int64, m *terminal.Manager) {
	t.Helper()
	r := results[e.Step]
	if e.Step != "" && r == nil {
		t.Fatalf("no step %q", e.Step)
	}
	if r == nil {
		r = &caseResult{}
	}
	want := fill(e.text())
	fail := func(got any) {
		t.Helper()
		t.Errorf("%s %s: got %q, want %q (%s)", e.Step, e.Assert, fmt.Sprint(got), fmt.Sprint(e.Value), r.Output[:min(len(r.Output), 2000)])
	}
	switch e.Assert {
	case "output_contains":
		if !strings.Contains(r.Output, want) {
			fail(r.Output)
		}
	case "output_not_contains":
		if strings.Contains(r.Output, want) {
			fail(r.Output)
		}
	case "output_equals_trimmed":
		if strings.TrimSpace(r.Output) != want {
			fail(r.Output)
		}
	case "output_matches":
		if !regexp.MustCompile(want).MatchString(r.Output) {
			fail(r.Output)
		}
	case "output_count":
		if n := strings.Count(r.Output, want); n != e.Count {
			fail(n)
		}
	case "output_max_bytes":
		if float64(len(r.Output)) > e.number() {
			fail(len(r.Output))
		}
	case "output_valid_utf8":
		if !utf8.ValidString(r.Output) {
			fail(r.Output)
		}
	case "exit_code":
		if e.Value == nil {
			if r.ExitCode != nil {
				fail(*r.ExitCode)
			}
		} else if r.ExitCode == nil || float64(*r.ExitCode) != e.number() {
			fail(r.ExitCode)
		}
	case "state_in":
		l, _ := e.Value.([]any)
		if !slices.Contains(l, any(r.state())) {
			fail(r.state())
		}
	case "within_ms":
		if float64(r.took.Milliseconds()) > e.number() {
			fail(r.took)
		}
	case "at_least_ms":
		if float64(r.took.Milliseconds()) < e.number() {
			fail(r.took)
		}
	case "matched":
		if r.Matched == nil || *r.Matched != e.Value.(bool) {
			fail(r.Matched)
		}
	case "reports_truncation":
		if (r.OmittedBytes > 0) != e.Value.(bool) {
			fail(r.OmittedBytes)
		}
	case "joined_output_contains":
		joined := ""
		for _, s := range e.Steps {
			joined += results[s].Output
		}
		if !strings.Contains(joined, want) {
			fail(joined)
		}
	case "never_in_any_output":
		for _, s := range texts {
			if strings.Contains(s, want) {
				fail(s)
			}
		}
	case "any_output_contains":
		if !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, want) }) {
			fail(texts)
		}
	case "file_equals":
		b, err := os.ReadFile(fill(e.Path))
		if err != nil || string(b) != want {
			fail(string(b))
		}
	case "no_process_left":
		if e.When == "after_tool_exit" {
			if err := m.Shutdown(); err != nil {
				t.Error(err)
			}
		}
		re := regexp.MustCompile(want)
		var left []string
		for end := time.Now().Add(time.Duration(e.After) * time.Millisecond); ; time.Sleep(5 * time.Millisecond) {
			if left = commandLines(re); len(left) == 0 || time.Now().After(end) {
				break
			}
		}
		if len(left) > 0 {
			fail(left)
		}
	case "max_dir_mb":
		var sum int64
		filepath.WalkDir(fill(e.Path), func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if info, err := d.Info(); err == nil {
					sum += info.Size()
				}
			}
			return nil
		})
		if float64(sum)/(1<<20) > e.number() {
			fail(sum)
		}
	case "max_rss_growth_mb":
		grown := float64(peak(t)-before) / (1 << 20)
		t.Logf("resident memory grew by %.1f MiB", grown)
		if grown > e.number() || grown > 64 && !detecting { // we promise less
			fail(grown)
		}
	default:
		t.Fatalf("assertion %q is not known", e.Assert)
	}
}

// commandLines are the arguments of all processes of the machine that match.
func commandLines(re *regexp.Regexp) (l []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/cmdline")
		line := strings.TrimSpace(string(bytes.ReplaceAll(b, []byte{0}, []byte(" "))))
		if err == nil && line != "" && re.MatchString(line) && d != fmt.Sprintf("/proc/%d", os.Getpid()) && !ofAnotherRun(d) {
			l = append(l, line)
		}
	}
	return l
}

// ofAnotherRun tells whether the process at dir descends from other tests of
// this package, which may run on the same machine.
func ofAnotherRun(dir string) bool {
	own, _ := os.Readlink("/proc/self/exe")
	for dir != "/proc/0" && dir != "/proc/1" {
		if exe, err := os.Readlink(dir + "/exe"); err == nil && exe != own && filepath.Base(exe) == filepath.Base(own) {
			return true
		}
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ") // the state and the parent follow
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return false
		}
		dir = "/proc/" + fields[1]
	}
	return false
}

// resetPeak makes peak count from here on.
func resetPeak(t *testing.T) {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Logf("the peak of memory counts from the start of the tests: %v", err)
	}
}

// peak is the most memory that this process had.
func peak(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	t.Fatal("no peak is told")
	return 0
}

// withoutGit leaves out what git gives to programs that it starts: by GIT_DIR a
// case would work in the repository in which the tests are run.
func withoutGit(environ []string) []string {
	return slices.DeleteFunc(environ, func(e string) bool { return strings.HasPrefix(e, "GIT_") })
}
