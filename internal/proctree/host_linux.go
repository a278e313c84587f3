//go:build amd64 || arm64

package proctree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree/walk"
	"github.com/wasmtools/wasmtools/internal/proctree/wire"
)

// maxIdle is how many reapers wait for work in all; each takes a few megabytes.
const maxIdle = 8

// linuxHost keeps the helpers. A reaper serves one tree after the other, all
// under the same profile and limits, which is what makes a start cheap: the
// sandbox stands already.
type linuxHost struct {
	warm int

	// births is held while a helper is started: a stuck start must not hold up
	// those who need none.
	births sync.Mutex
	first  *zygote
	ended  <-chan struct{} // of the first zygote's process
	box    *zygote
	noBox  error // why there is no box
	noWrap error // why there is no bubblewrap

	mu     sync.Mutex
	closed bool
	idle   []*reaper
	trees  map[*tree]bool
}

func newHost(o Options) host {
	h := &linuxHost{warm: o.Warm, trees: map[*tree]bool{}}
	if h.warm <= 0 {
		h.warm = 2
	}
	return h
}

func (h *linuxHost) start(ctx context.Context, s Spec) (*Process, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	setup := s.setup()
	for {
		r, used, err := h.lease(ctx, setup)
		if err != nil {
			return nil, err
		}
		p, err := h.begin(ctx, r, s)
		if used && errors.Is(err, ErrClosed) && ctx.Err() == nil {
			continue // it died while it was idle
		}
		return p, err
	}
}

func (h *linuxHost) probe(ctx context.Context, p Profile) (Active, error) {
	s := Spec{Profile: p}
	if err := s.checkProfile(); err != nil {
		return Active{}, err
	}
	r, _, err := h.lease(ctx, s.setup())
	if err != nil {
		return Active{}, err
	}
	h.giveBack(r)
	return r.active, nil
}

// begin starts the tree of a leased reaper, and gives it back if that fails.
func (h *linuxHost) begin(ctx context.Context, r *reaper, s Spec) (*Process, error) {
	t, p, err := r.start(ctx, s)
	if err != nil {
		h.giveBack(r)
		return nil, err
	}
	t.host = h
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		r.conn.Close()
		p.closeFiles()
		return nil, ErrClosed
	}
	h.trees[t] = true
	h.mu.Unlock()
	return p, nil
}

// lease returns a reaper for setup that nobody else has; used tells whether it
// has been waiting.
func (h *linuxHost) lease(ctx context.Context, setup wire.Setup) (r *reaper, used bool, err error) {
	key := string(setup.Encode())
	if r, err := h.waiting(key); r != nil || err != nil {
		return r, true, err
	}
	h.births.Lock()
	defer h.births.Unlock()
	if r, err := h.waiting(key); r != nil || err != nil { // while we waited
		return r, true, err
	}
	r, err = h.newReaper(ctx, setup)
	if errors.Is(err, ErrClosed) && ctx.Err() == nil {
		r, err = h.newReaper(ctx, setup) // a zygote was killed; there is another now
	}
	if err != nil {
		return nil, false, err
	}
	r.key = key
	return r, false, nil
}

// waiting takes an idle reaper; nil if none is of that key.
func (h *linuxHost) waiting(key string) (*reaper, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	for i := len(h.idle) - 1; i >= 0; i-- {
		if r := h.idle[i]; r.key == key {
			h.idle = slices.Delete(h.idle, i, i+1)
			return r, nil
		}
	}
	return nil, nil
}

// giveBack keeps an idle reaper, within limits, or lets it end.
func (h *linuxHost) giveBack(r *reaper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	same := 0
	for _, i := range h.idle {
		if i.key == r.key {
			same++
		}
	}
	if h.closed || r.once || !r.usable() || same >= h.warm {
		r.conn.Close()
		return
	}
	h.idle = append(h.idle, r)
	if len(h.idle) > maxIdle {
		h.idle[0].conn.Close()
		h.idle = slices.Delete(h.idle, 0, 1)
	}
}

// newReaper starts a reaper and builds its sandbox. h.births is held.
func (h *linuxHost) newReaper(ctx context.Context, setup wire.Setup) (*reaper, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if h.first == nil || !h.first.alive() {
		z, ended, err := openZygote()
		if err != nil {
			return nil, err
		}
		h.first, h.ended = z, ended
	}
	if setup.Profile == None {
		return h.setUp(ctx, h.first, wire.Spawn{Kind: wire.KindReaper}, setup)
	}
	r, err := h.newBoxed(ctx, setup)
	var no *UnavailableError
	if errors.As(err, &no) {
		var werr error
		if r, werr = h.newWrapped(ctx, setup); werr == nil {
			return r, nil
		}
		err = &UnavailableError{Profile: no.Profile, Reason: no.Reason + "; bubblewrap: " + werr.Error()}
	}
	if err == nil || !setup.Weak || no == nil {
		return r, err
	}
	weak, werr := h.setUp(ctx, h.first, wire.Spawn{Kind: wire.KindReaper}, setup)
	if werr != nil {
		if errors.As(werr, &no) {
			return nil, &UnavailableError{Profile: setup.Profile, Reason: no.Reason}
		}
		return nil, werr
	}
	return weak, nil
}

func (h *linuxHost) newBoxed(ctx context.Context, setup wire.Setup) (*reaper, error) {
	if h.box == nil || !h.box.alive() {
		if h.noBox != nil {
			return nil, &UnavailableError{Profile: setup.Profile, Reason: h.noBox.Error()}
		}
		conn, _, err := h.first.spawn(wire.Spawn{Kind: wire.KindBox})
		if err != nil {
			var se *StartError
			if !errors.As(err, &se) {
				return nil, err
			}
			h.noBox = errors.New("the system refuses user namespaces (" + se.Err.Error() + ")")
			return nil, &UnavailableError{Profile: setup.Profile, Reason: h.noBox.Error()}
		}
		h.box = &zygote{conn: conn}
	}
	setup.Hide = append(slices.Clone(setup.Hide), foreignSockets(setup.Write)...)
	r, err := h.setUp(ctx, h.box, wire.Spawn{Kind: wire.KindBoxed, OwnNet: !setup.Loopback}, setup)
	var se *StartError
	if errors.As(err, &se) && se.Op == "helper" {
		return nil, &UnavailableError{Profile: setup.Profile, Reason: "the system refuses namespaces (" + se.Err.Error() + ")"}
	}
	return r, err
}

// wrapTries bounds the starts of bubblewrap for one reaper. It ends if one of
// the paths it must cover, such as another program's socket, went away after it
// was listed; a start takes some 10 ms.
const wrapTries = 8

// newWrapped is for systems that let bubblewrap make namespaces, and not us.
func (h *linuxHost) newWrapped(ctx context.Context, setup wire.Setup) (*reaper, error) {
	if h.noWrap != nil {
		return nil, h.noWrap
	}
	var r *reaper
	var err error
	hide := setup.Hide
	for range wrapTries {
		setup.Hide = append(slices.Clone(hide), foreignSockets(setup.Write)...)
		r, err = h.setUp(ctx, h.first, wire.Spawn{Kind: wire.KindWrapped, Setup: string(setup.Encode())}, setup)
		if !errors.Is(err, ErrClosed) || !h.first.alive() {
			break
		}
	}
	var no *UnavailableError
	var se *StartError
	switch {
	case errors.As(err, &no):
		return nil, errors.New(no.Reason)
	case errors.As(err, &se) && se.Err == syscall.ENOENT:
		h.noWrap = errors.New("it is not installed")
		return nil, h.noWrap
	case errors.Is(err, ErrClosed):
		return nil, errors.New("it does not start")
	case err != nil:
		return nil, err
	}
	// Between the zygote's child and the reaper stand two processes of bubblewrap.
	inner := slices.IndexFunc(walk.Descendants(r.pid, false), func(p walk.Process) bool { return p.Name == "wasmtools-helpe" })
	if inner < 0 {
		r.conn.Close()
		return nil, errors.New("its helper is not found")
	}
	r.pid = walk.Descendants(r.pid, false)[inner].Pid
	return r, nil
}

func (h *linuxHost) setUp(ctx context.Context, from *zygote, s wire.Spawn, setup wire.Setup) (*reaper, error) {
	conn, pid, err := from.spawn(s)
	if err != nil {
		return nil, err
	}
	r := &reaper{conn: conn, pid: pid, boxed: s.Kind != wire.KindReaper, answers: make(chan wire.Frame, 1)}
	// A /tmp in memory is one tree's own, and bubblewrap's covers cannot be renewed.
	r.once = r.boxed && setup.Tmp == "" || s.Kind == wire.KindWrapped
	go r.listen()
	f, err := r.ask(ctx, wire.Frame{Type: wire.TypeSetup, Body: setup.Encode()})
	if err != nil {
		conn.Close()
		return nil, err
	}
	var ready wire.Ready
	switch {
	case f.Type == wire.TypeRefused:
		conn.Close()
		return nil, refusal(f, setup.Profile)
	case f.Type != wire.TypeReady || ready.Decode(f.Body) != nil:
		conn.Close()
		return nil, wire.ErrFrame
	}
	r.active = Active{Profile: setup.Profile, Means: ready.Means, Network: ready.Network, Processes: ready.Processes, Gaps: ready.Gaps}
	return r, nil
}

// closeGrace is what programs have between SIGTERM and SIGKILL when the server
// ends.
const closeGrace = time.Second

func (h *linuxHost) close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	trees := make([]*tree, 0, len(h.trees))
	for t := range h.trees {
		trees = append(trees, t)
	}
	idle := h.idle
	h.idle = nil
	h.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), 2*closeGrace)
	defer cancel()
	var wg sync.WaitGroup
	for _, t := range trees {
		wg.Go(func() {
			t.kill(ctx, KillOptions{Grace: closeGrace})
			t.close()
		})
	}
	wg.Wait()
	for _, r := range idle {
		r.conn.Close()
	}
	h.births.Lock() // bounded, as each birth is
	defer h.births.Unlock()
	if h.box != nil {
		h.box.conn.Close()
	}
	if h.first == nil {
		return nil
	}
	h.first.conn.Close()
	select {
	case <-h.ended:
		return nil
	case <-time.After(3 * time.Second):
		return errors.New("proctree: the helper does not end")
	}
}

// foreignSockets lists the named sockets of other programs that a tree could
// connect to although it may not write to their files: the kernel asks for the
// right to write and takes no notice of a read-only mount. Those in /run and
// /tmp are out of sight already. Sockets made later are not covered.
func foreignSockets(writable []string) []string {
	b, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	var found []string
	for line := range strings.Lines(string(b)) {
		i := strings.IndexByte(line, '/')
		if i < 0 || len(found) >= 1000 {
			continue
		}
		path := strings.TrimSuffix(line[i:], "\n")
		if path != filepath.Clean(path) || slices.Contains(found, path) {
			continue
		}
		inside := func(dir string) bool { return strings.HasPrefix(path, dir+"/") }
		if slices.ContainsFunc(append([]string{"/run", "/tmp", "/var/tmp", "/dev"}, writable...), inside) {
			continue
		}
		found = append(found, path)
	}
	return found
}
