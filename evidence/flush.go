package evidence

import (
	"errors"
	"os"
	"sync"
	"time"
)

// flushDelay is how long a record waits for others before it is flushed. It
// leaves the flush itself the rest of [FlushWithin].
const flushDelay = 20 * time.Millisecond

// flusher brings what was written to the disk, many records at once. Whoever
// needs a record on the disk waits for a flush that begins after it was written;
// all that wait share one.
type flusher struct {
	log *sync.Mutex // Log.mu, which guards w
	w   *writer

	mu     sync.Mutex
	done   sync.Cond
	synced uint64 // everything up to this line is on the disk
	busy   bool
	armed  bool
	err    error
}

func newFlusher(log *sync.Mutex, w *writer) *flusher {
	f := &flusher{log: log, w: w}
	f.done.L = &f.mu
	return f
}

// dirty sees to it that what was just written is flushed soon.
func (f *flusher) dirty() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed {
		f.armed = true
		time.AfterFunc(flushDelay, f.tick)
	}
}

func (f *flusher) tick() {
	f.mu.Lock()
	f.armed = false
	f.mu.Unlock()
	f.log.Lock()
	seq, closed := f.w.head.end.seq, f.w.closed
	f.log.Unlock()
	if closed {
		return
	}
	if f.wait(seq) == nil {
		// The head's own flush only narrows what a crash of the machine leaves
		// open, so nobody waits for it.
		_ = f.w.headFile.Sync()
	}
}

// wait returns when line seq is on the disk.
func (f *flusher) wait(seq uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.synced < seq {
		switch {
		case f.err != nil:
			return f.err
		case f.busy:
			f.done.Wait()
			continue
		}
		f.busy = true
		f.mu.Unlock()
		reached, err := f.flush()
		f.mu.Lock()
		f.busy = false
		f.synced = max(f.synced, reached)
		if err != nil {
			f.err = err
		}
		f.done.Broadcast()
	}
	return nil
}

// flush flushes everything that is written now.
func (f *flusher) flush() (reached uint64, err error) {
	f.log.Lock()
	file, end, closed, broken := f.w.seg, f.w.head.end, f.w.closed, f.w.broken
	f.log.Unlock()
	if closed { // closing flushes
		return end.seq, broken
	}

	// A segment that is left for the next one is flushed before it is closed.
	if err = file.Sync(); errors.Is(err, os.ErrClosed) {
		err = nil
	}

	f.log.Lock()
	defer f.log.Unlock()
	if err != nil {
		return 0, f.w.fail(err)
	}
	if !f.w.closed {
		_ = f.w.flushed(end) // a failure only makes the head know less
	}
	return end.seq, nil
}
