package terminal

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/approval"
)

// Options of an [Approver].
type Options struct {
	By string // who sits at the terminal; stands in the evidence
}

// Approver asks at a terminal, one question after another. It is safe for
// concurrent use.
type Approver struct {
	by   string
	tty  *tty
	kick chan struct{} // one place: look at the queue again
	done chan struct{} // closed when the loop has ended

	once   sync.Once
	mu     sync.Mutex
	queue  []*item // oldest first; what is being asked stays until it is answered
	closed bool
}

// item is a request that waits for an answer here.
type item struct {
	request approval.Request
	answer  approval.Answer
}

var _ approval.Presence = (*Approver)(nil)

// Open takes the controlling terminal of this process. Without one it fails.
func Open(o Options) (*Approver, error) {
	t, err := openTTY()
	if err != nil {
		return nil, err
	}
	a := &Approver{by: o.By, tty: t, kick: make(chan struct{}, 1), done: make(chan struct{})}
	go a.loop()
	return a, nil
}

// Offer puts a request on the queue. A process that is not in the foreground of
// its terminal takes no part: nobody would see the question.
func (a *Approver) Offer(r approval.Request, answer approval.Answer) func() {
	if !a.tty.foreground() {
		return nil
	}
	it := &item{request: r, answer: answer}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.queue = append(a.queue, it)
	a.wake()
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.remove(it)
		a.wake()
	}
}

// Close takes every question back and gives the terminal up.
func (a *Approver) Close() error {
	a.mu.Lock()
	a.closed = true
	a.queue = nil
	a.wake()
	a.mu.Unlock()
	<-a.done
	var err error
	a.once.Do(func() { err = a.tty.close() })
	return err
}

// Attended reports whether the terminal is there and shows this process.
func (a *Approver) Attended() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.closed && a.tty.foreground()
}

// wake makes the loop look again.
func (a *Approver) wake() {
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

// remove takes it off the queue. The caller holds mu.
func (a *Approver) remove(it *item) {
	a.queue = slices.DeleteFunc(a.queue, func(x *item) bool { return x == it })
}

// state is a look at the queue.
func (a *Approver) state() (queue []*item, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for _, it := range slices.Clone(a.queue) {
		if !now.Before(it.request.Expires) {
			a.remove(it)
		}
	}
	return slices.Clone(a.queue), a.closed
}

// left are those of group that still wait.
func (a *Approver) left(group []*item) []*item {
	queue, _ := a.state()
	return slices.DeleteFunc(slices.Clone(group), func(it *item) bool { return !slices.Contains(queue, it) })
}

func (a *Approver) loop() {
	defer close(a.done)
	for {
		queue, closed := a.state()
		switch {
		case closed:
			return
		case len(queue) == 0:
			<-a.kick
			continue
		}
		// What was typed before a question is shown answers nothing that anybody
		// has read: it was meant for another question, or for another program.
		a.tty.flush()
		q := question{a: a, group: queue[:1]}
		err := q.ask()
		a.tty.release()
		if err != nil {
			a.hangUp()
			return
		}
	}
}

// hangUp is the end of the terminal: nobody can answer here any more. Others
// may.
func (a *Approver) hangUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.queue = nil
}

// decide answers every request of group that still waits.
func (a *Approver) decide(group []*item, d approval.Decision) {
	d.By, d.Channel = a.by, "terminal"
	done := 0
	for _, it := range group {
		err := it.answer(d)
		a.mu.Lock()
		a.remove(it)
		a.mu.Unlock()
		if err != nil {
			a.tty.print(fmt.Sprintf("%s: %v\n", it.request.Ticket, err))
			continue
		}
		done++
	}
	if done > 0 {
		word := map[approval.Verdict]string{approval.Allow: "allowed", approval.Deny: "denied"}[d.Verdict]
		if len(group) > 1 {
			word = fmt.Sprintf("%s %d", word, done)
		}
		a.tty.print(word + "\n")
	}
}

// maxReason bounds the reason of a no, in bytes: a model reads it.
const maxReason = 2 << 10

// reason cleans what was typed after a no.
func reason(s string) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, ""))
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	for len(s) > maxReason {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}
