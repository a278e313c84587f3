package terminal

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/terminal/output"
	"github.com/wasmtools/wasmtools/tool"
)

// Limits, SPEC: terminal_session.
const (
	MaxSessions  = 32        // that live; nothing that runs is ended to make room
	MaxProcesses = 64        // of exec, that run
	keepFinished = 100       // ended ones that can still be read
	keepFor      = time.Hour // and how long

	// maxKeptSpool bounds the disk that ended ones take, in all.
	maxKeptSpool = 160 << 20
	// maxSpools is what the spools of all that runs may take; when it is given away,
	// each further one gets smallSpool.
	maxSpools  = 1 << 30
	smallSpool = 4 << 20

	MaxCommand = 256 << 10 // bytes of a command's text
	MaxSend    = 64 << 10  // bytes of input at a time

	DefaultYield = 10 * time.Second
	MinYield     = 50 * time.Millisecond
	MaxYield     = 120 * time.Second

	DefaultTimeout = 10 * time.Minute // of exec; commands of a session have none
	MaxTimeout     = 24 * time.Hour

	DefaultOutput = 24 << 10 // bytes of a result
	MinOutput     = 256
	MaxOutput     = 256 << 10

	DefaultCols, DefaultRows = 120, 40
	MaxCols, MaxRows         = 500, 300

	// killGrace is what programs have between SIGTERM and SIGKILL. All is gone
	// within three seconds of a timeout or of Close.
	killGrace = 1500 * time.Millisecond
	// leftGrace is the same for what a process leaves behind that has ended itself.
	leftGrace = 300 * time.Millisecond
)

// readyTime is how long a shell may take to its first prompt; the user's start-up
// file is slow at times. Changed by a test.
var readyTime = 15 * time.Second

// Options configure a [Manager].
type Options struct {
	// Root is the workspace: a real, absolute path. Working directories are
	// relative to it.
	Root string
	// State is a directory for spools, the journal and command files. Several
	// managers may share it. It should lie in what Private names.
	State string
	// Host starts processes. If it is nil the manager has one of its own.
	Host *proctree.Host

	// Profile is that of calls that name none; "" is workspace-write.
	Profile string
	// AllowUnsandboxed lets calls ask for the profile none.
	AllowUnsandboxed bool
	// Weak accepts a sandbox without namespaces, see proctree.Profile.
	Weak bool
	// NoNetwork turns the loopback network of the profiles off.
	NoNetwork bool
	// Lists gives what no program may see, and what none may write although it
	// lies in the workspace; absolute paths. It is asked before every command.
	Lists func(context.Context) (hide, protect []string, err error)
	// Private are directories that no profile but none ever shows: state, cache,
	// keys, the private socket. What a manager needs of State it shows itself.
	Private []string
	Limits  proctree.Limits

	// Environ is the environment of the server; nil means os.Environ().
	Environ []string
	// PassEnv names further variables of it that programs get.
	PassEnv []string
	// Startup lets a session's shell read the user's start-up file.
	Startup bool
	// Path is the list of directories in which shells are looked for; nil means
	// that of PATH in the environment.
	Path []string

	// Secret gives the secret that a reference names; nil means that there are
	// none. The manager keeps the bytes to take them out of output.
	Secret func(ctx context.Context, ref string) ([]byte, error)

	// Events is told what happens; nil means nobody. It is called with locks held
	// and must return at once.
	Events func(Event)
}

// Manager runs processes and sessions. It is safe for concurrent use; a call on
// one session never waits for another session.
type Manager struct {
	o       Options
	host    *proctree.Host
	ownHost bool
	dir     string // of this manager, below State
	journal *journal
	boot    string

	mu       sync.Mutex
	closed   bool
	units    map[string]*unit
	lost     map[string]*lost
	order    []*unit // ended ones, in the order of their end
	starting [2]int  // processes and sessions that are being started
	wg       sync.WaitGroup
}

// Open returns a manager. It ends what managers before it have left behind,
// whose servers are gone.
func Open(o Options) (*Manager, error) {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.Profile == "" {
		o.Profile = proctree.WorkspaceWrite
	}
	if o.Lists == nil {
		o.Lists = func(context.Context) (hide, protect []string, err error) { return nil, nil, nil }
	}
	if o.Path == nil {
		o.Path = filepath.SplitList(lookup(o.Environ, "PATH"))
		if len(o.Path) == 0 {
			o.Path = filepath.SplitList(fallbackPath)
		}
	}
	root, err := filepath.EvalSymlinks(o.Root)
	if err != nil {
		return nil, err
	}
	if o.Root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.State, 0o700); err != nil {
		return nil, err
	}
	if o.State, err = filepath.EvalSymlinks(o.State); err != nil {
		return nil, err
	}
	if o.State, err = filepath.Abs(o.State); err != nil {
		return nil, err
	}
	m := &Manager{o: o, host: o.Host, units: map[string]*unit{}, boot: bootID()}
	m.lost = recoverLost(o.State)
	if m.dir, m.journal, err = newInstance(o.State); err != nil {
		return nil, err
	}
	if m.host == nil {
		m.host, m.ownHost = proctree.Open(proctree.Options{}), true
	}
	return m, nil
}

// Shutdown ends everything, and returns when nothing is left. Records cannot be
// read afterwards.
func (m *Manager) Shutdown() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	units := m.live()
	m.mu.Unlock()
	var wg sync.WaitGroup
	for _, u := range units {
		wg.Go(func() { u.end() })
	}
	wg.Wait()
	m.wg.Wait()
	var err error
	if m.ownHost {
		err = m.host.Close()
	}
	m.mu.Lock()
	for _, l := range m.lost {
		l.close()
	}
	m.mu.Unlock()
	m.journal.close()
	return errors.Join(err, os.RemoveAll(m.dir))
}

// live lists what has not ended; m.mu is held.
func (m *Manager) live() []*unit {
	var l []*unit
	for _, u := range m.units {
		if !u.over() {
			l = append(l, u)
		}
	}
	slices.SortFunc(l, func(a, b *unit) int { return a.started.Compare(b.started) })
	return l
}

// newID gives a name that nothing had and nothing will have.
func newID(session bool) string {
	prefix := "p-"
	if session {
		prefix = "s-"
	}
	return prefix + random(12)
}

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return strings.ToLower(base32.StdEncoding.EncodeToString(b))[:n]
}

func validID(s string) bool {
	if len(s) != 14 || s[:2] != "s-" && s[:2] != "p-" {
		return false
	}
	return strings.Trim(s[2:], "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// find gives the unit of a name.
func (m *Manager) find(id string) (*unit, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed()
	}
	m.prune()
	if u := m.units[id]; u != nil {
		return u, nil
	}
	if m.lost[id] != nil {
		return nil, tool.Errorf(tool.Lost, "%s ended with the server that ran it", id).
			WithNext("read its last output with op read, or start again with op open or exec")
	}
	if !validID(id) {
		return nil, tool.Errorf(tool.NotFound, "%s is no name of a session or process", tool.QuotePath(clip(id))).
			WithNext("use a name that an answer gave as session or process; op list shows them")
	}
	return nil, tool.Errorf(tool.Lost, "%s is not there any more", id).
		WithNext("start again with op open or exec; ended ones can be read for an hour")
}

// findSession is find for what only a session can do.
func (m *Manager) findSession(id string) (*unit, error) {
	u, err := m.find(id)
	if err == nil && !u.session {
		return nil, tool.Errorf(tool.InvalidArguments, "%s is a process, not a session", id).
			WithNext("open a session with op open")
	}
	return u, err
}

func errClosed() error {
	return tool.Errorf(tool.NotAvailable, "the terminal is shut down").WithNext("start the server again")
}

// admit takes a place for something that is to be started; done gives it back.
func (m *Manager) admit(session bool) (done func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed()
	}
	kind, most, word := 0, MaxProcesses, "processes"
	if session {
		kind, most, word = 1, MaxSessions, "sessions"
	}
	n := m.starting[kind]
	for _, u := range m.units {
		if u.session == session && !u.over() {
			n++
		}
	}
	if n >= most {
		return nil, tool.Errorf(tool.Quota, "%d %s run already, which is the most", n, word).
			WithNext("close one of those that op list shows")
	}
	m.starting[kind]++
	m.wg.Add(1)
	return func() {
		m.mu.Lock()
		m.starting[kind]--
		m.mu.Unlock()
		m.wg.Done()
	}, nil
}

// add makes a started unit known. The caller has a place for it.
func (m *Manager) add(u *unit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	m.units[u.id] = u
	m.wg.Add(1)
	return nil
}

// retire notes that u has ended.
func (m *Manager) retire(u *unit) {
	m.mu.Lock()
	m.order = append(m.order, u)
	m.prune()
	m.mu.Unlock()
	m.wg.Done()
}

// prune forgets ended units: those that are old, those that are too many, and the
// spools of the oldest when they take too much. m.mu is held.
func (m *Manager) prune() {
	now := time.Now()
	for len(m.order) > 0 && (len(m.order) > keepFinished || now.Sub(m.order[0].endedAt()) > keepFor) {
		delete(m.units, m.order[0].id)
		m.order[0].dropSpool()
		m.order = m.order[1:]
	}
	var sum int64
	for _, u := range slices.Backward(m.order) {
		if sum += u.spooled(); sum > maxKeptSpool {
			u.dropSpool()
		}
	}
	for id, l := range m.lost {
		if now.Sub(l.found) > keepFor {
			l.close()
			delete(m.lost, id)
		}
	}
}

// spoolTo gives a log a file. A full disk does not stop commands: then memory
// alone keeps their output.
func (u *unit) spoolTo(log *output.Log, path string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return
	}
	limit := u.m.spoolLimit()
	u.limit.Store(limit)
	if limit != output.SpoolBytes {
		u.m.journal.write(entry{ID: u.id, Limit: limit})
	}
	log.Attach(f, limit)
}

// spoolLimit is what one more spool may take beside those of all that runs.
func (m *Manager) spoolLimit() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := int64(maxSpools)
	for _, u := range m.units {
		if !u.over() {
			left -= u.limit.Load()
		}
	}
	return max(min(left, output.SpoolBytes), smallSpool)
}

// permits tells whether calls may ask for a profile.
func (m *Manager) permits(name string) error {
	switch name {
	case proctree.None:
		if !m.o.AllowUnsandboxed {
			return tool.Errorf(tool.Denied, "the profile none is not allowed here").
				WithNext("use workspace-write or read-only; a person can set allow_unsandboxed in the table terminal of wasmtools.toml")
		}
	case proctree.WorkspaceWrite, proctree.ReadOnly:
	default:
		return tool.Errorf(tool.InvalidArguments, "there is no profile %s", tool.QuotePath(clip(name))).
			WithNext("use workspace-write, read-only or none")
	}
	return nil
}

// profile makes a profile of its name, as it is now.
func (m *Manager) profile(ctx context.Context, name string) (proctree.Profile, error) {
	p := proctree.Profile{Name: name}
	if err := m.permits(name); err != nil || name == proctree.None {
		return p, err
	}
	hide, protect, err := m.o.Lists(ctx)
	if err != nil {
		return p, err
	}
	if name == proctree.ReadOnly {
		p.Read = []string{m.o.Root}
	} else {
		p.Write, p.Protect = []string{m.o.Root}, protect
	}
	p.Read = append(p.Read, filepath.Join(m.dir, commandDir))
	p.Hide = append(slices.Clone(m.o.Private), hide...)
	if !slices.Contains(p.Hide, m.o.State) {
		p.Hide = append(p.Hide, m.o.State)
	}
	p.Tmp = filepath.Join(m.dir, tmpDir)
	p.Weak = m.o.Weak
	p.Network = proctree.NetworkLoopback
	if m.o.NoNetwork {
		p.Network = proctree.NetworkOff
	}
	return p, nil
}

// Leader names the process that a session or process began with; both numbers
// are the kernel's, in the server's own view.
type Leader struct {
	Pid   int
	Start uint64 // clock ticks since boot
}

// Leaders lists those of everything that may still have processes.
func (m *Manager) Leaders() []Leader {
	m.mu.Lock()
	defer m.mu.Unlock()
	var l []Leader
	for _, u := range m.live() {
		if u.proc != nil && u.proc.Pid > 0 {
			l = append(l, Leader{u.proc.Pid, u.proc.Start})
		}
	}
	return l
}

// Probe says what would hold for a program under the profile.
func (m *Manager) Probe(ctx context.Context, name string) (proctree.Active, error) {
	p, err := m.profile(ctx, name)
	if err != nil {
		return proctree.Active{}, err
	}
	return m.host.Probe(ctx, p)
}

func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "..."
	}
	return s
}
