package runtime

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/tool"
)

// lease is one call's hold on one instance, and owner of everything that the
// call has on the host: its time, its memory, the result that waits to be read.
// begin is the only place that obtains an instance, release the only one that
// gives it back. A lease belongs to one goroutine.
type lease struct {
	call   *hostfuncs.Call
	ctx    context.Context // ends when the call has to
	end    context.CancelFunc
	began  time.Time
	memory linear
	guest  api.Module

	result    []byte      // for result_read
	lastError *tool.Error // for error_read
	toldQuota bool        // the guest knows that it is over a quota
}

// stop is the panic by which a host function ends the guest. The engine unwinds
// the guest's stack and returns it as an error.
type stop struct{ err *tool.Error }

func (s *stop) Error() string { return s.err.Error() }
func (s *stop) Unwrap() error { return s.err }

type leaseKey struct{}

func leaseOf(ctx context.Context) *lease {
	l, _ := ctx.Value(leaseKey{}).(*lease)
	if l == nil {
		panic(&stop{err: tool.Errorf(tool.Internal, "a host function was called outside a call")})
	}
	return l
}

// newLease makes the lease of a call, which must be released. ctx ends when the
// call has to, and end ends it.
func newLease(ctx context.Context, end context.CancelFunc, call *hostfuncs.Call, memory int64) *lease {
	l := &lease{call: call, end: end, began: time.Now(), memory: linear{limit: uint64(memory)}}
	ctx = context.WithValue(ctx, leaseKey{}, l)
	l.ctx = experimental.WithMemoryAllocator(ctx, &l.memory)
	return l
}

// begin obtains an instance of p, fresh and initialised.
func (l *lease) begin(p *program) (err error) {
	l.guest, err = p.engine.InstantiateModule(l.ctx, p.compiled,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return err
	}
	if init := l.guest.ExportedFunction("_initialize"); init != nil {
		_, err = init.Call(l.ctx)
	}
	return err
}

// release ends the call's time, closes the instance and gives its memory back,
// in this order: a stop must not meet what comes after.
func (l *lease) release() {
	l.end()
	l.call.Flush()
	l.result = nil
	if l.guest != nil {
		// Not the call's context, which has ended; closing blocks on nothing.
		_ = l.guest.Close(context.Background())
	}
	l.memory.Free()
}

// timeUp is the end of a guest whose context is done.
func (l *lease) timeUp() *stop { return &stop{err: ended(l.ctx)} }

const (
	headerLen  = 32
	maxCallID  = 256
	maxRequest = 32 << 20 // bytes of arguments
)

// encodeRequest writes the call as docs/abi.md has it.
func encodeRequest(inv tool.Invocation, index int, deadline time.Time) ([]byte, error) {
	if len(inv.CallID) > maxCallID {
		return nil, tool.Errorf(tool.Internal, "the call id has %d bytes; at most %d are allowed", len(inv.CallID), maxCallID)
	}
	if len(inv.Arguments) > maxRequest {
		return nil, tool.Errorf(tool.TooLarge, "the arguments have %d bytes; at most %d are allowed", len(inv.Arguments), maxRequest)
	}
	req := make([]byte, headerLen, headerLen+len(inv.CallID)+len(inv.Arguments))
	binary.LittleEndian.PutUint32(req, 1)
	binary.LittleEndian.PutUint32(req[4:], uint32(index))
	if !deadline.IsZero() {
		binary.LittleEndian.PutUint64(req[8:], uint64(deadline.UnixNano()))
	}
	binary.LittleEndian.PutUint32(req[16:], uint32(len(inv.CallID)))
	binary.LittleEndian.PutUint32(req[20:], uint32(len(inv.Arguments)))
	req = append(req, inv.CallID...)
	return append(req, inv.Arguments...), nil
}

// run hands the guest one request and returns a copy of its response.
func (l *lease) run(req []byte, maxOutput int64) ([]byte, error) {
	packed, err := l.invoke("wt_alloc", uint64(len(req)))
	if err != nil {
		return nil, err
	}
	at := uint32(packed)
	if at == 0 {
		return nil, tool.Errorf(tool.MemoryLimit, "the module has no room for a request of %d bytes", len(req))
	}
	if !l.guest.Memory().Write(at, req) {
		return nil, tool.Errorf(tool.Trap, "wt_alloc(%d) gave memory that the module does not have (at %d)", len(req), at)
	}
	return l.answer(maxOutput, "wt_call", uint64(at), uint64(len(req)))
}

// answer calls a function that returns a packed pointer and length, and copies
// what it points to.
func (l *lease) answer(maxOutput int64, function string, args ...uint64) ([]byte, error) {
	packed, err := l.invoke(function, args...)
	if err != nil {
		return nil, err
	}
	at, n := uint32(packed>>32), uint32(packed)
	if int64(n) > maxOutput {
		return nil, tool.Errorf(tool.Quota, "the module's response has %d bytes; at most %d are allowed", n, maxOutput)
	}
	p, ok := l.guest.Memory().Read(at, n)
	if !ok {
		return nil, tool.Errorf(tool.Trap, "the module's response lies outside its memory (%d bytes at %d)", n, at)
	}
	return append([]byte(nil), p...), nil
}

// invoke calls an exported function that returns one number.
func (l *lease) invoke(function string, args ...uint64) (uint64, error) {
	f := l.guest.ExportedFunction(function)
	if f == nil {
		return 0, tool.Errorf(tool.InvalidModule, "the module does not export %s", function)
	}
	stack := [2]uint64{}
	copy(stack[:], args)
	if err := f.CallWithStack(l.ctx, stack[:]); err != nil {
		return 0, err
	}
	return stack[0], nil
}

// deadline is the earliest of what bounds a call; own tells that it is the
// tool's own limit.
func deadline(now time.Time, limit time.Duration, others ...time.Time) (at time.Time, own bool) {
	at, own = now.Add(limit), true
	for _, o := range others {
		if !o.IsZero() && o.Before(at) {
			at, own = o, false
		}
	}
	return at, own
}

// stopsAt gives a context that ends when the call has to stop, and says why.
// Every reason for a stop meets here: the caller, the deadline, and the engine
// that closes.
func (e *Engine) stopsAt(ctx context.Context, limit time.Duration, inv tool.Invocation) (context.Context, context.CancelFunc) {
	outer, _ := ctx.Deadline()
	at, own := deadline(time.Now(), limit, inv.Deadline, outer)
	why := tool.Errorf(tool.Timeout, "the call's deadline has passed")
	if own {
		why = tool.Errorf(tool.Timeout, "the tool ran longer than %s", limit)
	}
	ctx, stop := context.WithCancelCause(ctx)
	ctx, cancel := context.WithDeadlineCause(ctx, at, why)
	unhook := context.AfterFunc(e.life, func() { stop(context.Cause(e.life)) })
	return ctx, func() {
		unhook()
		cancel()
		stop(nil)
	}
}

// ended says why a context is done, as a model reads it.
func ended(ctx context.Context) *tool.Error {
	return tool.AsError(context.Cause(ctx))
}
