package runtime

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/internal/wasmasm"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/testdata/hostile"
	"github.com/wasmtools/wasmtools/tool"
)

// childArg makes the test binary a compiling child.
const childArg = "compile-in-a-child"

func childOptions() Options {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Options{CompileChild: []string{self, childArg}}
}

// TestChildCompiles wants the same of a child as of this process: guests that
// run, refusals with their codes, and entries of the cache that the other takes.
func TestChildCompiles(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	for _, o := range []Options{
		childOptions(),
		{CompileChild: childOptions().CompileChild, CacheDir: dir, StateDir: state},
		{CacheDir: dir, StateDir: state}, // what the child left
	} {
		e := newEngine(t, o)
		for _, g := range []hostile.Guest{{Name: "good", Wasm: hostile.Good()}, {Name: "data-outside", Wasm: find(t, "data-outside"), Want: tool.Trap}, {Name: "clock", Wasm: clockGuest()}} {
			m := load(t, e, g.Wasm).(*module)
			code, text, err := callOnce(m, 0)
			if err != nil || code != g.Want {
				t.Errorf("%s = %q %s, %v; want %q", g.Name, code, text, err, g.Want)
			}
		}
	}
	e := newEngine(t, Options{CacheDir: dir, StateDir: state})
	if slot := e.cache.slot(cacheKey(load(t, e, hostile.Good()).(*module), true)); !slot.hit() {
		t.Error("the child's work was not kept")
	} else {
		slot.discard()
	}
	// One that the engine does not accept: a body that leaves nothing on the stack.
	bad := load(t, newEngine(t, childOptions()), invalidGuest())
	if code, text, _ := callOnce(bad, 0); code != tool.InvalidModule {
		t.Errorf("an invalid module = %q %s", code, text)
	}
}

func invalidGuest() []byte {
	m := &wasmasm.Module{
		Memory: &wasmasm.Limits{Min: 1, Max: -1},
		Funcs: []wasmasm.Func{
			{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32}, Results: []byte{wasmasm.I32}}, Body: wasmasm.Code{}.I32Const(2048), Export: "wt_alloc"},
			{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I64}}, Body: wasmasm.Code{}.I32Const(1).Drop(), Export: "wt_call"},
		},
		Customs: []wasmasm.Custom{{Name: manifest.Section, Data: hostile.Manifest("")}},
	}
	return m.Encode()
}

// TestChildThatFails has children that hang, die, flood and lie.
func TestChildThatFails(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs /bin/sh for children that misbehave")
	}
	for _, c := range []struct {
		script string
		want   tool.Code
	}{
		{"sleep 60", tool.Quota},
		{"exit 1", tool.Quota},
		{"kill -9 $$", tool.Quota},
		{"cat /dev/zero", tool.Quota},
		{"echo nonsense", tool.Internal},
		{"cat", tool.Internal},
	} {
		e := newEngine(t, Options{CompileChild: []string{"/bin/sh", "-c", c.script}, Limits: Limits{Compile: time.Millisecond}})
		began := time.Now()
		if c.script != "sleep 60" {
			e.limits.Compile = time.Minute
		}
		code, text, err := callOnce(load(t, e, hostile.Good()), 0)
		if err != nil || code != c.want || strings.Contains(text, "/bin") {
			t.Errorf("a child that does %q = %q %s, %v; want %s", c.script, code, text, err, c.want)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("a child that does %q took %s", c.script, took)
		}
	}
}

// TestChildSeesNothing wants no environment and no key of ours in a child.
func TestChildSeesNothing(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs /bin/sh to look around")
	}
	t.Setenv("SECRET", "must not be seen")
	seen := t.TempDir() + "/seen"
	e := newEngine(t, Options{CacheDir: t.TempDir(), StateDir: t.TempDir(), CompileChild: []string{"/bin/sh", "-c", "{ env; cat; } > " + seen}})
	callOnce(load(t, e, hostile.Good()), 0)
	got, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(got, []byte("must not be seen")) || bytes.Contains(got, e.cache.key) {
		t.Error("a child learns what it must not know")
	}
	if !bytes.Contains(got, e.seed) {
		t.Error("the control: the order is not what the child was given")
	}
}

// TestChildForeign wants the same of a child for plugins and commands as of this
// process, and entries of the cache that the other takes.
func TestChildForeign(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	var said []string
	notice := func(s string) { said = append(said, s) }
	wrong := wasmasm.Module{Funcs: []wasmasm.Func{{Export: "_start", Body: wasmasm.Code{}.I32Add()}}}
	for _, o := range []Options{
		childOptions(),
		{CompileChild: childOptions().CompileChild, CacheDir: dir, StateDir: state, Notice: notice},
		{CacheDir: dir, StateDir: state, Notice: notice}, // what the child left
	} {
		o.Limits.Compile = 10 * time.Minute // under the race detector
		e := newEngine(t, o)
		for _, c := range []struct {
			name          string
			code, sidecar []byte
			args          map[string]any
			want          string
			code2         tool.Code
		}{
			{"plugin", sdkPlugin(t, "std_command.wasm"), oneTool("", "export = \"_start\"\ninput = \"{input}\"\n"), map[string]any{"input": "ben"}, "hello ben", ""},
			{"command", foreignFixture(t, "files", false), oneTool("", argv), args("env=HOME"), "", ""},
			{"invalid command", wrong.Encode(), oneTool("", argv), args(), "does not accept", tool.InvalidModule},
		} {
			r := preview(t, foreignTool(t, e, c.code, c.sidecar, "t", ToolOptions{}), c.args).Result
			if r.Code != c.code2 || !strings.Contains(r.PlainText(), c.want) {
				t.Errorf("%s = %q %s; want %q with %q", c.name, r.Code, r.PlainText(), c.code2, c.want)
			}
		}
	}
	if want := 2; len(said) != want || !strings.Contains(said[0], "in a process of its own") {
		t.Errorf("compilations told: %q; want %d, in the child", said, want)
	}
}

// unchecked adds a module of which nothing was estimated before: what would reach
// the compiler if the estimates were wrong.
func unchecked(t testing.TB, e *Engine, wasm []byte) *module {
	t.Helper()
	code, err := manifest.Strip(wasm)
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.add(&module{digest: tool.DigestOf(wasm), code: code, limits: e.limits,
		manifest: manifest.Manifest{Name: "unchecked", Tools: []manifest.Tool{{Name: "t"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// compileEnv makes the test binary compile one of the hostile guests by itself.
const compileEnv = "WASMTOOLS_TEST_COMPILE"

func compileBare(name string) error {
	var wasm []byte
	for _, g := range hostile.Guests() {
		if g.Name == name {
			wasm = g.Wasm
		}
	}
	code, err := manifest.Strip(wasm)
	if err != nil {
		return err
	}
	e, err := New(context.Background(), Options{Limits: Limits{Compile: time.Second}})
	if err != nil {
		return err
	}
	m, err := e.add(&module{code: code, limits: e.limits, manifest: manifest.Manifest{Tools: []manifest.Tool{{Name: "t"}}}})
	if err != nil {
		return err
	}
	return m.Prepare(context.Background())
}

// TestChildBounds compiles a module that takes a compiler half a minute and more
// than a gigabyte. It is refused when it is loaded; here it comes past that. In a
// child it ends with quota, and this process goes on as if nothing had been. The
// control compiles it in a process without a child, whose limit of a second
// stops nothing.
func TestChildBounds(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("looks into /proc, and only Linux counts data")
	}
	if underRace {
		t.Skip("the race detector alone takes more than the limits")
	}
	const mib = 1 << 20
	for _, c := range []struct {
		name   string
		limits Limits
		want   string
		passes func(pid int, since time.Time) bool // the limit, in the control
	}{
		{"time", Limits{Compile: time.Second}, "longer than 1s",
			func(_ int, since time.Time) bool { return time.Since(since) > 4*time.Second }},
		{"memory", Limits{Compile: time.Minute, CompileMemory: 160 * mib}, "more than 160 MiB",
			func(pid int, _ time.Time) bool { return residentOf(pid) > 200*mib }},
	} {
		t.Run(c.name, func(t *testing.T) {
			const guest = "compile-branches"
			wasm := find(t, guest)
			if err := Check(wasm); tool.CodeOf(err) != tool.InvalidModule {
				t.Errorf("Check = %v; want invalid_module", err)
			}
			o := childOptions()
			o.Limits = c.limits
			e := newEngine(t, o)
			good := load(t, e, hostile.Good())
			if code, text, err := callOnce(good, 0); code != "" || err != nil {
				t.Fatal(code, text, err)
			}
			before := allocated()
			var other sync.WaitGroup
			other.Go(func() {
				if code, text, err := callOnce(good, 0); code != "" || err != nil {
					t.Errorf("another module meanwhile: %q %s %v", code, text, err)
				}
			})
			code, text, err := callOnce(unchecked(t, e, wasm), 0)
			other.Wait()
			if err != nil || code != tool.Quota || !strings.Contains(text, c.want) {
				t.Errorf("the module = %q %s, %v; want quota: %s", code, text, err, c.want)
			}
			if took := allocated() - before; took > 64*mib {
				t.Errorf("%d MiB were allocated in this process", took/mib)
			}

			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			bare := exec.CommandContext(ctx, self)
			bare.Env = append(os.Environ(), compileEnv+"="+guest)
			if err := bare.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- bare.Wait() }()
			began, tick := time.Now(), time.NewTicker(10*time.Millisecond)
			defer tick.Stop()
			for passed := false; !passed; {
				select {
				case err := <-ended:
					t.Fatalf("control: a process without a child ended (%v) before it was over the limit", err)
				case <-tick.C:
					passed = c.passes(bare.Process.Pid, began)
				}
			}
			cancel()
			<-ended
		})
	}
}

// residentOf is the memory that a process holds, 0 once it has ended.
func residentOf(pid int) int {
	p, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var total, resident int
	fmt.Sscan(string(p), &total, &resident)
	return resident * os.Getpagesize()
}

// TestCloseEndsChild closes the engine while a child compiles.
func TestCloseEndsChild(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs /bin/sh for a child that hangs")
	}
	started := t.TempDir() + "/started"
	e, err := New(context.Background(), Options{CompileChild: []string{"/bin/sh", "-c", "echo $$ > " + started + "; exec sleep 600"}})
	if err != nil {
		t.Fatal(err)
	}
	m := load(t, e, hostile.Good())
	codes := make(chan tool.Code, 1)
	go func() {
		code, _, _ := callOnce(m, 0)
		codes <- code
	}()
	var pid int
	waitFor(t, func() bool {
		p, err := os.ReadFile(started)
		n, _ := fmt.Sscan(string(p), &pid)
		return err == nil && n == 1
	})
	if err := e.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if code := <-codes; code != tool.Cancelled {
		t.Errorf("the call = %q; want cancelled", code)
	}
	if p, err := os.FindProcess(pid); err == nil && p.Signal(syscall.Signal(0)) == nil {
		t.Error("the child is still there")
	}
}

// TestChildCannotStart names a program that is not there.
func TestChildCannotStart(t *testing.T) {
	e := newEngine(t, Options{CompileChild: []string{"/nonexistent/wasmtools"}})
	if code, text, err := callOnce(load(t, e, hostile.Good()), 0); code != tool.Internal || strings.Contains(text, "nonexistent") || err != nil {
		t.Errorf("without the program = %q %s, %v; want internal", code, text, err)
	}
}
