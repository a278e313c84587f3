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
	code    []byte // without custom sections, but for a trusted module; nil once nothing is left to compile
	build   *build // the compilation, from the first call on
	plain   *build // the one without a snapshot, for tools that ask for none
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
	raw, u, fault := m.call(ctx, call, m.freezes(call.Tool), func(l *lease) ([]byte, error) {
		req, err := encodeRequest(call.Invocation, call.Tool, l.term.until)
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

// freezes tells whether calls of a tool begin at a snapshot, if one can be made.
func (m *module) freezes(index int) bool {
	return index < len(m.manifest.Tools) && m.manifest.FromSnapshot(m.manifest.Tools[index])
}

// call runs body with an instance that stands where calls begin, and returns
// what it made of it. It is the frame of every run of guest code.
func (m *module) call(ctx context.Context, call *hostfuncs.Call, freeze bool, body func(*lease) ([]byte, error)) (out []byte, u Usage, fault *tool.Error) {
	done, err := m.engine.begin()
	if err != nil {
		return nil, u, tool.AsError(err)
	}
	defer done()

	// What comes before the guest runs is bounded by the caller's context and by
	// the engine's life, but does not count against the tool's own time.
	now := time.Now()
	l := &lease{call: call, term: termFrom(now, ctx, m.engine, maxTime, call.Invocation.Deadline)}
	defer l.term.end()
	if why := l.term.overAt(now); why != nil {
		return nil, u, why
	}
	key := toolKey{m.digest, call.Tool}
	if !m.engine.admit.tryEnter(key, m.limits.Concurrency) {
		if err := m.engine.admit.enter(l.term.context(), key, m.limits.Concurrency); err != nil {
			return nil, u, tool.AsError(err)
		}
	}
	defer m.engine.admit.leave(key)
	p, err := m.program(&l.term, freeze)
	if err != nil {
		return nil, u, tool.AsError(err)
	}
	if err := m.enter(); err != nil {
		return nil, u, tool.AsError(err)
	}
	defer m.leave()

	m.limit(call)
	l.term.end()
	l.began = time.Now()
	l.day = m.engine.day(l.began)
	l.term = termFrom(l.began, ctx, m.engine, m.limits.Time, call.Invocation.Deadline)
	// The engine panics where it meets what it calls a bug; that is one call's
	// failure and not the process's.
	defer func() {
		if v := recover(); v != nil {
			cause := fmt.Errorf("%v\n%s", v, debug.Stack())
			out, fault = nil, tool.Errorf(tool.Internal, "the runtime failed").Because(cause)
			l.spoiled = true
		}
		u = l.usage(len(out))
		l.release()
	}()
	err = l.begin(p)
	if err == nil {
		out, err = body(l)
	}
	if fault = l.outcome(err); fault != nil {
		out = nil
	}
	return out, u, fault
}

// usage is what the call took.
func (l *lease) usage(output int) Usage {
	used := l.call.Used()
	u := Usage{HostCalls: used.HostCalls, BytesRead: used.BytesRead, OutputBytes: int64(output), Duration: time.Since(l.began)}
	if l.inst != nil {
		u.MemoryPeak, u.Fuel = int64(l.memory.Size()), l.fuel()
	}
	return u
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
	t := newTerm(ctx, m.engine, maxTime, time.Time{})
	defer t.end()
	_, err = m.program(&t, m.freezes(0))
	return err
}

// program returns the compiled module. The first caller starts the compilation;
// it goes on if that caller leaves, for those that come after.
func (m *module) program(t *term, freeze bool) (*program, error) {
	m.mu.Lock()
	at := &m.build
	if !freeze {
		at = &m.plain
	}
	b := *at
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
		*at = b
		go func() {
			defer done()
			defer close(b.done)
			b.program, b.err = m.engine.compileModule(m, freeze)
			m.forget()
		}()
	}
	m.mu.Unlock()
	select {
	case <-b.done:
		return b.program, b.err
	default:
	}
	select {
	case <-b.done:
		return b.program, b.err
	case <-t.context().Done():
		return nil, t.ended()
	}
}

// given is the module as it is to be compiled.
func (m *module) given() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.code
}

// forget lets go of the code if nothing is left to compile.
func (m *module) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.manifest.Tools {
		if m.freezes(i) && m.build == nil || !m.freezes(i) && m.plain == nil {
			return
		}
	}
	m.code = nil
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

// free closes the compiled forms. No instance of them is in use.
func (m *module) free() {
	m.mu.Lock()
	builds := [...]*build{m.build, m.plain}
	m.mu.Unlock()
	for _, b := range builds {
		if b == nil {
			continue
		}
		<-b.done
		if b.program != nil {
			b.program.close()
		}
	}
}
