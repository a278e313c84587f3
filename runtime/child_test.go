package runtime

import (
	"bytes"
	"context"
	"os"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/internal/wasmasm"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/testdata/hostile"
	"github.com/wasmtools/wasmtools/tool"
)

// childArg makes the test binary a compiling child.
const childArg = "compile-in-a-child"

func childOptions() Options { return Options{CompileChild: []string{os.Args[0], childArg}} }

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

// TestChildMemory gives a child too little memory for the job.
func TestChildMemory(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("only Linux counts data")
	}
	o := childOptions()
	o.CompileChild = append([]string{"/bin/sh", "-c", `ulimit -d 20000; exec "$@"`, "sh"}, o.CompileChild...)
	e := newEngine(t, o)
	m, err := e.Load(context.Background(), goGuest(t), LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if code, text, err := callOnce(m, 0); err != nil || code != tool.Quota {
		t.Errorf("compiling within 20 MB = %q %s, %v; want quota", code, text, err)
	}
}
