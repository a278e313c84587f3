package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// room is a session for tests: everybody in it sees what it says, and it keeps
// what is typed.
type room struct {
	mu    sync.Mutex
	seats map[*seat]func([]byte)
	tail  []byte // what who joins sees first
	typed []byte
	sizes []string
	wrong error // what Type answers

	more chan struct{} // one place: something was typed, or somebody came or left
	hold chan struct{} // Resize waits for its end; nil: it does not
	done chan struct{}
}

type seat struct{ r *room }

func newRoom() *room {
	return &room{seats: map[*seat]func([]byte){}, more: make(chan struct{}, 1), done: make(chan struct{})}
}

func (r *room) stir() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (r *room) join(session string, out func([]byte)) (Joined, error) {
	if session != "s" {
		return nil, errors.New("there is none")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.stir()
	s := &seat{r}
	out(r.tail)
	r.seats[s] = out
	return s, nil
}

// say shows something to everybody, who must not hold it up.
func (r *room) say(p string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tail = []byte(p)
	for _, out := range r.seats {
		out([]byte(p))
	}
}

func (s *seat) Type(p []byte) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	defer s.r.stir()
	s.r.typed = append(s.r.typed, p...)
	return s.r.wrong
}

func (s *seat) Resize(ctx context.Context, cols, rows int) error {
	s.r.mu.Lock()
	s.r.sizes = append(s.r.sizes, fmt.Sprintf("%dx%d", cols, rows))
	hold := s.r.hold
	s.r.mu.Unlock()
	s.r.stir()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	return nil
}

func (s *seat) Done() <-chan struct{} { return s.r.done }

func (s *seat) Leave() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	defer s.r.stir()
	delete(s.r.seats, s)
}

// comes waits until something is so in the room.
func (r *room) comes(t *testing.T, what string, so func() bool) {
	t.Helper()
	for late := time.After(time.Minute); ; {
		r.mu.Lock()
		ok := so()
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.more:
		case <-late:
			t.Fatalf("it never came that %s", what)
		}
	}
}

// visitors gives a room, and a way to connect to its server.
func visitors(t *testing.T) (*room, func() (*Client, net.Conn)) {
	r := newRoom()
	s := bare()
	s.o.Join = r.join
	return r, func() (*Client, net.Conn) {
		t.Helper()
		here, there := net.Pipe()
		v := s.visitor(there)
		served := make(chan struct{})
		go func() {
			defer close(served)
			v.serve()
		}()
		t.Cleanup(func() {
			here.Close()
			<-served
		})
		c, err := newClient(here, time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return c, here
	}
}

func attached(t *testing.T, c *Client, readOnly bool) *Attached {
	t.Helper()
	a, err := c.Attach("s", readOnly)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// sees reads until what is shown ends with text; anew says that something was
// missed.
func (a *Attached) sees(t *testing.T, text string) (anew bool) {
	t.Helper()
	var all []byte
	for !bytes.HasSuffix(all, []byte(text)) {
		p, again, err := a.Next()
		if err != nil {
			t.Fatalf("%v after %q", err, all)
		}
		all, anew = append(all, p...), anew || again
	}
	return anew
}

// TestJoinable: a list comes cleaned of what a terminal would obey, and bounded.
func TestJoinable(t *testing.T) {
	here, there := net.Pipe()
	s := bare()
	s.o.Joinable = func() []Session {
		l := make([]Session, 2*maxListed)
		l[0] = Session{ID: "s-1", Workspace: "/w\x1b[2J", Profile: "none", Foreground: "vi\nm\u202e", Since: time.Unix(1, 0).UTC()}
		return l
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.visitor(there).serve()
	}()
	defer func() {
		here.Close()
		<-served
	}()
	c, err := newClient(here, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Joinable()
	if err != nil || len(l) != maxListed {
		t.Fatalf("Joinable() = %d sessions, %v; want %d", len(l), err, maxListed)
	}
	if got := l[0]; got.ID != "s-1" || got.Profile != "none" || !got.Since.Equal(time.Unix(1, 0)) ||
		strings.ContainsAny(got.Workspace+got.Foreground, "\x1b\n\u202e") || !strings.HasPrefix(got.Workspace, "/w") || !strings.HasPrefix(got.Foreground, "vi") {
		t.Errorf("Joinable()[0] = %+v", got)
	}
	s.o.Joinable = nil
	if l, err := c.Joinable(); err != nil || len(l) != 0 {
		t.Errorf("of a runtime without a terminal: %v, %v", l, err)
	}
}

// TestAttachTwo: all who are there see the same, and who only looks types
// nothing and is sent away for trying.
func TestAttachTwo(t *testing.T) {
	r, visit := visitors(t)
	r.say("before")
	one, _ := visit()
	two, conn := visit()
	a, b := attached(t, one, false), attached(t, two, true)
	a.sees(t, "before")
	b.sees(t, "before")
	r.say("together")
	a.sees(t, "together")
	b.sees(t, "together")
	if err := a.Type([]byte(strings.Repeat("x", 3*maxTyped))); err != nil {
		t.Fatal(err)
	}
	r.comes(t, "all is typed", func() bool { return len(r.typed) == 3*maxTyped })
	if err := b.Type([]byte("evil")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Next(); err != errCut {
		t.Errorf("who may only look is told %v", err)
	}
	conn.Close()
	r.comes(t, "it has left", func() bool { return len(r.seats) == 1 && !bytes.Contains(r.typed, []byte("evil")) })
	if _, err := (func() (*Attached, error) { c, _ := visit(); return c.Attach("x", false) })(); !errors.Is(err, ErrNoSession) {
		t.Errorf("a session that is not there: %v", err)
	}
}

// TestAttachBehind: a session waits for no visitor, and what it costs has an end.
// Who is too far behind goes on with the end of what was shown.
func TestAttachBehind(t *testing.T) {
	r, visit := visitors(t)
	c, _ := visit()
	a := attached(t, c, false)
	piece := strings.Repeat("flood ", 10<<10)
	for range 2000 { // 120 MB, of which nothing is read
		r.say(piece)
	}
	r.say("the end")
	// It reads what was on its way, and then what stands there.
	if !a.sees(t, "the end") {
		t.Error("it does not tell that something was missed")
	}
	r.say("more")
	if a.sees(t, "more") {
		t.Error("it tells that something was missed, and nothing was")
	}
	if err := a.Type([]byte("x")); err != nil {
		t.Fatal(err)
	}
	r.comes(t, "it still types, and sits there no more than twice", func() bool { return string(r.typed) == "x" && len(r.seats) <= 2 })
	c.Close()
	r.comes(t, "it has left", func() bool { return len(r.seats) == 0 })
}

// TestBacklogIsBounded is the bound itself.
func TestBacklogIsBounded(t *testing.T) {
	b := newBacklog()
	for range 100 {
		b.put(make([]byte, maxBehind/10))
		b.mu.Lock()
		if len(b.buf) > maxBehind {
			t.Fatalf("%d bytes wait", len(b.buf))
		}
		b.mu.Unlock()
	}
	if p, missed := b.take(); len(p) > 0 || !missed {
		t.Errorf("take() = %d bytes, %t", len(p), missed)
	}
}

// TestAttachStalled: who reads nothing at all is let go.
func TestAttachStalled(t *testing.T) {
	r, visit := visitors(t)
	c, _ := visit()
	attached(t, c, false)
	r.say("something")
	r.comes(t, "it has left", func() bool { return len(r.seats) == 0 })
}

// TestAttachGarbage: what is no message ends the visit, and types nothing.
func TestAttachGarbage(t *testing.T) {
	line := func(m message) string {
		m.Version = version
		p, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	for name, in := range map[string]string{
		"no JSON":          "ls -la\n",
		"nothing":          "\n",
		"zeros":            strings.Repeat("\x00", 5000) + "\n",
		"another message":  line(message{Op: opList}) + "\n",
		"two in a line":    line(message{Op: opType, Data: []byte("a")}) + line(message{Op: opType, Data: []byte("b")}) + "\n",
		"attached twice":   line(message{Op: opAttach, Session: "s"}) + "\n",
		"no base64":        `{"v":1,"op":"type","data":"???"}` + "\n",
		"a size too large": `{"v":1,"op":"resize","cols":99999999999999999999}` + "\n",
		"another version":  `{"v":7,"op":"type","data":"YQ=="}` + "\n",
		"a field too many": `{"v":1,"op":"type","data":"YQ==","extra":1}` + "\n",
		"a line too long":  line(message{Op: opType, Data: bytes.Repeat([]byte("x"), maxMessage)}) + "\n",
		"no line":          strings.Repeat("x", 8<<20),
	} {
		t.Run(name, func(t *testing.T) {
			r, visit := visitors(t)
			c, conn := visit()
			a := attached(t, c, false)
			if err := a.Type([]byte("control")); err != nil {
				t.Fatal(err)
			}
			r.comes(t, "the control is typed", func() bool { return string(r.typed) == "control" })
			_, err := io.WriteString(conn, in)
			if _, _, nerr := a.Next(); nerr == nil {
				t.Errorf("it is served on (writing: %v)", err)
			}
			r.comes(t, "it has left", func() bool { return len(r.seats) == 0 })
			if string(r.typed) != "control" || len(r.sizes) > 0 {
				t.Errorf("it typed %.100q, and set %q", r.typed, r.sizes)
			}
		})
	}
}

// TestAttachResizes: of a storm of sizes the last one counts, and nobody waits
// for the others.
func TestAttachResizes(t *testing.T) {
	r, visit := visitors(t)
	c, _ := visit()
	a := attached(t, c, false)
	r.hold = make(chan struct{})
	for i := range 5000 {
		if err := a.Resize(i%500, 1+i/500); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Resize(81, 25); err != nil {
		t.Fatal(err)
	}
	if err := a.Type([]byte("typed")); err != nil {
		t.Fatal(err)
	}
	r.comes(t, "what was typed meanwhile arrives", func() bool { return string(r.typed) == "typed" })
	close(r.hold)
	r.comes(t, "the last size is set", func() bool { return len(r.sizes) > 0 && r.sizes[len(r.sizes)-1] == "81x25" })
	if len(r.sizes) > 3 {
		t.Errorf("%d sizes were set: %q", len(r.sizes), slices.Compact(r.sizes))
	}
	r.hold = make(chan struct{}) // and who leaves meanwhile is not held up
	if err := a.Resize(1, 1); err != nil {
		t.Fatal(err)
	}
	r.comes(t, "it is set", func() bool { return r.sizes[len(r.sizes)-1] == "1x1" })
	c.Close()
	r.comes(t, "it has left", func() bool { return len(r.seats) == 0 })
}

// TestAttachEnds: the visitor is told that the session has ended, after all that
// it showed; and a program that does not read ends nothing.
func TestAttachEnds(t *testing.T) {
	r, visit := visitors(t)
	c, _ := visit()
	a := attached(t, c, false)
	r.mu.Lock()
	r.wrong = fmt.Errorf("write: %w", os.ErrDeadlineExceeded)
	r.mu.Unlock()
	for range 2 {
		if err := a.Type([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	r.comes(t, "both are tried", func() bool { return len(r.typed) == 2 })
	r.say("last words")
	close(r.done)
	a.sees(t, "last words")
	if _, _, err := a.Next(); !errors.Is(err, ErrOver) {
		t.Errorf("it is told %v", err)
	}
	r.comes(t, "it has left", func() bool { return len(r.seats) == 0 })
}

// TestAttachLastWords: what was typed just before the visitor left is typed, also
// if what it was to be shown cannot be sent any more.
func TestAttachLastWords(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	for range 20 {
		r := newRoom()
		s := bare()
		s.o.Join = r.join
		here, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		there, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			s.visitor(there).serve()
		}()
		c, err := newClient(here, time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		a := attached(t, c, false)
		for range 500 {
			if err := a.Type([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		for range 5 {
			r.say("output")
		}
		<-served
		if len(r.typed) != 500 || len(r.seats) != 0 {
			t.Fatalf("%d bytes are typed, %d still sit there", len(r.typed), len(r.seats))
		}
	}
}
