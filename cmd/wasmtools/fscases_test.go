//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// fsCases is testdata/fs_cases.json: public bug reports of file tools as
// runnable cases. Its "contract" member says what a runner has to do.
type fsCases struct {
	Helpers map[string]string `json:"helpers"`
	Cases   []fsCase          `json:"cases"`
}

type fsCase struct {
	ID       string   `json:"id"`
	Group    string   `json:"group"`
	Setup    string   `json:"setup"`
	Call     fsCall   `json:"call"`
	Calls    []fsCall `json:"calls"`
	Parallel []fsCall `json:"parallel"`
	Before   []fsCall `json:"before"`
	Race     *struct {
		Seconds  float64 `json:"seconds"`
		MaxCalls int     `json:"max_calls"`
		Script   string  `json:"script"`
	} `json:"race"`
	Expect  string   `json:"expect"`
	Assert  string   `json:"assert"`
	Cleanup string   `json:"cleanup"`
	MaxMS   int      `json:"max_ms"`
	Needs   []string `json:"needs"`
	Policy  struct {
		DenyRead []string `json:"deny_read"`
	} `json:"policy"`
}

type fsCall struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
	Sh   string         `json:"sh"`
}

// waits lists the cases that need a part which is not built yet, by part. The
// test fails when one of them passes, so that the list shrinks.
var waits = map[string]string{}

// TestFSCases runs every case against the product: a real MCP client speaks to
// `wasmtools mcp` over stdio, on a real file system.
func TestFSCases(t *testing.T) {
	for _, tool := range []string{"bash", "python3", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip(t, "python3", tool+" is not installed")
		}
	}
	raw, err := os.ReadFile("../../testdata/fs_cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var all fsCases
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	bin := executableForAll(t)
	for _, c := range all.Cases {
		t.Run(c.ID, func(t *testing.T) {
			if testing.Short() && c.Race != nil {
				t.Skip("races take seconds each")
			}
			if c.Race == nil {
				t.Parallel()
			}
			r := newFSRun(t, c, all.Helpers, bin)
			faults := r.run()
			part, known := r.part, r.part != ""
			switch {
			case known && len(faults) == 0:
				t.Errorf("passes now: take it out of waits (%s)", part)
			case known:
				t.Logf("waits for %s: %s", part, strings.Join(faults, "; "))
			case len(faults) > 0:
				t.Errorf("%s\nstatus %s, text:\n%s", strings.Join(faults, "\n"), r.status, r.text)
			}
		})
	}
}

// executableForAll copies the program to where any user may run it.
func executableForAll(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "wasmtools-cases-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bin := filepath.Join(dir, "wasmtools")
	if err := errors.Join(os.WriteFile(bin, p, 0o755), os.Chmod(bin, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return bin
}

// fsRun is one case in its own base directory.
type fsRun struct {
	t       *testing.T
	c       fsCase
	bin     string
	base    string
	home    string
	prefix  []string // puts a command into the case's mount namespace
	nonroot bool

	part string // the part of the product that the case waits for

	client *mcpsdk.ClientSession
	status string
	text   string
}

func newFSRun(t *testing.T, c fsCase, helpers map[string]string, bin string) *fsRun {
	t.Helper()
	r := &fsRun{t: t, c: c, bin: bin, home: sharedHome(t), part: waits[c.ID]}
	for _, need := range c.Needs {
		switch need {
		case "root", "mknod":
			r.needRoot(need)
		case "mount":
			r.needRoot(need)
			r.mountNamespace()
		case "nonroot":
			r.nonroot = true
		case "xattr", "multi_edit":
		case "read_tracking":
			r.part = "staleness"
		default:
			t.Fatalf("unknown need %q", need)
		}
	}
	var err error
	if r.base, err = os.MkdirTemp("", "wasmtools-case-"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(r.base, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.Cleanup != "" {
			r.bash(r.dir("W"), c.Cleanup)
		}
		_ = exec.Command("chmod", "-R", "u+rwX", r.base).Run()
		if err := os.RemoveAll(r.base); err != nil {
			t.Log(err)
		}
	})
	for _, d := range []string{"W", "O", "H", "R"} {
		if err := os.Mkdir(r.dir(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range helpers {
		if err := os.WriteFile(filepath.Join(r.dir("H"), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(r.dir("O"), "secret"), []byte("TOPSECRET\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *fsRun) dir(name string) string { return filepath.Join(r.base, name) }

func (r *fsRun) needRoot(what string) {
	r.t.Helper()
	if os.Geteuid() != 0 {
		skip(r.t, "root", what+" needs root")
	}
}

// mountNamespace starts a process that holds a mount namespace of its own, so
// that a case's mounts never reach the machine.
func (r *fsRun) mountNamespace() {
	r.t.Helper()
	if _, err := exec.LookPath("nsenter"); err != nil {
		skip(r.t, "root", "nsenter is not installed")
	}
	hold := exec.Command("unshare", "--mount", "--propagation", "private", "cat")
	in, err := hold.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := hold.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := hold.Start(); err != nil {
		skip(r.t, "root", err.Error())
	}
	r.t.Cleanup(func() { in.Close(); _ = hold.Wait() })
	fmt.Fprintln(in, "ready") // cat echoes it once unshare has done its work
	if _, err := out.Read(make([]byte, 6)); err != nil {
		skip(r.t, "root", "no mount namespace: "+err.Error())
	}
	r.prefix = []string{"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", hold.Process.Pid), "--"}
}

func (r *fsRun) env() []string {
	e := append(os.Environ(), "W="+r.dir("W"), "O="+r.dir("O"), "H="+r.dir("H"), "R="+r.dir("R"), "B="+r.dir("B"),
		"WASMTOOLS_HOME="+r.home, "GIT_CONFIG_NOSYSTEM=1", "HOME="+r.dir("R"))
	if r.nonroot {
		e = append(e, "WASMTOOLS_HOME="+r.dir("home"))
	}
	return e
}

func (r *fsRun) command(name string, args ...string) *exec.Cmd {
	argv := append(slices.Clone(r.prefix), append([]string{name}, args...)...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = r.env()
	return cmd
}

func (r *fsRun) bash(dir, script string) error {
	cmd := r.command("bash", "-c", script)
	if len(r.prefix) > 0 { // nsenter starts in the namespace's root
		cmd = r.command("bash", "-c", `cd "$1" && eval "$2"`, "bash", dir, script)
	} else {
		cmd.Dir = dir
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// run carries the case out and returns what is wrong.
func (r *fsRun) run() (faults []string) {
	t, c := r.t, r.c
	t.Helper()
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if err := r.bash(r.dir("W"), c.Setup); err != nil {
		if slices.Contains(c.Needs, "xattr") {
			skip(t, "xattr", err.Error())
		}
		t.Fatalf("setup: %v", err)
	}
	// B is W without special files, which cp would copy or block on.
	if err := r.bash(r.base, `cp -a --sparse=always W B 2>/dev/null; find B ! -type f ! -type d ! -type l -delete 2>/dev/null; true`); err != nil {
		t.Fatal(err)
	}
	if r.nonroot {
		if os.Geteuid() == 0 {
			if err := r.bash(r.base, `mkdir -m 700 home && chown -R 65534:65534 W O home`); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Mkdir(r.dir("home"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.configure()
	before := r.outsideTree()
	r.connect()

	for _, b := range c.Before {
		if b.Sh != "" {
			if err := r.bash(r.dir("W"), b.Sh); err != nil {
				t.Fatalf("before: %v", err)
			}
		} else if status, text := r.call(b); status != "ok" {
			fault("before: %s failed: %s", b.Tool, text)
		}
	}
	limit := 10 * time.Second
	if c.MaxMS > 0 {
		limit = time.Duration(c.MaxMS) * time.Millisecond
	}
	began := time.Now()
	switch {
	case c.Race != nil:
		r.race()
	case len(c.Parallel) > 0:
		r.parallel()
	default:
		r.status, r.text = r.call(c.Call)
		if took := time.Since(began); took > limit {
			fault("took %s, over %s", took, limit)
		}
	}
	if c.Expect != "either" && r.status != c.Expect {
		fault("status %s, want %s", r.status, c.Expect)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(r.dir("R"), "status"), []byte(r.status+"\n"), 0o644),
		os.WriteFile(filepath.Join(r.dir("R"), "text"), []byte(r.text), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := r.bash(r.dir("W"), c.Assert); err != nil {
		fault("assert failed: %v", err)
	}
	if after := r.outsideTree(); after != before {
		fault("the tree outside changed:\n%s\nbefore:\n%s", after, before)
	}
	if strings.Contains(r.text, "TOPSECRET") && !r.workspaceHolds("TOPSECRET") {
		fault("the answer shows the outside secret")
	}
	if strings.Contains(r.text, r.base) && !strings.Contains(fmt.Sprint(c.Call.Args), "{{") {
		fault("the answer shows a path of the host")
	}
	return faults
}

// configure writes the case's own configuration, in a home of its own.
func (r *fsRun) configure() {
	if len(r.c.Policy.DenyRead) == 0 {
		return
	}
	r.home = r.dir("home")
	globs, err := json.Marshal(r.c.Policy.DenyRead)
	if err == nil {
		err = os.MkdirAll(filepath.Join(r.home, "config"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(r.home, "config", "wasmtools.toml"), []byte("[workspace]\ndeny_read = "+string(globs)+"\n"), 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// connect starts the product and a real client for it.
func (r *fsRun) connect() {
	r.t.Helper()
	cmd := r.command(r.bin, "mcp", "-q", "--workspace", r.dir("W"), "--approve", "all")
	cmd.Dir = r.base
	if r.nonroot && os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	cmd.Stderr = os.Stderr
	client := mcpsdk.NewClient(&mcpsdk.Implementation{Name: "cases", Version: "1"}, nil)
	ctx, cancel := context.WithTimeout(r.t.Context(), 60*time.Second)
	defer cancel()
	var err error
	if r.client, err = client.Connect(ctx, &mcpsdk.CommandTransport{Command: cmd}, nil); err != nil {
		r.t.Fatalf("connect: %v", err)
	}
	r.t.Cleanup(func() { r.client.Close() })
	// The first call of a home compiles the built-in module; the case's time
	// limit is about what comes after that.
	r.call(fsCall{Tool: "grep", Args: map[string]any{"pattern": "^no line is like this$", "path": "."}})
}

func (r *fsRun) call(c fsCall) (status, text string) {
	name, args := r.adapt(c)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	res, err := r.client.CallTool(ctx, &mcpsdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return "error", err.Error()
	}
	var b strings.Builder
	for _, block := range res.Content {
		if tc, ok := block.(*mcpsdk.TextContent); ok {
			b.WriteString(tc.Text)
			b.WriteByte('\n')
		}
	}
	if res.IsError {
		return "error", b.String()
	}
	return "ok", b.String()
}

// adapt maps a case's plain arguments to the product's.
func (r *fsRun) adapt(c fsCall) (string, map[string]any) {
	a := map[string]any{}
	for k, v := range c.Args {
		a[k] = r.expand(v)
	}
	rename := func(from, to string) {
		if v, ok := a[from]; ok {
			delete(a, from)
			a[to] = v
		}
	}
	switch c.Tool {
	case "read_open":
		start, hasStart := a["offset"].(float64)
		n, hasLimit := a["limit"].(float64)
		delete(a, "offset")
		delete(a, "limit")
		if hasStart || hasLimit {
			lines := map[string]any{"start": max(start, 1)}
			if hasLimit {
				lines["end"] = max(start, 1) + n - 1
			}
			a["selection"] = map[string]any{"lines": lines}
		}
	case "read_discover":
		if _, ok := a["pattern"]; ok {
			a["mode"] = "locate"
			rename("pattern", "query")
			rename("path", "root")
		} else {
			a["mode"] = "list"
		}
		rename("limit", "max_results")
	case "grep":
		a["mode"] = "content"
		rename("fixed", "literal")
	case "write_file":
		a["overwrite"] = true
	case "move_path":
		rename("path", "from")
	}
	return c.Tool, a
}

func (r *fsRun) expand(v any) any {
	switch v := v.(type) {
	case string:
		v = strings.NewReplacer("{{W}}", r.dir("W"), "{{O}}", r.dir("O"), "{{Wbase}}", "W", "{{Obase}}", "O").Replace(v)
		for {
			i := strings.Index(v, "{{rep ")
			if i < 0 {
				return v
			}
			j := i + strings.Index(v[i:], "}}")
			var char string
			var n int
			if _, err := fmt.Sscanf(v[i:j], "{{rep %s %d", &char, &n); err != nil {
				r.t.Fatalf("placeholder %q: %v", v[i:j+2], err)
			}
			v = v[:i] + strings.Repeat(char, n) + v[j+2:]
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = r.expand(v[i])
		}
		return out
	case map[string]any:
		out := maps.Clone(v)
		for k := range out {
			out[k] = r.expand(out[k])
		}
		return out
	}
	return v
}

func (r *fsRun) parallel() {
	each := make([]string, len(r.c.Parallel))
	texts := make([]string, len(each))
	var wg sync.WaitGroup
	for i, c := range r.c.Parallel {
		wg.Go(func() { each[i], texts[i] = r.call(c) })
	}
	wg.Wait()
	r.status, r.text = "ok", strings.Join(texts, "\n")
	if slices.Contains(each, "error") {
		r.status = "error"
	}
	if err := os.WriteFile(filepath.Join(r.dir("R"), "each"), []byte(strings.Join(each, "\n")+"\n"), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// race makes calls while the case's script swaps names under them.
func (r *fsRun) race() {
	cmd := r.command("bash", "-c", r.c.Race.Script)
	cmd.Dir = r.dir("W")
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	texts := map[string]bool{}
	ok, failed, n := 0, 0, 0
	for end := time.Now().Add(time.Duration(r.c.Race.Seconds * float64(time.Second))); time.Now().Before(end) && n < r.c.Race.MaxCalls; {
		for _, c := range r.c.Calls {
			status, text := r.call(c)
			texts[text] = true
			n++
			if status == "ok" {
				ok++
			} else {
				failed++
			}
		}
	}
	r.status = "error"
	if ok > 0 {
		r.status = "ok"
	}
	r.text = strings.Join(slices.Sorted(maps.Keys(texts)), "\n")
	r.t.Logf("%d calls: %d ok, %d refused", n, ok, failed)
}

// outsideTree is names, bytes and modes below O.
func (r *fsRun) outsideTree() string {
	var b bytes.Buffer
	err := filepath.WalkDir(r.dir("O"), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s", p, info.Mode())
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", content)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return b.String()
}

// workspaceHolds greps the workspace, links not followed.
func (r *fsRun) workspaceHolds(s string) bool {
	return r.command("grep", "-rqF", s, r.dir("W")).Run() == nil || r.command("grep", "-rqF", s, r.dir("B")).Run() == nil
}
