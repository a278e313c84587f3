package runtime

import (
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
)

// Limits are the bounds of every call and of all calls together. A zero field
// means its default. What a manifest states can only be lower, unless the
// module is trusted.
type Limits struct {
	hostfuncs.Limits
	Time          time.Duration // of one call, without waiting for its turn; 30 s
	Compile       time.Duration // of one module; 30 s
	CompileMemory int64         // bytes, of a child that compiles; 2 GiB, as 32 MiB of Go take 900 MiB
	Concurrency   int           // calls of one tool at once; 4
	Total         int           // calls at once; 32
	Queue         int           // calls that wait; 64
}

const (
	defaultTime        = 30 * time.Second
	defaultCompile     = 30 * time.Second
	defaultCompileMem  = 2 << 30
	defaultConcurrency = 4
	defaultTotal       = 32
	defaultQueue       = 64
)

// What no module may have, trusted or not.
const (
	maxMemory = 1 << 30 // bytes; a fill of all of it takes 75 ms and cannot be stopped
	maxOutput = 64 << 20
	maxTime   = time.Hour

	maxCompileMemory = 4 << 30
)

// Bounds on what a module may be, before it is compiled. The engine compiles in
// this process and cannot be interrupted inside a function, so the estimates of
// manifest.CodeStats are bounded too: the most entangled function of go vet,
// the largest Go program tried, is estimated at 0.1 s and 45,000 joins, 2 s for
// the whole of it.
const (
	maxModule       = 32 << 20
	maxBody         = 512 << 10
	maxLocals       = 10_000 // unoptimised C has 2,500; the engine keeps some KiB for each
	maxNesting      = 10_000 // Go's compiler makes 7,700 of a large switch
	maxTable        = 65_536 // elements of all tables; each is 8 bytes outside the guest's memory
	maxFunctionJoin = 500_000
	maxFunctionWork = 5 * time.Second
	maxModuleWork   = 20 * time.Second
)

// withDefaults fills in what is zero.
func (l Limits) withDefaults() Limits {
	d := hostfuncs.DefaultLimits()
	l.MemoryBytes = or(l.MemoryBytes, d.MemoryBytes)
	l.OutputBytes = or(l.OutputBytes, d.OutputBytes)
	l.HostCalls = or(l.HostCalls, d.HostCalls)
	l.NoteBytes = or(l.NoteBytes, d.NoteBytes)
	l.NotesPerSec = or(l.NotesPerSec, d.NotesPerSec)
	l.Time = or(l.Time, defaultTime)
	l.Compile = or(l.Compile, defaultCompile)
	l.CompileMemory = or(l.CompileMemory, defaultCompileMem)
	l.Concurrency = or(l.Concurrency, defaultConcurrency)
	l.Total = or(l.Total, defaultTotal)
	l.Queue = or(l.Queue, defaultQueue)
	return l
}

func or[T int | int64 | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// forModule applies what a manifest states. A module that is not trusted may
// only ask for less; one that asks for more is refused rather than run with
// less than it needs.
func (l Limits) forModule(m manifest.Limits, trusted bool) (Limits, error) {
	apply := func(name string, stated, unit int64, have *int64, top int64) error {
		if stated == 0 {
			return nil
		}
		v := stated * unit
		if !trusted && v > *have || v > top {
			return tool.Errorf(tool.InvalidModule, "manifest: limits.%s: %d is above this runtime's %d", name, stated, min(*have, top)/unit).
				WithNext("get a module that asks for less, or raise the runtime's limit")
		}
		*have = v
		return nil
	}
	ms, conc := int64(l.Time/time.Millisecond), int64(l.Concurrency)
	for _, err := range []error{
		apply("memory_mib", int64(m.MemoryMiB), 1<<20, &l.MemoryBytes, maxMemory),
		apply("output_kib", int64(m.OutputKiB), 1<<10, &l.OutputBytes, maxOutput),
		apply("host_calls", int64(m.HostCalls), 1, &l.HostCalls, 10_000_000),
		apply("time_ms", int64(m.TimeMS), 1, &ms, int64(maxTime/time.Millisecond)),
		apply("concurrency", int64(m.Concurrency), 1, &conc, int64(l.Total)),
	} {
		if err != nil {
			return l, err
		}
	}
	if m.TimeMS != 0 {
		l.Time = time.Duration(ms) * time.Millisecond
	}
	l.Concurrency = int(conc)
	return l, nil
}
