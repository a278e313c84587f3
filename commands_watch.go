package wasmtools

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/terminal"
	"github.com/wasmtools/wasmtools/tool"
)

// watch brings what happens in a terminal into the record: to the call during
// which it happened, and else as an entry of its own. It is safe for concurrent
// use.
type watch struct {
	sink evidence.Sink

	mu      sync.Mutex
	active  map[string]int // calls by session or process
	unnamed int            // calls whose session or process is not known yet
	waiting []terminal.Event
	timed   bool // what somebody types is written soon
	lost    int
}

// typedEvery is how long what somebody types is gathered: a key is no entry.
const typedEvery = time.Second

// maxWaiting bounds what is kept until a call ends that it may belong to.
const maxWaiting = 4096

// event implements [terminal.Options.Events].
func (w *watch) event(e terminal.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gathered(e) {
		return
	}
	if len(w.waiting) == maxWaiting {
		w.lost++
		return
	}
	w.waiting = append(w.waiting, e)
	switch {
	case w.active[e.ID] > 0 || w.unnamed > 0:
	case e.Kind != terminal.Typed:
		go w.flush()
	case !w.timed:
		w.timed = true
		time.AfterFunc(typedEvery, w.flush)
	}
}

// gathered adds what is typed to what was typed just before; w.mu is held.
func (w *watch) gathered(e terminal.Event) bool {
	for i := len(w.waiting) - 1; i >= 0 && e.Kind == terminal.Typed; i-- {
		if old := &w.waiting[i]; old.ID == e.ID {
			same := old.Kind == e.Kind && old.Who == e.Who
			if same {
				old.Bytes += e.Bytes
			}
			return same
		}
	}
	return false
}

// call notes that a call begins. done ends it, and writes what happened to the
// session or process meanwhile to the call's record.
func (w *watch) call(id string) (done func(id string, s tool.Sink)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id == "" {
		w.unnamed++
	} else {
		if w.active == nil {
			w.active = map[string]int{}
		}
		w.active[id]++
	}
	return func(now string, s tool.Sink) {
		w.mu.Lock()
		if id == "" {
			w.unnamed--
		} else if w.active[id]--; w.active[id] == 0 {
			delete(w.active, id)
		}
		var mine []terminal.Event
		w.waiting = slices.DeleteFunc(w.waiting, func(e terminal.Event) bool {
			if e.ID != now {
				return false
			}
			mine = append(mine, e)
			return true
		})
		w.mu.Unlock()
		if n, ok := s.(interface{ note(string) }); ok {
			for _, e := range mine {
				n.note(spanOf(e))
			}
		}
		w.flush()
	}
}

// flush writes what belongs to no call that runs.
func (w *watch) flush() {
	w.mu.Lock()
	var free []terminal.Event
	if w.unnamed == 0 {
		w.waiting = slices.DeleteFunc(w.waiting, func(e terminal.Event) bool {
			if w.active[e.ID] > 0 {
				return false
			}
			free = append(free, e)
			return true
		})
	}
	lost := w.lost
	w.lost, w.timed = 0, false
	w.mu.Unlock()
	for _, e := range free {
		w.write(e, spanOf(e))
	}
	if lost > 0 {
		w.write(terminal.Event{At: time.Now()}, fmt.Sprintf("%d events of the terminal were not recorded", lost))
	}
}

// write makes an entry that belongs to no call. What cannot be written is lost:
// nobody waits for it, and the next call meets the same fault.
func (w *watch) write(e terminal.Event, note string) {
	h, err := w.sink.Begin(evidence.Intent{
		Call: "terminal-" + newID(), Principal: e.Who, Asked: e.At, Tool: "terminal_session", Source: tool.Native, From: "terminal", Effects: tool.Reads,
		Arguments: fmt.Appendf(nil, `{"event":%q,"of":%q}`, e.Kind, e.ID),
	})
	if err != nil {
		return
	}
	_ = w.sink.Event(h, evidence.Event{Kind: evidence.Progress, Note: note})
	_ = w.sink.End(h, evidence.Outcome{Status: evidence.Completed, Began: e.At})
}

// spanOf is an event in words.
func spanOf(e terminal.Event) string {
	words := []string{"terminal " + string(e.Kind), e.ID}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if e.Pid > 0 {
		add("pid %d", e.Pid)
	}
	switch e.Kind {
	case terminal.Spawned:
		add("profile %s", e.Profile)
		if e.Sandbox != "" {
			add("sandbox %s", e.Sandbox)
		}
	case terminal.Typed:
		add("by the %s", e.Who)
	case terminal.Ended:
		add("%s", e.State)
		if e.Signal != "" {
			add("signal %s", e.Signal)
		} else {
			add("exit code %d", e.ExitCode)
		}
	}
	if e.Command != "" {
		add("command %s", tool.QuotePath(e.Command))
	}
	if e.Duration > 0 {
		add("%d ms", e.Duration.Milliseconds())
	}
	if e.Bytes > 0 {
		add("%d bytes", e.Bytes)
	}
	if e.Left > 0 {
		add("%d left programs ended", e.Left)
	}
	if len(e.Killed) > 0 {
		add("had to be killed: %s", strings.Join(e.Killed, ", "))
	}
	return strings.Join(words, ", ")
}
