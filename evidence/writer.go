package evidence

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The names in a record's folder, beside the segments.
const (
	lockName    = "lock"
	pruneName   = "prune.lock" // held by who removes segments, shared by who reads all of them
	writersName = "writers"    // a locked file for every process that writes
	segmentEnd  = ".jsonl"
)

// segmentName is the file of segment n. Names sort like numbers.
func segmentName(n uint64) string { return fmt.Sprintf("%08d%s", n, segmentEnd) }

// segmentNumber is the inverse of segmentName; ok is false for other files.
func segmentNumber(name string) (n uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentEnd)
	if !ok || len(digits) < 8 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, err == nil && segmentName(n) == name
}

// writer appends to a record. Its methods are called under Log.mu; what stands
// on the disk is guarded by the lock file, which is taken for each append.
//
// All processes of a workspace write one chain. A chain for each process would
// need no lock, but then a process that leaves nothing behind could be removed
// without a trace, and a reader would have to merge; the lock costs less than a
// microsecond (bench/evidence).
type writer struct {
	o     Options
	now   func() time.Time
	key   *key
	chain *chain
	boot  [16]byte
	wait  time.Duration

	lock, headFile, lease *os.File
	seg                   *os.File
	segment               uint64 // the number of seg

	head head
	raw  [headSize]byte // the head's file as it was seen last
	id   uint64         // seq of this process's open line

	buf     []byte
	broken  error // why nothing can be written any more
	closed  bool
	flusher *flusher
}

func (w *writer) path(name string) string { return filepath.Join(w.o.Dir, name) }

// openWriter opens the record, or makes it, and announces this process.
func openWriter(o Options, now func() time.Time, boot [16]byte, mu *sync.Mutex) (_ *writer, err error) {
	w := &writer{o: o, now: now, boot: boot, wait: lockWait}
	if err := ownFolder(o.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.closeFiles()
		}
	}()
	if w.lock, err = openOwn(w.path(lockName), os.O_RDWR|os.O_CREATE); err != nil {
		return nil, err
	}
	if err := w.take(); err != nil {
		return nil, err
	}
	defer unlockFile(w.lock)
	numbers, err := listSegments(o.Dir)
	if err != nil {
		return nil, err
	}
	if w.headFile, err = openOwn(w.path(headName), os.O_RDWR|os.O_CREATE); err != nil {
		return nil, err
	}
	if err := readHead(w.headFile, w.raw[:]); err != nil {
		return nil, err
	}
	fresh := len(numbers) == 0 && w.raw == [headSize]byte{}
	if w.key, err = readKey(o.KeyFile); errors.Is(err, fs.ErrNotExist) && fresh {
		w.key, err = makeKey(o.KeyFile)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the key %s is gone, and the record in %s cannot go on without it; put it back, or move the folder away to begin a new record", o.KeyFile, o.Dir)
	} else if err != nil {
		return nil, err
	}
	w.chain = newChain(w.key.mac)
	w.flusher = newFlusher(mu, w)

	w.head, _, err = decodeHead(w.raw[:], w.key.mac)
	switch {
	case fresh:
		err = w.genesis()
	case err != nil:
		if _, _, other := decodeHead(w.raw[:], nil); other == nil {
			return nil, fmt.Errorf("the record in %s was made with another key than %s; put that one back, or move the folder away to begin a new record", o.Dir, o.KeyFile)
		}
		err = w.headLost(numbers)
	default:
		err = w.resume()
	}
	if err != nil {
		return nil, err
	}
	if err := w.announce(); err != nil {
		return nil, err
	}
	return w, nil
}

// genesis makes a new record. The head comes first: whatever a crash leaves
// after it is found by it.
func (w *writer) genesis() error {
	w.head = head{boot: w.boot}
	_, _ = rand.Read(w.head.log[:]) // never fails
	w.head.end.segment, w.head.durable.segment = 1, 1
	if err := w.head.write(w.headFile, w.key.mac, w.raw[:]); err != nil {
		return err
	}
	if err := w.headFile.Sync(); err != nil {
		return err
	}
	return w.resume()
}

// logMembers is the first line of a record.
type logMembers struct {
	Version   int    `json:"version"`
	Log       string `json:"log"` // 128 random bits
	Key       string `json:"key"` // the public half, ed25519
	Workspace string `json:"workspace,omitempty"`
}

const formatVersion = 1

// resume goes on where the head says that the record ends.
func (w *writer) resume() error {
	empty := w.head.end.seq == 0
	err := w.openSegment(w.head.end.segment)
	if errors.Is(err, fs.ErrNotExist) && empty {
		if err = w.createSegment(w.head.end.segment); err == nil {
			err = syncFolder(w.o.Dir)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return w.afterRemoval()
	} else if err != nil {
		return err
	}
	if err := w.settle(true); err != nil {
		return err
	}
	if empty && (w.head.end.seq == 0 || w.segment != 1) {
		return w.put(typeLog, 0, encode(logMembers{formatVersion, hex.EncodeToString(w.head.log[:]), w.key.public(), valid(w.o.Workspace)}))
	}
	return nil
}

// openMembers announces a process.
type openMembers struct {
	Program string `json:"program,omitempty"`
	PID     int    `json:"pid"`
	Boot    string `json:"boot,omitempty"`
}

// announce writes down which processes are gone, and that this one begins.
func (w *writer) announce() error {
	folder := w.path(writersName)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, err := strconv.ParseUint(e.Name(), 10, 63)
		if err != nil || alive(filepath.Join(folder, e.Name())) {
			continue
		}
		if err := w.put(typeGone, 0, encode(map[string]uint64{"writer": id})); err != nil {
			return err
		}
		_ = os.Remove(filepath.Join(folder, e.Name()))
	}
	// The next line's number names this process.
	if err := w.room(); err != nil {
		return err
	}
	id := w.nextSeq()
	if w.lease, err = openOwn(filepath.Join(folder, strconv.FormatUint(id, 10)), os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	if err := lockFile(w.lease, false); err != nil { // at most a reader looks at it, for an instant
		return err
	}
	w.id = id
	m := openMembers{Program: valid(w.o.Program), PID: os.Getpid()}
	if w.boot != [16]byte{} {
		m.Boot = hex.EncodeToString(w.boot[:])
	}
	return w.put(typeOpen, 0, encode(m))
}

// alive reports whether the process that made the file at path still runs.
func alive(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR|openFlags, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	free, err := tryLock(f, true)
	return err == nil && !free
}

// append writes one line of a call and returns its number.
func (w *writer) append(typ string, of uint64, members []byte) (seq uint64, err error) {
	if w.broken != nil {
		return 0, w.broken
	}
	if err := w.take(); err != nil {
		return 0, err
	}
	defer unlockFile(w.lock)
	if err := w.catchUp(); err != nil {
		return 0, err
	}
	if err := w.put(typ, of, members); err != nil {
		return 0, err
	}
	return w.head.end.seq, nil
}

// lockWait bounds how long an append waits for other processes. They hold the
// lock for microseconds, unless one was stopped in that instant: calls must not
// hang with it.
const lockWait = 10 * time.Second

// take takes the lock file. The first tries come without a pause, because the
// holder is usually done by then.
func (w *writer) take() error {
	deadline := time.Time{}
	for pause := time.Duration(0); ; {
		ok, err := tryLock(w.lock, false)
		if ok || err != nil {
			return err
		}
		now := time.Now()
		switch {
		case deadline.IsZero():
			deadline = now.Add(w.wait)
		case now.After(deadline):
			return fmt.Errorf("evidence: another process has held the lock of the record for %s", w.wait)
		}
		runtime.Gosched()
		if pause = min(pause+5*time.Microsecond, time.Millisecond); pause > 20*time.Microsecond {
			time.Sleep(pause)
		}
	}
}

// catchUp learns what other processes have written. The lock is held.
func (w *writer) catchUp() error {
	var raw [headSize]byte
	if err := readHead(w.headFile, raw[:]); err != nil {
		return err
	}
	if raw != w.raw {
		h, _, err := decodeHead(raw[:], w.key.mac)
		if err != nil || h.count < w.head.count {
			// Somebody damaged it or put an older one back while we run.
			return w.afterDamage(raw)
		}
		w.head, w.raw = h, raw
		if h.end.segment != w.segment {
			if err := w.openSegment(h.end.segment); errors.Is(err, fs.ErrNotExist) {
				return w.afterRemoval()
			} else if err != nil {
				return err
			}
		}
	}
	return w.settle(false)
}

// put appends one line. The lock is held, and the head is known.
func (w *writer) put(typ string, of uint64, members []byte) error {
	if w.broken != nil {
		return w.broken
	}
	if len(members) > maxLine-1024 {
		return fmt.Errorf("evidence: a record of %d bytes is too large", len(members))
	}
	if err := w.room(); err != nil {
		return err
	}
	at, now := w.head.end, w.now()
	buf := w.buf[:0]
	if w.checkpointDue(at) && typ != typeCheckpoint {
		buf = w.chain.appendLine(buf, &at, w.writerOf(at), now, typeCheckpoint, 0, w.signature(typeCheckpoint, at))
	}
	if typ == typeClose || typ == typeCheckpoint {
		members = w.signature(typeCheckpoint, at)
	}
	buf = w.chain.appendLine(buf, &at, w.writerOf(at), now, typ, of, members)
	w.buf = buf
	return w.commit(buf, at)
}

// commit writes whole lines, and then the head that vouches for their end.
func (w *writer) commit(lines []byte, end position) error {
	if _, err := w.seg.Write(lines); err != nil {
		// What was written of it stays; the next append finds and passes over it.
		return err
	}
	w.head.end, w.head.boot = end, w.boot
	if err := w.head.write(w.headFile, w.key.mac, w.raw[:]); err != nil {
		return err
	}
	w.flusher.dirty()
	return nil
}

// room begins a new segment if the present one is full.
func (w *writer) room() error {
	if w.head.end.offset < w.o.SegmentBytes {
		return nil
	}
	at := w.head.end
	buf := w.chain.appendLine(nil, &at, w.writerOf(at), w.now(), typeCheckpoint, 0, w.signature(typeCheckpoint, at))
	if err := w.commit(buf, at); err != nil {
		return err
	}
	if err := w.seg.Sync(); err != nil {
		return w.fail(err)
	}
	if err := w.newSegment(segmentMembers{}, w.head.end); err != nil {
		return err
	}
	if w.o.Retain.bounded() {
		_, err := w.prune(w.o.Retain)
		return err
	}
	return nil
}

// fail remembers an error after which nothing may be promised any more: when a
// flush fails, the kernel forgets what it could not write.
func (w *writer) fail(err error) error {
	w.broken = fmt.Errorf("evidence: nothing can be recorded any more: %w", err)
	return w.broken
}

// writerOf is the number of the process that writes the line after at. A line
// that stands before the process was announced carries its own number.
func (w *writer) writerOf(at position) uint64 {
	if w.id != 0 {
		return w.id
	}
	return at.seq + 1
}

// nextSeq is the number of the line that put writes next. There must be room.
func (w *writer) nextSeq() uint64 {
	if w.checkpointDue(w.head.end) {
		return w.head.end.seq + 2
	}
	return w.head.end.seq + 1
}

func (w *writer) checkpointDue(at position) bool { return (at.seq+1)%checkpointEvery == 0 }

// signature are the members of a line that signs all lines up to at.
func (w *writer) signature(kind string, at position) []byte {
	sig := ed25519.Sign(w.key.sign, statement(kind, w.head.log, at.seq, at.hash, ""))
	return encode(signed{Sig: base64.RawURLEncoding.EncodeToString(sig)})
}

type signed struct {
	Sig string `json:"sig"`
}

// statement is what a signature is over. The kinds keep a signature from being
// used for something else.
func statement(kind string, log [16]byte, seq uint64, hash sum, more string) []byte {
	return fmt.Appendf(nil, "wasmtools evidence v1 %s\n%x\n%d\n%x\n%s\n", kind, log, seq, hash, more)
}

// close signs and flushes, and gives up this process's name.
func (w *writer) close() error {
	w.closed = true
	defer w.closeFiles()
	err := w.broken
	if err == nil {
		_, err = w.append(typeClose, 0, nil)
	}
	if err == nil {
		err = w.seg.Sync()
	}
	if err == nil {
		err = w.flushed(w.head.end)
	}
	if err == nil {
		err = w.headFile.Sync()
	}
	if err == nil {
		_ = os.Remove(w.lease.Name())
	}
	return err
}

func (w *writer) closeFiles() {
	for _, f := range []*os.File{w.seg, w.headFile, w.lease, w.lock} {
		if f != nil {
			f.Close()
		}
	}
}

// flushed notes that everything up to end is on the disk.
func (w *writer) flushed(end position) error {
	if err := w.take(); err != nil {
		return err
	}
	defer unlockFile(w.lock)
	if err := w.catchUp(); err != nil {
		return err
	}
	if end.segment != w.head.end.segment || end.seq <= w.head.durable.seq {
		return nil // a new segment was begun meanwhile, or somebody was faster
	}
	w.head.durable = end
	return w.head.write(w.headFile, w.key.mac, w.raw[:])
}
