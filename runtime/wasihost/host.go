package wasihost

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	goruntime "runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/sys"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/runtime/rewrite"
	"github.com/wasmtools/wasmtools/tool"
)

// clockGrain is how fine a guest without the grant clock sees time pass.
// Timers and logs need no more; measuring caches of the processor does.
const clockGrain = time.Microsecond

// Host is what one call's guest finds. It belongs to the goroutine that runs
// the guest.
type Host struct {
	Call   *hostfuncs.Call
	Memory *Memory

	ctx     context.Context // ends when the call has to
	began   time.Time
	files   *writableTree // nil: none
	refused *tool.Error
	yields  int64
	fuel    int64
	lost    *tool.Error // why something that the guest wrote is not in the overlay
	ended   bool
}

// New makes the host of a call, which [Host.End] must end. ctx ends when the
// call has to; its cause is what the caller is told then.
func New(ctx context.Context, call *hostfuncs.Call) *Host {
	h := &Host{Call: call, began: time.Now(), Memory: &Memory{limit: uint64(call.Limits.MemoryBytes)}}
	h.ctx = experimental.WithMemoryAllocator(context.WithValue(ctx, hostKey{}, h), h.Memory)
	return h
}

type hostKey struct{}

// Context is what the engine gets: it carries the host and its memory.
func (h *Host) Context() context.Context { return h.ctx }

// Of finds the host in the context that a host function was given.
func Of(ctx context.Context) *Host {
	h, _ := ctx.Value(hostKey{}).(*Host)
	if h == nil {
		panic(tool.Errorf(tool.Internal, "a host function was called outside a call"))
	}
	return h
}

// Check ends the guest if the call's time is over. It looks at the clock
// itself: where every processor runs a guest, nobody is left to end a context.
func (h *Host) Check() {
	if d, ok := h.ctx.Deadline(); ok && !time.Now().Before(d) {
		<-h.ctx.Done()
	}
	if h.ctx.Err() != nil {
		panic(tool.AsError(context.Cause(h.ctx)))
	}
}

// Enter opens a host function: it counts it and ends the guest if it may not go
// on. A panic with a [tool.Error] is how a host function ends a guest: the
// engine unwinds the guest's stack and returns it.
func (h *Host) Enter(k hostfuncs.Kind) {
	if err := h.Call.Enter(h.ctx, k); err != nil {
		h.Check()
		panic(tool.AsError(err))
	}
	h.Check()
}

// Yield is what a guest's polls call.
func Yield(ctx context.Context) {
	h := Of(ctx)
	h.yields++
	goruntime.Gosched()
	h.Check()
}

// Burn takes over what a guest has used, whose instance is still there. It may
// have ended in any way.
func (h *Host) Burn(quantum int32, guest api.Module) {
	if guest == nil {
		return
	}
	if left := guest.ExportedGlobal(rewrite.CountdownExport); left != nil {
		h.fuel = rewrite.Info{Quantum: quantum}.Units(h.yields, int32(left.Get()))
	}
}

// Fuel is what the guest has used: units of its countdown. They depend on
// nothing but the module and what it was given: arguments, files, answers of the
// host, time and chance.
func (h *Host) Fuel() int64 { return h.fuel }

// Finish takes over what a guest that ended well has left in open files.
func (h *Host) Finish() (err error) {
	defer Recover(&err)
	if h.files != nil {
		h.files.flushAll()
	}
	if h.lost != nil {
		return h.lost
	}
	return nil
}

// End ends the call's hold on everything: from here on no file of the guest
// reaches the overlay. The instances must be closed after it, the memory freed
// after them.
func (h *Host) End() {
	h.ended = true
	h.Call.Flush()
}

// Options say how a guest begins.
type Options struct {
	Args   []string // the program's name first
	Stdin  []byte
	Stdout io.Writer // nil: to the log
	Env    []string  // NAME=VALUE, before what the grant gives
	Mount  string    // where the workspace is found
}

// Config is the engine's configuration of an instance. Nothing of it is a
// default of the engine's that reaches the machine.
func (h *Host) Config(o Options) wazero.ModuleConfig {
	stdout := o.Stdout
	if stdout == nil {
		stdout = stream{h, 1}
	}
	grain := sys.ClockResolution(clockGrain)
	if h.Call.Grant.Clock {
		grain = 1
	}
	c := wazero.NewModuleConfig().
		WithStartFunctions().
		WithArgs(o.Args...).
		WithStdin(&input{h, o.Stdin}).
		WithStdout(output{h, stdout}).
		WithStderr(output{h, stream{h, 2}}).
		WithRandSource(entropy{h}).
		WithWalltime(h.walltime, grain).
		WithNanotime(h.nanotime, grain).
		WithNanosleep(h.sleep).
		WithOsyield(func() { goruntime.Gosched(); h.Enter(hostfuncs.Support) })
	for _, list := range [][]string{o.Env, h.Call.Environ()} {
		for _, v := range list {
			name, value, _ := cut(v)
			c = c.WithEnv(name, value)
		}
	}
	if h.Call.Files != nil {
		var root sysFS
		if len(h.Call.Grant.Write) > 0 {
			h.files = &writableTree{tree: tree{host: h}}
			root = h.files
		} else {
			root = &readOnlyTree{tree{host: h}}
		}
		c = c.WithFSConfig(wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(root, o.Mount))
	}
	return c
}

func cut(v string) (name, value string, ok bool) {
	for i := range len(v) {
		if v[i] == '=' {
			return v[:i], v[i+1:], true
		}
	}
	return v, "", false
}

// Clocks are not counted: some languages sleep by reading them until it is time.

func (h *Host) walltime() (sec int64, nsec int32) {
	h.Check()
	// It goes on steadily even if the host's clock is set meanwhile.
	t := h.grained(h.began.Add(time.Since(h.began)).UnixNano())
	return t / 1e9, int32(t % 1e9)
}

// nanotime begins with the call, at one second: Go's runtime takes a reading of
// zero for a broken clock.
func (h *Host) nanotime() int64 {
	h.Check()
	return h.grained(int64(time.Second + time.Since(h.began)))
}

func (h *Host) grained(ns int64) int64 {
	if h.Call.Grant.Clock {
		return ns
	}
	return ns - ns%int64(clockGrain)
}

// sleep waits, but not longer than the call has.
func (h *Host) sleep(ns int64) {
	h.Enter(hostfuncs.Support)
	t := time.NewTimer(time.Duration(ns))
	defer t.Stop()
	select {
	case <-t.C:
	case <-h.ctx.Done():
		h.Check()
	}
}

// input is the guest's standard input.
type input struct {
	h    *Host
	left []byte
}

func (r *input) Read(p []byte) (int, error) {
	r.h.Enter(hostfuncs.Support)
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// output counts what the guest writes.
type output struct {
	h *Host
	w io.Writer
}

func (w output) Write(p []byte) (int, error) {
	w.h.Enter(hostfuncs.Support)
	return w.w.Write(p)
}

// stream is a standard stream that goes to the log.
type stream struct {
	h  *Host
	fd uint32
}

func (s stream) Write(p []byte) (int, error) {
	if s.h.ended {
		return 0, errors.ErrUnsupported
	}
	if err := s.h.Call.Stdio(s.fd, p); err != nil {
		panic(tool.AsError(err))
	}
	return len(p), nil
}

// Output collects standard output up to a limit, at which the guest ends.
type Output struct {
	Limit int64
	Bytes []byte
}

func (o *Output) Write(p []byte) (int, error) {
	if int64(len(o.Bytes))+int64(len(p)) > o.Limit {
		panic(tool.Errorf(tool.Quota, "the module's output has more than %d bytes", o.Limit))
	}
	o.Bytes = append(o.Bytes, p...)
	return len(p), nil
}

// entropy is live, and asked for in pieces that the call's time can end.
type entropy struct{ h *Host }

const maxEntropy = 64 << 10

func (e entropy) Read(p []byte) (int, error) {
	e.h.Enter(hostfuncs.Support)
	p = p[:min(len(p), maxEntropy)]
	return rand.Read(p)
}
