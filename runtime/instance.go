package runtime

import (
	"context"
	"math"
	"os"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/runtime/linmem"
	"github.com/wasmtools/wasmtools/runtime/rewrite"
	"github.com/wasmtools/wasmtools/tool"
)

var pageSize = uint64(os.Getpagesize())

// instance is one sandbox: a module's code with a memory of its own. At any time
// it belongs to one lease, or to the pool.
type instance struct {
	program   *program
	grant     hostfuncs.Grant // that all of its calls have
	limit     uint64          // of its memory
	guest     api.Module
	memory    *linmem.Memory
	globals   []api.MutableGlobal // in the order of the form's
	functions [2]exported         // what calls call, once it was called
	countdown api.MutableGlobal
	ctx       context.Context // in which its guest runs; host functions find the lease through it
	seat      seat

	kept uint64    // bytes of memory of its own after the last reset
	idle time.Time // since when it waits in the pool
}

// seat is where host functions find the call that runs.
type seat struct{ lease *lease }

type seatKey struct{}

func leaseOf(ctx context.Context) *lease {
	s, _ := ctx.Value(seatKey{}).(*seat)
	if s == nil || s.lease == nil {
		panic(&stop{err: tool.Errorf(tool.Internal, "a host function was called outside a call")})
	}
	return s.lease
}

// allocator gives an instance its memory. A memory allocates once.
type allocator struct{ memory *linmem.Memory }

func (a allocator) Allocate(_, _ uint64) experimental.LinearMemory { return a.memory }

// newInstance makes an instance that stands where the program's calls begin,
// but for `_initialize` if there is no snapshot.
func (p *program) newInstance(grant hostfuncs.Grant, limit uint64) (_ *instance, err error) {
	if p.form.MinBytes > limit {
		return nil, tool.Errorf(tool.MemoryLimit, "the module starts with %d KiB of memory; this call may use %d KiB", p.form.MinBytes>>10, limit>>10)
	}
	i := &instance{program: p, grant: grant, limit: limit}
	if i.memory, err = linmem.New(limit, p.image); err != nil {
		return nil, tool.Errorf(tool.Busy, "the system has no memory for another instance").Because(err)
	}
	defer func() {
		if err != nil {
			i.memory.Free() // the engine forgets it where making the instance fails
		}
	}()
	i.ctx = context.WithValue(context.Background(), seatKey{}, &i.seat)
	i.guest, err = p.engine.InstantiateModule(experimental.WithMemoryAllocator(i.ctx, allocator{i.memory}), p.compiled,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, err
	}
	for _, g := range p.form.Globals {
		i.globals = append(i.globals, i.guest.ExportedGlobal(g.Name).(api.MutableGlobal))
	}
	i.countdown = i.guest.ExportedGlobal(rewrite.CountdownExport).(api.MutableGlobal)
	return i, nil
}

// reset puts the instance back to the snapshot and tells whether it can be used
// again. Nobody may hold a view of its memory.
func (i *instance) reset() bool {
	if !i.program.form.Decision.InPlace || i.guest.IsClosed() {
		return false
	}
	done, err := i.memory.Reset()
	if err != nil { // it has grown
		return false
	}
	i.kept = linmem.KeepBytes
	if !done.Dropped {
		i.kept = min(i.kept, uint64(done.Private)*pageSize)
	}
	for n := range i.functions {
		if stackOf(i.functions[n].Function) > keepStack {
			i.functions[n] = exported{}
		}
	}
	for n, g := range i.program.form.Globals {
		i.globals[n].Set(g.Bits)
	}
	i.countdown.Set(uint64(i.program.form.Quantum))
	return true
}

// exported is a function of the guest as the engine offers it. It has a stack of
// its own and is not for two goroutines.
type exported struct {
	name string
	api.Function
}

// function finds an exported function; nil if there is none. Making the engine's
// object for it takes as long as a short call.
func (i *instance) function(name string) api.Function {
	for n := range i.functions {
		switch f := &i.functions[n]; f.name {
		case name:
			return f.Function
		case "":
			if x := i.guest.ExportedFunction(name); x != nil {
				*f = exported{name, x}
				return x
			}
			return nil
		}
	}
	return i.guest.ExportedFunction(name)
}

// keepStack is how much stack of its own a function may keep after a call, in
// bytes. It starts with 10 KiB and doubles.
const keepStack = 128 << 10

// stackOf is the size of the stack that a function holds: that of its deepest
// recursion so far, up to 80 MiB, and the engine gives none of it back. It does
// not tell either, so the field is looked at; where there is no such field, the
// function counts as too large to keep.
func stackOf(f api.Function) int {
	if f == nil {
		return 0
	}
	v := reflect.ValueOf(f)
	at := stackField.Load()
	if at == nil || at.of != v.Type() {
		at = findStack(v.Type())
		stackField.Store(at)
	}
	if at.index < 0 {
		return math.MaxInt
	}
	return v.Elem().Field(at.index).Len()
}

// stackField is where the last function looked at has its stack: by name it
// takes longer to find than a short call's own work.
var stackField atomic.Pointer[stackIndex]

type stackIndex struct {
	of    reflect.Type
	index int // below zero: there is none
}

func findStack(t reflect.Type) *stackIndex {
	if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		if f, ok := t.Elem().FieldByName("stack"); ok && f.Type.Kind() == reflect.Slice && len(f.Index) == 1 {
			return &stackIndex{t, f.Index[0]}
		}
	}
	return &stackIndex{t, -1}
}

// close gives the instance back to the system. Nothing of it may run.
func (i *instance) close() {
	_ = i.guest.Close(context.Background())
	i.memory.Free()
}

// serves tells whether a call of p with this grant and limit may have the
// instance. Calls with another grant never get it, although nothing is left in
// it: what a reset forgot would stay within what the same person gave.
func (i *instance) serves(p *program, grant hostfuncs.Grant, limit uint64) bool {
	return i.program == p && i.limit == limit && sameGrant(i.grant, grant)
}

// sameGrant compares files and switches directly and the rest, which few have,
// by reflection: most calls wait for this.
func sameGrant(a, b hostfuncs.Grant) bool {
	if !slices.Equal(a.Read, b.Read) || !slices.Equal(a.Write, b.Write) {
		return false
	}
	a.Read, a.Write, b.Read, b.Write = nil, nil, nil, nil
	if len(a.Net) == 0 && len(a.Env) == 0 && len(b.Net) == 0 && len(b.Env) == 0 {
		return a.KV == b.KV && a.Clock == b.Clock
	}
	return reflect.DeepEqual(a, b)
}
