package evidence

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// reopened records one call in dir and returns its handle.
func reopened(t *testing.T, dir string) Handle {
	t.Helper()
	l, err := Open(Options{Dir: dir, SegmentBytes: minSegment})
	if err != nil {
		t.Fatal(err)
	}
	h := begin(t, l, readCall(`{"path":"after"}`))
	end(t, l, h, Outcome{Status: Completed})
	closeLog(t, l)
	return h
}

func callsIn(t *testing.T, dir string) int {
	t.Helper()
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range r.Calls(since0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestTornTail: a process is killed at every byte of a record. What was
// complete before stands, nothing is written over, and the record goes on.
func TestTornTail(t *testing.T) {
	dir := sample(t)
	numbers, _ := listSegments(dir)
	last := filepath.Join(dir, segmentName(numbers[len(numbers)-1]))
	// The line that the writer would write next.
	k, err := readKey(filepath.Join(dir, "..", keyName))
	if err != nil {
		t.Fatal(err)
	}
	h, _, err := decodeHead(read(t, filepath.Join(dir, headName)), k.mac)
	if err != nil {
		t.Fatal(err)
	}
	at := h.end
	next := newChain(k.mac).appendLine(nil, &at, 2, h2026, typeIntent, 0, encode(readCall(`{}`)))
	had, calls := read(t, last), callsIn(t, dir)
	for cut := 1; cut <= len(next); cut++ {
		if cut > bodyAt+20 && cut < len(next)-20 && cut%41 != 0 {
			continue
		}
		d := copyLog(t, dir)
		torn := append(bytes.Clone(had), next[:cut]...)
		path := filepath.Join(d, filepath.Base(last))
		write(t, path, torn)
		r := verified(t, d)
		want := calls
		if cut == len(next) {
			want++ // the line was complete, only the head did not know yet
		}
		if (len(r.Notes) == 1) != (cut < len(next)) || r.Calls != want {
			t.Errorf("cut at %d: %s", cut, r.Summary())
		}
		reopened(t, d)
		if got := read(t, path); !bytes.HasPrefix(got, torn) {
			t.Fatalf("cut at %d: what was written has changed", cut)
		}
		r = verified(t, d)
		if (len(r.Notes) == 1) != (cut < len(next)) || r.Calls != want+1 || callsIn(t, d) != want+1 {
			t.Errorf("cut at %d, after another call: %s", cut, r.Summary())
		}
	}
}

// TestTornSegment: a process is killed while it begins a segment, several
// times over.
func TestTornSegment(t *testing.T) {
	dir := sample(t)
	numbers, _ := listSegments(dir)
	n := numbers[len(numbers)-1]
	header := lines(read(t, filepath.Join(dir, segmentName(n))))[0]
	for name, left := range map[string][]byte{"empty": nil, "torn": header[:40]} {
		d := copyLog(t, dir)
		write(t, filepath.Join(d, segmentName(n+1)), left)
		write(t, filepath.Join(d, segmentName(n+2)), left)
		verified(t, d)
		for range 40 {
			reopened(t, d)
		}
		r := verified(t, d)
		if len(r.Notes) != 2 {
			t.Errorf("%s: %s", name, r.Summary())
		}
	}
}

// TestForeignSegment: somebody put a file where the next segment will be. It
// is passed over, and shows for ever.
func TestForeignSegment(t *testing.T) {
	dir := sample(t)
	numbers, _ := listSegments(dir)
	n := numbers[len(numbers)-1]
	other := sample(t)
	for name, p := range map[string][]byte{
		"rubbish": []byte("rubbish\n"), "an own segment": read(t, filepath.Join(dir, segmentName(2))), "another's": read(t, filepath.Join(other, segmentName(2))),
		"another's first line": lines(read(t, filepath.Join(other, segmentName(2))))[0],
	} {
		d := copyLog(t, dir)
		write(t, filepath.Join(d, segmentName(n+1)), p)
		for range 40 {
			reopened(t, d)
		}
		if now, _ := listSegments(d); len(now) < len(numbers)+2 {
			t.Fatalf("%s: no segment was begun", name)
		}
		if r, err := Verify(d, VerifyOptions{}); err != nil || r.OK {
			t.Errorf("%s: %v\n%s", name, err, r.Summary())
		}
	}
}

// TestTornBeginning: a process is killed while it makes the record.
func TestTornBeginning(t *testing.T) {
	l := testLog(t)
	closeLogWith(t, l, 0)
	full := read(t, filepath.Join(l.o.Dir, segmentName(1)))
	first := lines(full)[0]
	k, err := readKey(filepath.Join(l.o.Dir, "..", keyName))
	if err != nil {
		t.Fatal(err)
	}
	h, _, _ := decodeHead(read(t, filepath.Join(l.o.Dir, headName)), k.mac)
	h = head{log: h.log, boot: h.boot}
	h.end.segment, h.durable.segment = 1, 1
	for cut := -1; cut <= len(first); cut += 30 {
		d := copyLog(t, l.o.Dir)
		f, err := os.OpenFile(filepath.Join(d, headName), os.O_RDWR|os.O_TRUNC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		h := h
		if err := h.write(f, k.mac, make([]byte, headSize)); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if cut < 0 {
			os.Remove(filepath.Join(d, segmentName(1)))
		} else {
			write(t, filepath.Join(d, segmentName(1)), first[:cut])
		}
		verified(t, d)
		reopened(t, d)
		if r := verified(t, d); r.Calls != 1 || r.Log == "" {
			t.Errorf("cut at %d: %s", cut, r.Summary())
		}
	}
}

func closeLogWith(t *testing.T, l *Log, calls int) {
	t.Helper()
	for range calls {
		end(t, l, begin(t, l, readCall(`{}`)), Outcome{Status: Completed})
	}
	if calls == 0 {
		l.mu.Lock()
		if _, err := l.writer(); err != nil {
			t.Fatal(err)
		}
		l.mu.Unlock()
	}
	closeLog(t, l)
}

// TestPowerLoss: the machine stops. What was flushed must be there; of what was
// not, anything may be missing, and both show. The same loss without a restart
// is a fault.
func TestPowerLoss(t *testing.T) {
	var now [16]byte
	other := [16]byte{1}
	l := testLog(t)
	l.boot = func() [16]byte { return other }
	for range 5 {
		end(t, l, begin(t, l, readCall(`{}`)), Outcome{Status: Completed})
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	flushed := l.w.head.durable
	l.mu.Unlock()
	for range 5 {
		end(t, l, begin(t, l, readCall(`{}`)), Outcome{Status: Completed})
	}
	// As it stands now, with the lines behind flushed in nobody's hand but the
	// kernel's.
	l.mu.Lock()
	h := l.w.head
	h.durable = flushed
	if err := h.write(l.w.headFile, l.w.key.mac, l.w.raw[:]); err != nil {
		t.Fatal(err)
	}
	if err := h.write(l.w.headFile, l.w.key.mac, l.w.raw[:]); err != nil { // both halves
		t.Fatal(err)
	}
	snapshot := copyLog(t, l.o.Dir)
	l.mu.Unlock()
	if now = bootID(); now == [16]byte{} {
		t.Skip("this system does not tell when it was started")
	}

	name := segmentName(1)
	full := read(t, filepath.Join(snapshot, name))
	var size = int64(len(full))
	for i, c := range []struct {
		name string
		now  []byte
		lost bool // some lines
		note bool
		bad  bool // also after a restart
	}{
		{"nothing lost", full, false, false, false},
		{"cut at the flush", full[:flushed.offset], true, true, false},
		{"cut inside a line", full[:flushed.offset+50], true, true, false},
		{"cut one line", bytes.Join(lines(full)[:len(lines(full))-1], nil), true, true, false},
		{"zeros at the end", append(bytes.Clone(full[:size-100]), make([]byte, 100)...), true, true, false},
		{"zeros in between", zeros(full, flushed.offset+100, flushed.offset+600), true, true, false},
		{"rubbish after it", append(bytes.Clone(full), "\x00\x00rubbish\n\n"...), false, true, false},
		{"cut before the flush", full[:flushed.offset-10], true, false, true},
		{"zeros before the flush", zeros(full, flushed.offset-100, flushed.offset), true, false, true},
		{"all gone", nil, true, false, true},
		{"a forgery after it", bytes.Join(forge(lines(full), len(lines(full))-1, false), nil), false, false, true},
	} {
		d := copyLog(t, snapshot)
		write(t, filepath.Join(d, name), c.now)
		r, err := Verify(d, VerifyOptions{})
		if err != nil || r.OK == c.bad || !c.bad && (len(r.Notes) > 0) != c.note {
			t.Errorf("%s: %v\n%s", c.name, err, r.Summary())
		}
		before := r
		id := reopened(t, d)
		r, err = Verify(d, VerifyOptions{})
		if err != nil || r.OK == c.bad || !c.bad && (len(r.Notes) > 0) != c.note {
			t.Errorf("%s, after another call: %v\n%s", c.name, err, r.Summary())
		}
		if !c.bad && r.Calls != before.Calls+1 {
			t.Errorf("%s: %d calls before, %d after", c.name, before.Calls, r.Calls)
		}
		// Numbers are not given twice.
		if seq, _ := parseHandle(id); seq <= h.end.seq {
			t.Errorf("%s: the new call is %s, but %d was given before", c.name, id, h.end.seq)
		}
		if i == 0 || c.bad {
			continue
		}
		// Control: within one boot nothing of this can happen.
		d = copyLog(t, snapshot)
		write(t, filepath.Join(d, name), c.now)
		k, _ := readKey(filepath.Join(d, "..", keyName))
		f, err := os.OpenFile(filepath.Join(d, headName), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		h := h
		h.boot = now
		for range 2 {
			if err := h.write(f, k.mac, make([]byte, headSize)); err != nil {
				t.Fatal(err)
			}
		}
		f.Close()
		if r, _ := Verify(d, VerifyOptions{}); r.OK {
			t.Errorf("%s, without a restart: %s", c.name, r.Summary())
		}
	}
}

func zeros(p []byte, from, to int64) []byte {
	p = bytes.Clone(p)
	clear(p[from:to])
	return p
}

// TestFolderRemoved: somebody takes the folder away while it is in use. No call
// with effects may go on then.
func TestFolderRemoved(t *testing.T) {
	l := testLog(t)
	end(t, l, begin(t, l, readCall(`{}`)), Outcome{Status: Completed})
	if err := os.RemoveAll(l.o.Dir); err != nil {
		t.Skip("this system keeps files that are open: ", err)
	}
	if h, err := l.Begin(readCall(`{}`)); err == nil || !strings.Contains(err.Error(), "removed") {
		t.Errorf("Begin = %q, %v", h, err)
	}
}

// TestFullDisk: a write that fails leaves a part of a line. The call is not
// recorded, the caller hears of it, and the record goes on when there is room.
func TestFullDisk(t *testing.T) {
	l := testLog(t)
	end(t, l, begin(t, l, readCall(`{}`)), Outcome{Status: Completed})
	l.mu.Lock()
	good := l.w.seg
	bad, err := os.Open(good.Name()) // for reading only: every write fails
	if err != nil {
		t.Fatal(err)
	}
	l.w.seg = bad
	l.mu.Unlock()
	if _, err := l.Begin(Intent{Call: "x", Effects: tool.Destroys}); err == nil {
		t.Error("Begin succeeds without writing")
	}
	if _, err := good.Write([]byte(`{"hash":"00`)); err != nil { // what a full disk lets through
		t.Fatal(err)
	}
	l.mu.Lock()
	l.w.seg = good
	l.mu.Unlock()
	end(t, l, begin(t, l, readCall(`{}`)), Outcome{Status: Completed})
	closeLog(t, l)
	if r := verified(t, l.o.Dir); r.Calls != 2 || len(r.Notes) != 1 {
		t.Errorf("%s", r.Summary())
	}
}

// TestDamageWhileRunning: the head is damaged, or an older one put back, while
// a process writes.
func TestDamageWhileRunning(t *testing.T) {
	for name, damage := range map[string]func(old, now []byte) []byte{
		"zeros":        func(_, now []byte) []byte { return make([]byte, len(now)) },
		"an older one": func(old, _ []byte) []byte { return old },
	} {
		l := testLog(t)
		call := func() Handle {
			h := begin(t, l, readCall(`{}`))
			end(t, l, h, Outcome{Status: Completed})
			return h
		}
		call()
		path := filepath.Join(l.o.Dir, headName)
		old := read(t, path)
		call()
		now := read(t, path)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(damage(old, now), 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
		call()
		last := call()
		closeLog(t, l)
		r, err := Verify(l.o.Dir, VerifyOptions{})
		if err != nil || r.OK || r.Calls != 4 || !strings.Contains(r.Summary(), "found the head missing or damaged") {
			t.Errorf("%s: %v\n%s", name, err, r.Summary())
		}
		reader, _ := OpenReader(l.o.Dir)
		if c, err := reader.Call(last); err != nil || c.Status != Completed {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// TestForgottenCalls: a caller that never ends its calls is stopped.
func TestForgottenCalls(t *testing.T) {
	l := testLog(t)
	begin(t, l, readCall(`{}`))
	l.count.Store(maxOpen)
	if _, err := l.Begin(readCall(`{}`)); err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxOpen)) {
		t.Errorf("Begin = %v", err)
	}
}
