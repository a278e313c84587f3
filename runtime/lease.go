package runtime

import (
	"context"
	"encoding/binary"
	goruntime "runtime"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/runtime/linmem"
	"github.com/wasmtools/wasmtools/tool"
)

// lease is one call's hold on one instance, and owner of everything that the
// call has on the host: its time, the result that waits to be read. begin is the
// only place that obtains an instance, release the only one that gives it back.
// A lease belongs to one goroutine.
type lease struct {
	call   *hostfuncs.Call
	term   term
	began  time.Time
	day    time.Time // what the wall clock said then
	outset *outset   // while the snapshot is made; nil in a call

	inst   *instance
	guest  api.Module
	memory *linmem.Memory
	ctx    context.Context // for the engine; it never ends, the term does

	clockFrom int64 // where the guest's monotonic clock stood in the snapshot
	yields    int64
	spoiled   bool        // the instance must not be used again
	result    []byte      // for result_read
	lastError *tool.Error // for error_read
	toldQuota bool        // the guest knows that it is over a quota
}

// stop is the panic by which a host function ends the guest. The engine unwinds
// the guest's stack and returns it as an error.
type stop struct{ err *tool.Error }

func (s *stop) Error() string { return s.err.Error() }
func (s *stop) Unwrap() error { return s.err }

// begin obtains an instance of p whose guest stands where its calls begin.
func (l *lease) begin(p *program) (err error) {
	limit := min(uint64(l.call.Limits.MemoryBytes), p.form.MaxBytes)
	if l.inst, err = p.pool.take(p, l.call.Grant, limit); err != nil {
		return err
	}
	l.guest, l.memory, l.ctx = l.inst.guest, l.inst.memory, l.inst.ctx
	l.inst.seat.lease = l
	l.clockFrom = p.form.Clock
	if p.form.Decision.Snapshot {
		return nil
	}
	if init := l.guest.ExportedFunction("_initialize"); init != nil {
		_, err = init.Call(l.ctx)
	}
	return err
}

// release ends the call and gives its instance back, in this order: the time
// ends before what it bounds, what the call has on the host before the memory
// that it may point to, and only then is the instance reset.
func (l *lease) release() {
	l.term.end()
	l.call.Flush()
	l.result = nil
	if l.inst == nil {
		return
	}
	l.inst.seat.lease = nil
	l.inst.program.pool.give(l.inst, l.spoiled)
	l.inst, l.guest, l.memory = nil, nil, nil
}

// fuel is what the guest has used: units of the countdown, the same in every run
// of the same module with the same input.
func (l *lease) fuel() int64 {
	q := int64(l.inst.program.form.Quantum)
	return l.yields*q + q - int64(int32(l.inst.countdown.Get()))
}

// yield is where a guest stands after every quantum of its code. Native code is
// never preempted: here the scheduler and the collector get their turn, and the
// guest learns whether its call is over. What is not zero makes it trap.
func yield(ctx context.Context, _ api.Module, stack []uint64) {
	l := leaseOf(ctx)
	l.yields++
	goruntime.Gosched()
	stack[0] = 0
	if l.term.over() != nil {
		stack[0] = 1
	}
}

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
	var f api.Function
	if l.inst != nil {
		f = l.inst.function(function)
	} else {
		f = l.guest.ExportedFunction(function)
	}
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
