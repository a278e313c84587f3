package terminal

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/terminal/output"
)

const (
	readBytes    = 64 << 10
	backlogBytes = 1 << 20   // read and not yet cleaned; a reader that gets further ahead waits
	rawBytes     = 256 << 10 // what a screen is drawn from
	sniffBytes   = 4 << 10   // of a command's output, by which it is found to be binary
)

// stream is one output: read at once, cleaned, and kept in a log. It belongs to
// a unit, whose lock also guards what is shown of it.
type stream struct {
	mu   sync.Mutex
	log  *output.Log
	join *stream // where the text goes instead, for standard error that is shown with the rest

	clean  output.Cleaner
	redact redactor
	raw    *rawTail // of a terminal
	muted  bool     // prompt and echo are no output
	echo   bool     // what comes is the echo of what this package typed, for nobody
	last   time.Time
	bytes  int64 // of text, for a stream that goes into another
	sniff  sniffer
	in     *intake
	bytesOf

	// With mu held:
	mark    func(osc []byte)      // an OSC string came; the line before it is flushed if it is ours
	ours    func(osc []byte) bool // whether mark will do something with it
	first   func()                // the first text comes; nil afterwards
	changed func()                // not with mu held
	taps    []tap                 // raw output, for those who joined
	out     []byte                // scratch
	ended   chan struct{}
}

func newStream(log *output.Log) *stream {
	return &stream{log: log, last: time.Now(), ended: make(chan struct{}), changed: func() {}}
}

// intake is what was read of a stream and not yet worked on.
type intake struct {
	mu      sync.Mutex
	changed *sync.Cond
	f       *os.File
	backlog []byte
	working bool // what was in it is being worked on
	over    bool
}

// pump drains f until its end, or until it is closed. Reading goes on while what
// was read before is being worked on, so that a program is slowed down by its
// terminal alone.
func (s *stream) pump(f *os.File) {
	in := &intake{f: f}
	in.changed = sync.NewCond(&in.mu)
	s.mu.Lock()
	s.in = in
	s.mu.Unlock()
	go func() {
		buf := make([]byte, readBytes)
		for in.read(buf) {
		}
	}()
	go func() {
		defer close(s.ended)
		var p []byte
		for {
			if p = in.next(p); p == nil {
				s.finish()
				return
			}
			s.take(p)
			if cap(p) > backlogBytes/4 {
				p = nil // memory for a flood is not kept
			}
		}
	}()
}

// read reads once; false at the end.
func (in *intake) read(buf []byte) bool {
	in.mu.Lock()
	for len(in.backlog) > 0 && len(in.backlog)+len(buf) > backlogBytes {
		in.changed.Wait()
	}
	in.mu.Unlock()
	n, err := readLocked(in.f, &in.mu, buf) // EIO is how a terminal ends; no error is tried again
	in.backlog = append(in.backlog, buf[:max(n, 0)]...)
	in.over = err != nil || n <= 0
	over := in.over
	in.changed.Broadcast()
	in.mu.Unlock()
	return !over
}

// next gives all that was read, for which it takes the memory of what it gave
// before; nil at the end.
func (in *intake) next(done []byte) []byte {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.working = false
	for len(in.backlog) == 0 && !in.over {
		in.changed.Wait()
	}
	if len(in.backlog) == 0 {
		return nil
	}
	p := in.backlog
	in.backlog, in.working = done[:0], true
	in.changed.Broadcast()
	return p
}

// behind tells whether something was printed that is not in the log yet. The
// kernel is asked, since on a busy machine nobody else knows.
func (s *stream) behind() bool {
	s.mu.Lock()
	in := s.in
	s.mu.Unlock()
	if in == nil {
		return false
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.working || len(in.backlog) > 0 || !in.over && readable(in.f)
}

// take works on what was read.
func (s *stream) take(p []byte) {
	s.mu.Lock()
	s.last = time.Now()
	if s.join != nil {
		s.join.mu.Lock()
		s.join.last = s.last
		s.join.mu.Unlock()
	}
	s.cleaned(s.redact.next(p))
	s.mu.Unlock()
	s.changed()
}

func (s *stream) cleaned(p []byte) {
	if s.mark == nil {
		s.sniff.take(p)
		s.bytesOf.take(p, &s.sniff)
	}
	for len(p) > 0 {
		out, rest, osc, found := s.clean.Next(s.out[:0], p)
		if s.mark != nil && !s.muted {
			s.sniff.take(p[:len(p)-len(rest)])
		}
		if !s.echo {
			s.drawn(p[:len(p)-len(rest)])
		}
		s.out, p = out, rest
		s.emit(out)
		if !found || s.mark == nil {
			continue
		}
		if s.ours != nil && s.ours(osc) {
			kept := bytes.Clone(osc)
			s.emit(s.clean.Flush(s.out[:0]))
			osc = kept
		}
		s.mark(osc)
	}
	if cap(s.out) > backlogBytes/4 {
		s.out = nil
	}
}

// drawn keeps what a person would see, and shows it to those who joined.
func (s *stream) drawn(p []byte) {
	if s.raw != nil {
		s.raw.write(p)
	}
	for _, t := range s.taps {
		t.out(p)
	}
}

func (s *stream) emit(text []byte) {
	if s.muted || len(text) == 0 {
		return
	}
	s.bytes += int64(len(text))
	if s.join != nil {
		s.join.mu.Lock()
		s.join.keep(text)
		s.join.mu.Unlock()
		return
	}
	s.keep(text)
}

func (s *stream) keep(text []byte) {
	if s.first != nil {
		s.first()
		s.first = nil
	}
	s.log.Write(text)
}

// finish is for the end of the program's output.
func (s *stream) finish() {
	s.mu.Lock()
	s.cleaned(s.redact.flush())
	s.emit(s.clean.Flush(s.out[:0]))
	s.bytesOf.decide(&s.sniff)
	s.mu.Unlock()
	s.changed()
}

// view is a look at a stream.
type view struct {
	size    int64  // of the log
	pending string // the line that is not finished
	last    time.Time
	binary  bool
}

func (s *stream) view() view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := view{size: s.log.Size(), last: s.last, binary: s.sniff.binary()}
	if !s.muted {
		v.pending = s.clean.Pending()
	}
	return v
}

// separate ends an unfinished line, so that what comes does not seem to belong
// to it. s.mu is held.
func (s *stream) separate() {
	s.out = s.clean.Flush(s.out[:0])
	s.emit(s.out)
	size := s.log.Size()
	if size == 0 {
		return
	}
	var last [1]byte
	if n, _, _ := s.log.ReadAt(last[:], size-1); n == 1 && last[0] != '\n' {
		s.keep([]byte{'\n'})
	}
}

// sniffer tells binary output by its beginning.
type sniffer struct{ seen, bad int }

func (s *sniffer) take(p []byte) {
	for len(p) > 0 && s.seen < sniffBytes {
		r, n := utf8.DecodeRune(p)
		if r == 0 || r == utf8.RuneError && n == 1 && utf8.FullRune(p) {
			s.bad++
		}
		s.seen += n
		p = p[n:]
	}
}

func (s *sniffer) binary() bool { return s.seen >= 64 && s.bad*10 > s.seen*3 }

// bytesOf keeps output as it came once it is found to be binary, since as text it is
// good for nothing.
type bytesOf struct {
	asIs  atomic.Pointer[output.Log] // nil: it is text, or not decided
	make  func() *output.Log         // nil: nobody wants it, or it is decided
	early []byte                     // what came before that
}

func (b *bytesOf) take(p []byte, s *sniffer) {
	switch l := b.asIs.Load(); {
	case l != nil:
		l.Write(p)
	case b.make != nil:
		b.early = append(b.early, p...)
		if s.seen >= sniffBytes {
			b.decide(s)
		}
	}
}

func (b *bytesOf) decide(s *sniffer) {
	if b.make != nil && s.binary() {
		l := b.make()
		l.Write(b.early)
		b.asIs.Store(l)
	}
	b.make, b.early = nil, nil
}

// redactor takes secrets out of what is read, also where they are read in pieces.
type redactor struct {
	secrets [][]byte
	held    []byte // the beginning of a secret, perhaps
}

const redacted = "[secret]"

func (r *redactor) add(secret []byte) {
	secret = bytes.Trim(secret, "\r\n")
	if len(secret) > 0 {
		r.secrets = append(r.secrets, bytes.Clone(secret))
	}
}

func (r *redactor) next(p []byte) []byte {
	if len(r.secrets) == 0 {
		return p
	}
	p = append(r.held, p...)
	r.held = nil
	p = r.replaced(p)
	keep := 0
	for _, s := range r.secrets {
		for n := min(len(s)-1, len(p)); n > keep; n-- {
			if bytes.HasSuffix(p, s[:n]) {
				keep = n
				break
			}
		}
	}
	r.held = bytes.Clone(p[len(p)-keep:])
	return p[:len(p)-keep]
}

func (r *redactor) replaced(p []byte) []byte {
	for _, s := range r.secrets {
		if bytes.Contains(p, s) {
			p = bytes.ReplaceAll(p, s, []byte(redacted))
		}
	}
	return p
}

func (r *redactor) flush() []byte {
	p := r.held
	r.held = nil
	return p
}

// rawTail keeps the end of what a terminal program wrote, with the sizes that the
// terminal had, for whoever wants to see its screen.
type rawTail struct {
	buf   []byte
	total int64 // bytes that came
	sizes []sized
	// alternate: a program has switched to the other screen.
	alternate bool
}

type sized struct {
	at         int64
	cols, rows int
}

func (r *rawTail) write(p []byte) {
	r.total += int64(len(p))
	if len(p) >= rawBytes {
		r.buf = append(r.buf[:0], p[len(p)-rawBytes:]...)
		return
	}
	if len(r.buf)+len(p) > 2*rawBytes {
		r.buf = append(r.buf[:0], r.buf[len(r.buf)-rawBytes:]...)
	}
	r.buf = append(r.buf, p...)
}

// trim gives memory back when no more will come.
func (r *rawTail) trim() {
	if n := len(r.buf) - plainBytes; n > 0 {
		r.buf = bytes.Clone(r.buf[n:])
	}
}

// resized notes a new size.
func (r *rawTail) resized(cols, rows int) {
	r.sizes = append(r.sizes, sized{r.total, cols, rows})
	first := r.total - int64(len(r.buf))
	for len(r.sizes) > 1 && r.sizes[1].at <= first || len(r.sizes) > 64 {
		r.sizes = r.sizes[1:]
	}
}

// answer gives the reply to what a program asks its terminal; "" for what is no
// question. Programs wait for these.
func answer(params []byte, final byte, cols, rows, col int) string {
	p := string(params)
	switch {
	case final == 'n' && p == "5":
		return "\x1b[0n"
	case final == 'n' && (p == "6" || p == "?6"):
		// Only the column is known; without a screen the last row is the best guess.
		private := p[:len(p)-1]
		return "\x1b[" + private + strconv.Itoa(rows) + ";" + strconv.Itoa(min(col, cols-1)+1) + "R"
	case final == 'c' && (p == "" || p == "0"):
		return "\x1b[?62;22c"
	case final == 'c' && (p == ">" || p == ">0"):
		return "\x1b[>1;10;0c"
	case final == 'q' && (p == ">" || p == ">0"):
		return "\x1bP>|wasmtools\x1b\\"
	case final == 't' && p == "18":
		return "\x1b[8;" + strconv.Itoa(rows) + ";" + strconv.Itoa(cols) + "t"
	case final == 'p' && len(p) > 1 && p[len(p)-1] == '$' && len(p) < 12:
		return "\x1b[" + p[:len(p)-1] + ";0$y"
	}
	return ""
}

// answerOSC is answer for OSC strings.
func answerOSC(osc []byte) string {
	switch string(osc) {
	case "10;?":
		return "\x1b]10;rgb:ffff/ffff/ffff\x1b\\"
	case "11;?":
		return "\x1b]11;rgb:0000/0000/0000\x1b\\"
	}
	return ""
}
