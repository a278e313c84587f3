package runtime

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
)

// module implements [Module].
type module struct {
	engine   *Engine
	digest   tool.Digest
	manifest manifest.Manifest
	trusted  bool
	limits   Limits

	mu      sync.Mutex
	code    []byte // without custom sections; nil once it is compiled
	build   *build // the compilation, from the first call on
	running int
	closed  bool
}

// build is one compilation, which all callers share.
type build struct {
	done    chan struct{}
	program *program
	err     error
}

func (m *module) Digest() tool.Digest         { return m.digest }
func (m *module) Manifest() manifest.Manifest { return m.manifest }

// Run implements [Module].
func (m *module) Run(ctx context.Context, call *hostfuncs.Call) (r tool.Result, u Usage, err error) {
	if call.Tool < 0 || call.Tool >= len(m.manifest.Tools) {
		return r, u, fmt.Errorf("runtime: module %s has no tool %d", m.manifest.Name, call.Tool)
	}
	raw, u, fault := m.call(ctx, call, func(l *lease, at time.Time) ([]byte, error) {
		req, err := encodeRequest(call.Invocation, call.Tool, at)
		if err != nil {
			return nil, err
		}
		return l.run(req, call.Limits.OutputBytes)
	})
	if fault == nil {
		if r, err = parseResponse(raw); err == nil {
			return r, u, nil
		}
		fault = tool.AsError(err)
	}
	r = tool.ErrorResult(fault)
	if said := call.Complaint(); said != "" && (fault.Code == tool.Trap || fault.Code == tool.MemoryLimit) {
		// The module's own words, for its author; the text above is the host's.
		r.Details = map[string]any{"stderr": said}
	}
	return r, u, nil
}

// call runs body with a fresh instance and returns what it made of it. It is
// the frame of every run of guest code.
func (m *module) call(ctx context.Context, call *hostfuncs.Call, body func(*lease, time.Time) ([]byte, error)) (out []byte, u Usage, fault *tool.Error) {
	done, err := m.engine.begin()
	if err != nil {
		return nil, u, tool.AsError(err)
	}
	defer done()

	// What comes before the guest runs is bounded by the caller's context and by
	// the engine's life, but does not count against the tool's own time.
	waiting, endWait := m.engine.stopsAt(ctx, maxTime, call.Invocation)
	defer endWait()
	key := toolKey{m.digest, call.Tool}
	if err := m.engine.admit.enter(waiting, key, m.limits.Concurrency); err != nil {
		return nil, u, tool.AsError(err)
	}
	defer m.engine.admit.leave(key)
	p, err := m.prepared(waiting)
	if err != nil {
		return nil, u, tool.AsError(err)
	}
	if err := m.enter(); err != nil {
		return nil, u, tool.AsError(err)
	}
	defer m.leave()

	began := time.Now()
	m.limit(call)
	runCtx, end := m.engine.stopsAt(ctx, m.limits.Time, call.Invocation)
	defer end()
	at, _ := runCtx.Deadline()
	// The engine panics where it meets what it calls a bug; that is one call's
	// failure and not the process's.
	var l *lease
	defer func() {
		if v := recover(); v != nil {
			cause := fmt.Errorf("%v\n%s", v, debug.Stack())
			out, fault = nil, tool.Errorf(tool.Internal, "the runtime failed").Because(cause)
		}
		if l != nil {
			l.release()
			u = usageOf(l, len(out), time.Since(began))
		}
	}()
	l = newLease(runCtx, end, call, min(call.Limits.MemoryBytes, p.maxMemory))
	err = l.begin(p)
	if err == nil {
		out, err = body(l, at)
	}
	if fault = l.outcome(err); fault != nil {
		out = nil
	}
	return out, u, fault
}

func usageOf(l *lease, output int, took time.Duration) Usage {
	used := l.call.Used()
	return Usage{
		MemoryPeak: int64(l.memory.peak), HostCalls: used.HostCalls, BytesRead: used.BytesRead,
		OutputBytes: int64(output), Duration: took,
	}
}

// limit fills in the call's limits and cuts them to the module's.
func (m *module) limit(call *hostfuncs.Call) {
	l := &call.Limits
	for _, f := range []struct {
		have *int64
		top  int64
	}{
		{&l.MemoryBytes, m.limits.MemoryBytes}, {&l.OutputBytes, m.limits.OutputBytes},
		{&l.HostCalls, m.limits.HostCalls}, {&l.NoteBytes, m.limits.NoteBytes},
	} {
		if *f.have <= 0 || *f.have > f.top {
			*f.have = f.top
		}
	}
	if l.NotesPerSec <= 0 || l.NotesPerSec > m.limits.NotesPerSec {
		l.NotesPerSec = m.limits.NotesPerSec
	}
}

// Prepare implements [Module].
func (m *module) Prepare(ctx context.Context) error {
	done, err := m.engine.begin()
	if err != nil {
		return err
	}
	defer done()
	_, err = m.prepared(ctx)
	return err
}

// prepared returns the compiled module. The first caller starts the
// compilation; it goes on if that caller leaves, for those that come after.
func (m *module) prepared(ctx context.Context) (*program, error) {
	m.mu.Lock()
	b := m.build
	if b == nil {
		done, err := m.engine.begin()
		if m.closed {
			err = errClosed
		}
		if err != nil {
			m.mu.Unlock()
			return nil, err
		}
		b = &build{done: make(chan struct{})}
		m.build = b
		go func() {
			defer done()
			defer close(b.done)
			b.program, b.err = m.engine.compileModule(m)
		}()
	}
	m.mu.Unlock()
	select {
	case <-b.done:
		return b.program, b.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

var errClosed = tool.Errorf(tool.NotAvailable, "the module was unloaded")

func (m *module) enter() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed
	}
	m.running++
	return nil
}

func (m *module) leave() {
	m.mu.Lock()
	m.running--
	last := m.closed && m.running == 0
	m.mu.Unlock()
	if last {
		m.free()
	}
}

// Close implements [Module].
func (m *module) Close() error {
	m.mu.Lock()
	was := m.closed
	m.closed = true
	idle := m.running == 0
	m.mu.Unlock()
	if was {
		return nil
	}
	m.engine.mu.Lock()
	delete(m.engine.modules, m)
	m.engine.mu.Unlock()
	if idle {
		m.free()
	}
	return nil
}

// free closes the compiled form. No instance of it is left.
func (m *module) free() {
	m.mu.Lock()
	b := m.build
	m.mu.Unlock()
	if b == nil {
		return
	}
	<-b.done
	if b.program != nil {
		b.program.close()
	}
}
