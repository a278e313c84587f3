package channel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/show"
)

// Options of a [Server].
type Options struct {
	About    About    // what visitors are told; PID and Start are filled in
	Sessions Sessions // nil: [NoSessions]
	Attended bool     // somebody is expected to come and answer, so that it is worth to wait

	// Join lets a person at a terminal take part in a session; nil: there are none.
	// out is given what the session shows and must not keep the slice.
	Join func(session string, out func(p []byte)) (Joined, error)
	// Joinable lists what Join takes; nil: there is nothing.
	Joinable func() []Session
}

// Server is one runtime's end of the channel, and an approver: what it is
// offered waits here until a person answers from another terminal. It is safe
// for concurrent use; none of its methods waits for a visitor.
type Server struct {
	o        Options
	self     proc
	uid      int
	dir      string
	folder   *folder
	name     string
	listener *net.UnixListener
	served   sync.WaitGroup
	read     table

	mu       sync.Mutex
	waiting  map[string]*pending
	order    uint64
	visits   map[*visit]struct{}
	watching int // of the visits
	closed   bool
}

// pending is a request that waits here.
type pending struct {
	request approval.Request
	answer  approval.Answer
	order   uint64
}

var _ approval.Presence = (*Server)(nil)

// Listen opens a socket in dir (see [Folder]), which is made if it is missing.
// It fails with errors.ErrUnsupported where the system cannot say who connects.
func Listen(dir string, o Options) (*Server, error) { return listen(dir, o, readProc) }

func listen(dir string, o Options, read table) (*Server, error) {
	if !supported {
		return nil, fmt.Errorf("the channel for approvals: %w", errors.ErrUnsupported)
	}
	if o.Sessions == nil {
		o.Sessions = NoSessions{}
	}
	self, err := readProc(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("the channel for approvals: %w", err)
	}
	o.About.PID, o.About.Start = self.PID, self.Start
	s := &Server{o: o, self: self, uid: os.Geteuid(), dir: dir, read: read, name: socketName(self.Process), waiting: map[string]*pending{}, visits: map[*visit]struct{}{}}
	if s.folder, err = openFolder(dir, true); err != nil {
		return nil, fmt.Errorf("the channel for approvals: %w", err)
	}
	if s.listener, err = s.bind(); err != nil {
		s.folder.close()
		return nil, fmt.Errorf("the channel for approvals: %w", err)
	}
	s.served.Go(s.accept)
	return s, nil
}

// bind listens under a name that nobody looks at, and gives the socket its own
// name then: one that stands there before it listens refuses connections, and
// is removed by the first client that comes, as what a killed runtime left.
func (s *Server) bind() (*net.UnixListener, error) {
	early := "." + s.name
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: s.folder.address(early)})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false) // done below the opened folder
	if err = s.folder.protect(early); err == nil {
		err = s.folder.rename(early, s.name)
	}
	if err != nil {
		ln.Close()
		_ = s.folder.remove(early)
		return nil, err
	}
	return ln, nil
}

// Offer puts a request on the list, until it is answered or expires. It never
// waits.
func (s *Server) Offer(r approval.Request, answer approval.Answer) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.order++
	p := &pending{r, answer, s.order}
	s.waiting[r.Ticket] = p
	s.tell()
	remove := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting[r.Ticket] == p {
			delete(s.waiting, r.Ticket)
			s.tell()
		}
	}
	if r.Expires.IsZero() {
		return remove
	}
	// The desk forgets what has expired when it is next asked something.
	late := time.AfterFunc(time.Until(r.Expires), remove)
	return func() {
		late.Stop()
		remove()
	}
}

// Attended reports whether somebody looks at the list now, or is expected to.
func (s *Server) Attended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.Attended || s.watching > 0
}

// Close ends all visits and removes the socket. What still waits can be
// answered by other approvers only. A visitor whose answer was just taken, and
// who may be why this runtime ends, gets its reply first.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	err := errors.Join(s.listener.Close(), s.folder.remove(s.name))
	for v := range s.visits {
		if c, ok := v.conn.(*net.UnixConn); ok {
			_ = c.CloseRead() // ends it after the message that it is at
		}
	}
	s.mu.Unlock()
	late := time.AfterFunc(partingTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for v := range s.visits {
			v.conn.Close()
		}
	})
	s.served.Wait()
	late.Stop()
	s.folder.close()
	return err
}

// partingTime is how long the visitors have to take their last reply.
const partingTime = time.Second

// tell wakes the visitors that watch. The caller holds mu.
func (s *Server) tell() {
	for v := range s.visits {
		select {
		case v.changed <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

// list is everything that waits, oldest first.
func (s *Server) list() []Waiting {
	s.mu.Lock()
	all := make([]*pending, 0, len(s.waiting))
	for _, p := range s.waiting {
		all = append(all, p)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *pending) int { return int(a.order) - int(b.order) })
	out := make([]Waiting, 0, len(all))
	for _, p := range all[:min(len(all), maxListed)] {
		r := p.request
		out = append(out, Waiting{
			Ticket: r.Ticket, CallID: r.CallID, Session: r.Session, Tool: r.Tool, Source: r.Source, Effects: r.Effects,
			Input: r.Input, Binding: r.Preview.Binding, Summary: show.Summary(r), Expires: r.Expires, MaySave: r.Offer != nil,
		})
	}
	return out
}

func (s *Server) find(ticket string) (*pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.waiting[ticket]
	if p == nil {
		return nil, ErrNoSuch
	}
	return p, nil
}

// answer hands a visitor's decision to the desk.
func (s *Server) answer(v *visit, m message) error {
	p, err := s.find(m.Ticket)
	if err != nil {
		return err
	}
	if m.Binding != p.request.Preview.Binding {
		return ErrChanged
	}
	if m.Verdict != approval.Allow && m.Verdict != approval.Deny {
		return fmt.Errorf("%w: the verdict is neither allow nor deny", errBad)
	}
	if v.peer.tty == 0 {
		return fmt.Errorf("%w: it has no controlling terminal, so nobody sits there", ErrRefused)
	}
	how := "cli"
	if m.Channel == "watch" {
		how = m.Channel
	}
	return p.answer(approval.Decision{Verdict: m.Verdict, Reason: m.Reason, By: v.user, Channel: how, Save: m.Save.rule()})
}

// vet finds out who connected, and refuses whoever is not the user or is not
// a human.
func (s *Server) vet(c *net.UnixConn) (proc, error) {
	who, err := callerOf(c)
	defer who.release()
	if err != nil {
		return proc{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if who.uid != s.uid {
		return proc{}, fmt.Errorf("%w: it is another user's", ErrRefused)
	}
	line, err := lineage(s.read, who.pid)
	if err != nil {
		return proc{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	h := newHousehold(s.self.confinement, s.o.Sessions, s.runtimes())
	if why := h.refuse(line); why != "" {
		return proc{}, fmt.Errorf("%w: %s", ErrRefused, why)
	}
	// Last: all of it was read of the process that connected.
	if !who.alive() {
		return proc{}, fmt.Errorf("%w: %w", ErrRefused, errGone)
	}
	return line[0], nil
}

// runtimes are this one and all others that have a socket in the folder.
func (s *Server) runtimes() []Process {
	all := []Process{s.self.Process}
	names, err := s.folder.sockets()
	if err != nil {
		return all
	}
	for _, name := range names {
		if p, ok := owner(name); ok {
			all = append(all, p)
		}
	}
	return all
}

// accept takes visitors. The check of a visitor takes well under a millisecond
// and waits for nothing, so it is done here: who is refused costs no slot.
func (s *Server) accept() {
	for {
		c, err := s.listener.AcceptUnix()
		if err != nil {
			if s.isClosed() {
				return
			}
			time.Sleep(acceptPause) // out of descriptors: others must give some back
			continue
		}
		peer, err := s.vet(c)
		if err != nil {
			refuse(c, err)
			continue
		}
		v := &visit{server: s, conn: c, peer: peer, user: userName(s.uid), changed: make(chan struct{}, 1), since: time.Now()}
		if !s.admit(v) {
			c.Close() // the name is removed by now, which tells the visitor why
			return
		}
		s.served.Go(v.serve)
	}
}

// acceptPause is how long a server that is out of descriptors waits.
const acceptPause = 50 * time.Millisecond

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// maxVisits bounds the visitors of one runtime. The one that said nothing for
// the longest time goes when another comes, so that visitors which only hold
// their places keep nobody out.
const maxVisits = 32

func (s *Server) admit(v *visit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if len(s.visits) >= maxVisits {
		var oldest *visit
		for other := range s.visits {
			if oldest == nil || other.since.Before(oldest.since) {
				oldest = other
			}
		}
		oldest.conn.Close()
		delete(s.visits, oldest)
	}
	s.visits[v] = struct{}{}
	return true
}

// count keeps how many visitors watch.
func (s *Server) count(n int) {
	s.mu.Lock()
	s.watching += n
	s.mu.Unlock()
}

// heard notes that v said something; closed says that nothing is done any more.
func (s *Server) heard(v *visit) (closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.since = time.Now()
	return s.closed
}

func (s *Server) leave(v *visit) {
	v.conn.Close()
	s.mu.Lock()
	delete(s.visits, v)
	s.mu.Unlock()
}

// refuse tells a visitor why it is sent away. The words fit into the socket's
// buffer, so nothing waits; a visitor that does not read them loses them.
func refuse(c *net.UnixConn, err error) {
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if line, e := json.Marshal(greeting{Wasmtools: protocol, Version: version, Error: failed(err)}); e == nil {
		_, _ = c.Write(append(line, '\n'))
	}
	c.Close()
}

// userName is what evidence calls the person.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + strconv.Itoa(uid)
}

// User is the name of the user that this process runs as.
func User() string { return userName(os.Geteuid()) }
