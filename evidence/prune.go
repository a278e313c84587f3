package evidence

import (
	"bufio"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Pruned says what was forgotten, or would be.
type Pruned struct {
	Segments int    `json:"segments"`
	Bytes    int64  `json:"bytes"`
	Through  uint64 `json:"through"` // the last line that is gone; 0: none
}

// prunedMembers is the line that says that the beginning was removed on
// purpose. It is signed for itself: a removal must not be explained by anybody
// else.
type prunedMembers struct {
	Through  uint64 `json:"through"`
	Hash     string `json:"hash"` // of that line
	Segments int    `json:"segments"`
	Bytes    int64  `json:"bytes"`
	Why      string `json:"why"`
	Sig      string `json:"sig"`
}

// Prune forgets what r asks for: whole segments, oldest first. The record says
// so and goes on to verify. It waits while somebody verifies or exports.
func (l *Log) Prune(r Retention) (Pruned, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, err := l.writer()
	if err != nil {
		return Pruned{}, err
	}
	f, err := openOwn(w.path(pruneName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return Pruned{}, err
	}
	defer f.Close()
	if err := lockFile(f, false); err != nil {
		return Pruned{}, err
	}
	if err := w.take(); err != nil {
		return Pruned{}, err
	}
	defer unlockFile(w.lock)
	if err := w.catchUp(); err != nil {
		return Pruned{}, err
	}
	return w.forget(r)
}

// prune is what a full segment causes. Somebody who reads all of the record
// meanwhile is not disturbed; the next full segment tries again.
func (w *writer) prune(r Retention) (Pruned, error) {
	f, err := openOwn(w.path(pruneName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return Pruned{}, err
	}
	defer f.Close()
	if ok, err := tryLock(f, false); err != nil || !ok {
		return Pruned{}, err
	}
	return w.forget(r)
}

// forget does it: first the line that says so, flushed, then the removal.
func (w *writer) forget(r Retention) (Pruned, error) {
	p, err := plan(w.o.Dir, r, w.now(), w.segment)
	if err != nil || p.Segments == 0 {
		return p.Pruned, err
	}
	stmt := statement(typePruned, w.head.log, p.Through, p.hash, "")
	m := prunedMembers{
		Through: p.Through, Hash: hex.EncodeToString(p.hash[:]), Segments: p.Segments, Bytes: p.Bytes, Why: r.String(),
		Sig: base64.RawURLEncoding.EncodeToString(ed25519.Sign(w.key.sign, stmt)),
	}
	if err := w.put(typePruned, 0, encode(m)); err != nil {
		return Pruned{}, err
	}
	if err := w.seg.Sync(); err != nil {
		return Pruned{}, w.fail(err)
	}
	for _, n := range p.numbers {
		if err := os.Remove(w.path(segmentName(n))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return p.Pruned, err
		}
	}
	return p.Pruned, syncFolder(w.o.Dir)
}

func (r Retention) String() string {
	switch {
	case r.MaxAge > 0 && r.MaxBytes > 0:
		return fmt.Sprintf("older than %s or beyond %d bytes", r.MaxAge, r.MaxBytes)
	case r.MaxAge > 0:
		return fmt.Sprintf("older than %s", r.MaxAge)
	}
	return fmt.Sprintf("beyond %d bytes", r.MaxBytes)
}

// PlanPrune says what [Log.Prune] would forget, and changes nothing.
func PlanPrune(dir string, r Retention) (Pruned, error) {
	numbers, err := listSegments(dir)
	if err != nil || len(numbers) == 0 {
		return Pruned{}, err
	}
	p, err := plan(dir, r, time.Now(), numbers[len(numbers)-1])
	return p.Pruned, err
}

type prunePlan struct {
	Pruned
	hash    sum
	numbers []uint64
}

// plan chooses segments before keep.
func plan(dir string, r Retention, now time.Time, keep uint64) (prunePlan, error) {
	var p prunePlan
	numbers, err := listSegments(dir)
	if err != nil {
		return p, err
	}
	total := int64(0)
	sizes := map[uint64]int64{}
	for _, n := range numbers {
		fi, err := os.Lstat(filepath.Join(dir, segmentName(n)))
		if err != nil {
			return p, err
		}
		sizes[n] = fi.Size()
		total += fi.Size()
	}
	for _, n := range numbers {
		if n >= keep {
			break
		}
		last, ok, err := lastLine(filepath.Join(dir, segmentName(n)))
		if err != nil {
			return p, err
		}
		tooMuch := r.MaxBytes > 0 && total > r.MaxBytes
		tooOld := r.MaxAge > 0 && (!ok || now.Sub(last.at()) > r.MaxAge)
		if !tooMuch && !tooOld {
			break
		}
		if ok {
			p.Through, p.hash = last.seq, last.hash
		}
		p.Segments++
		p.Bytes += sizes[n]
		p.numbers = append(p.numbers, n)
		total -= sizes[n]
	}
	if p.Through == 0 { // nothing but leftovers
		return prunePlan{}, nil
	}
	return p, nil
}

// lastLine is the last line of a segment. Its slices are its own.
func lastLine(path string) (l line, ok bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return l, false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return l, false, err
	}
	// The end is enough unless it is torn.
	for _, from := range []int64{max(0, fi.Size()-2*maxLine), 0} {
		if _, err := f.Seek(from, io.SeekStart); err != nil {
			return l, false, err
		}
		r := bufio.NewReaderSize(f, 64<<10)
		for {
			p, _, err := readLine(r)
			if err == io.EOF {
				break
			} else if err != nil {
				return l, false, err
			}
			if parsed, good := parseLine(p); good && parsed.seq > l.seq {
				own := append([]byte(nil), p...)
				l, _ = parseLine(own)
				ok = true
			}
		}
		if ok {
			break
		}
	}
	return l, ok, nil
}
