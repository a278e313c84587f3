package runtime

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/testdata/hostile"
	"github.com/wasmtools/wasmtools/tool"
)

func newEngine(t testing.TB, o Options) *Engine {
	t.Helper()
	e, err := New(context.Background(), o)
	if err != nil {
		t.Fatalf("New(%+v) = %v", o, err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return e
}

func load(t testing.TB, e *Engine, wasm []byte) Module {
	t.Helper()
	m, err := e.Load(context.Background(), wasm, LoadOptions{})
	if err != nil {
		t.Fatalf("Load = %v", err)
	}
	return m
}

// find returns the guest of this name.
func find(t testing.TB, name string) []byte {
	t.Helper()
	for _, g := range hostile.Guests() {
		if g.Name == name {
			return g.Wasm
		}
	}
	t.Fatalf("no guest is named %s", name)
	return nil
}

// waitFor waits until ok holds, and fails after ten seconds.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatal("what was waited for did not happen")
		}
		time.Sleep(time.Millisecond)
	}
}

// attack loads and calls a guest once and returns the code and text.
func attack(e *Engine, wasm []byte, index int) (tool.Code, string, error) {
	m, err := e.Load(context.Background(), wasm, LoadOptions{})
	if err != nil {
		return tool.CodeOf(err), err.Error(), nil
	}
	defer m.Close()
	return callOnce(m, index)
}

func callOnce(m Module, index int) (tool.Code, string, error) {
	r, _, err := m.Run(context.Background(), &hostfuncs.Call{
		Tool: index, Invocation: tool.Invocation{CallID: "1", Arguments: []byte("{}")},
	})
	return r.Code, r.PlainText(), err
}

// TestHostileGuests runs every hostile guest once and compares the code, and
// whether it was refused before anything of it was compiled.
func TestHostileGuests(t *testing.T) {
	e := newEngine(t, Options{})
	seen := map[string]bool{}
	for _, g := range hostile.Guests() {
		t.Run(g.Name, func(t *testing.T) {
			if seen[g.Name] {
				t.Fatalf("two guests are named %s", g.Name)
			}
			seen[g.Name] = true
			began := time.Now()
			_, err := e.Load(context.Background(), g.Wasm, LoadOptions{})
			if got := tool.CodeOf(err); (got == tool.InvalidModule) != g.AtLoad {
				t.Fatalf("%s: Load = %v, want a refusal: %v", g.Does, err, g.AtLoad)
			}
			got, text, err := attack(e, g.Wasm, 0)
			if err != nil || got != g.Want {
				t.Errorf("%s: code %q, error %v; want %q\n%s", g.Does, got, err, g.Want, text)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("%s: took %s", g.Does, took)
			}
			t.Log(text)
		})
	}
}

// TestGoodGuest is the control of the suite: the frame that the hostile guests
// are built on works.
func TestGoodGuest(t *testing.T) {
	e := newEngine(t, Options{})
	if code, text, err := attack(e, hostile.Good(), 0); code != "" || text != "ok" || err != nil {
		t.Errorf("a good guest = %q, %q, %v; want ok", code, text, err)
	}
}

// TestHostileLeavesNothing runs every attack a hundred times in a row (or as often
// as WASMTOOLS_HOSTILE says) and looks at what the process holds afterwards. Which
// codes they end with on a quiet machine is TestHostileGuests' concern; where the
// attacks are many, a call may also run out of time, and those that take long to
// end by themselves do so in one call of a hundred and are stopped in the others.
func TestHostileLeavesNothing(t *testing.T) {
	e := newEngine(t, Options{})
	type target struct {
		hostile.Guest
		m     Module
		index int
		slow  bool
	}
	var all []target
	for _, g := range hostile.Guests() {
		tg := target{Guest: g}
		if !g.AtLoad {
			tg.m = load(t, e, g.Wasm)
		}
		all = append(all, tg)
	}
	goguest := load(t, e, goGuest(t))
	for i, g := range hostile.GoTools {
		tg := target{Guest: hostile.Guest{Name: "go-" + g.Name, Want: g.Want}, m: goguest, index: i}
		if g.Slow {
			tg.Want = tool.Timeout // which is an end like any other, and sooner
		}
		all = append(all, tg)
	}
	times := 100
	if testing.Short() {
		times = 10
	}
	patience, many := 15*time.Millisecond, false
	if n, err := strconv.Atoi(os.Getenv("WASMTOOLS_HOSTILE")); err == nil {
		times, patience, many = n, 3*time.Millisecond, true // .ci/long
	}
	calls, late := 0, 0
	round := func(tg target, n int) {
		for k := range n {
			var got tool.Code
			var err error
			if tg.AtLoad {
				_, err = e.Load(context.Background(), tg.Wasm, LoadOptions{})
				got, err = tool.CodeOf(err), nil
			} else {
				ctx, cancel := context.WithCancel(context.Background())
				var r tool.Result
				inv := tool.Invocation{CallID: "1", Arguments: []byte("{}")}
				if tg.Want == tool.Timeout || tg.slow && k%100 != 0 {
					inv.Deadline = time.Now().Add(patience)
				}
				r, _, err = tg.m.Run(ctx, &hostfuncs.Call{Tool: tg.index, Invocation: inv})
				cancel()
				got = r.Code
			}
			if calls++; many && got == tool.Timeout && tg.Want != tool.Timeout {
				late++
			} else if got != tg.Want || err != nil {
				t.Fatalf("%s: code %q, error %v; want %q", tg.Name, got, err, tg.Want)
			}
		}
	}
	for i, tg := range all {
		round(tg, 1) // compiles, and warms what is kept on purpose
		began := time.Now()
		round(tg, 1)
		took := time.Since(began)
		all[i].slow = many && (took > 20*time.Millisecond || tg.AtLoad && took > 2*time.Millisecond)
	}
	before := resources(t)
	calls, late = 0, 0
	for _, tg := range all {
		began := time.Now()
		n := times
		if tg.AtLoad && tg.slow {
			n /= 10 // refused, and nothing of it was ever there
		}
		round(tg, n)
		if took := time.Since(began); took > time.Second {
			t.Logf("%s: %d times in %s", tg.Name, n, took.Round(time.Millisecond))
		}
	}
	var after held
	for range 50 { // the engine's watchers end a moment after their call
		if after = resources(t); after.goroutines <= before.goroutines {
			break
		}
		goruntime.Gosched()
	}
	t.Logf("%d guests, %d calls, %d of them out of time: before %+v, after %+v", len(all), calls, late, before, after)
	if after.goroutines > before.goroutines {
		t.Errorf("%d goroutines before, %d after", before.goroutines, after.goroutines)
	}
	if after.files > before.files {
		t.Errorf("%d descriptors before, %d after", before.files, after.files)
	}
	if after.heap > before.heap+16<<20 {
		t.Errorf("%d MiB of heap before, %d after", before.heap>>20, after.heap>>20)
	}
	if after.rss > before.rss+64<<20 {
		t.Errorf("%d MiB resident before, %d after", before.rss>>20, after.rss>>20)
	}
	// Ten instances' worth of addresses: mappings lie side by side and count as one.
	if after.virtual > before.virtual+640<<20 {
		t.Errorf("%d MiB of addresses before, %d after", before.virtual>>20, after.virtual>>20)
	}
	if after.maps > before.maps+32 {
		t.Errorf("%d mappings before, %d after", before.maps, after.maps)
	}
}

type held struct {
	goroutines, files, maps int
	heap, rss, virtual      int64
}

// resources tells what the process holds, after everything was collected.
func resources(t testing.TB) held {
	t.Helper()
	for range 3 {
		goruntime.GC()
	}
	debug.FreeOSMemory()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	h := held{goroutines: goruntime.NumGoroutine(), heap: int64(m.HeapAlloc)}
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		h.files = len(list)
	}
	if p, err := os.ReadFile("/proc/self/maps"); err == nil {
		h.maps = strings.Count(string(p), "\n")
	}
	if p, err := os.ReadFile("/proc/self/statm"); err == nil {
		f := strings.Fields(string(p))
		pages, _ := strconv.ParseInt(f[1], 10, 64)
		h.rss = pages * int64(os.Getpagesize())
		pages, _ = strconv.ParseInt(f[0], 10, 64)
		h.virtual = pages * int64(os.Getpagesize())
	}
	return h
}

var goGuestOnce = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "goguest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, "../testdata/hostile/goguest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %v\n%s", err, msg)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range hostile.GoTools {
		names = append(names, g.Name)
	}
	return manifest.Embed(wasm, hostile.GoManifest(names))
})

// goGuest builds testdata/hostile/goguest once per run; Go's build cache makes
// it quick after the first time.
func goGuest(t testing.TB) []byte {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command to build the guest")
	}
	wasm, err := goGuestOnce()
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func TestGoGuest(t *testing.T) {
	e := newEngine(t, Options{Limits: Limits{Time: 30 * time.Second}})
	m := load(t, e, goGuest(t))
	for i, g := range hostile.GoTools {
		t.Run(g.Name, func(t *testing.T) {
			if g.Slow && testing.Short() {
				t.Skip("takes seconds to run out of stack")
			}
			inv := tool.Invocation{CallID: "1", Arguments: []byte("{}")}
			if g.Want == tool.Timeout {
				inv.Deadline = time.Now().Add(100 * time.Millisecond)
			}
			r, u, err := m.Run(context.Background(), &hostfuncs.Call{Tool: i, Invocation: inv})
			got, text := r.Code, r.PlainText()
			if got != g.Want || err != nil {
				t.Errorf("code %q, error %v; want %q\n%s", got, err, g.Want, text)
			}
			t.Log(text, r.Details, u)
			switch g.Name {
			case "remembers":
				if _, again, _ := callOnce(m, i); text != "1" || again != "1" {
					t.Errorf("calls saw themselves as number %q and %q; want 1 and 1: memory is not fresh", text, again)
				}
			case "environment":
				if text != "seen: " && text != "seen: ;" {
					t.Errorf("the guest sees %q; want nothing", text)
				}
			}
		})
	}
}
