package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/internal/jsonsize"
	"github.com/wasmtools/wasmtools/terminal/output"
)

func asError[T error](err error, to *T) bool { return errors.As(err, to) }

// trimSpool gives up the spool's descriptor at the end of u, and the file too if
// memory has all of it.
func (u *unit) trimSpool() {
	size := u.out.log.Size()
	u.out.log.Close()
	if b := u.out.asIs.Load(); b != nil {
		b.Close()
		size += b.Size()
	}
	if size <= output.HeadBytes+output.TailBytes {
		u.dropSpool()
	}
}

// asItCame is what the spool of bytes is called beside that of text.
const asItCame = ".bytes"

// dropSpool gives up what stands on disk.
func (u *unit) dropSpool() {
	u.mu.Lock()
	path := u.spool
	u.spool = ""
	u.mu.Unlock()
	if path != "" {
		os.Remove(path)
		os.Remove(path + asItCame)
	}
}

// spooled is how much of the disk u takes.
func (u *unit) spooled() int64 {
	size := min(u.out.log.Size(), u.limit.Load())
	if b := u.out.asIs.Load(); b != nil {
		size += min(b.Size(), u.limit.Load())
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.spool == "" {
		return 0
	}
	return size
}

// text gives the log of u for reading; done gives it back.
func (u *unit) log() (l *output.Log, done func()) { return u.whole(u.out.log, "") }

// whole is one of u's logs, with what stands on disk of it also after the end.
func (u *unit) whole(log *output.Log, suffix string) (l *output.Log, done func()) {
	u.mu.Lock()
	path, over := u.spool, u.isOver
	u.mu.Unlock()
	if over && path != "" && u.limit.Load() > 0 {
		if f, err := os.Open(path + suffix); err == nil {
			if l, err := output.OpenSpool(f, u.limit.Load(), log.Size()); err == nil {
				return l, func() { l.Close() }
			}
			f.Close()
		}
	}
	return log, func() {}
}

// logReader reads a part of a log, and says where something is kept nowhere.
type logReader struct {
	log       *output.Log
	at, end   int64
	note      []byte
	forgotten int64
}

func (r *logReader) Read(p []byte) (int, error) {
	if len(r.note) > 0 {
		n := copy(p, r.note)
		r.note = r.note[n:]
		return n, nil
	}
	if r.at >= r.end {
		return 0, io.EOF
	}
	n, gap, err := r.log.ReadAt(p[:min(int64(len(p)), r.end-r.at)], r.at)
	if gap > 0 {
		gap = min(gap, r.end-r.at)
		r.at += gap
		r.forgotten += gap
		r.note = fmt.Appendf(nil, "\n[%d bytes were not kept]\n", gap)
		return 0, nil // what was read is read again
	}
	r.at += int64(n)
	if err == io.EOF && n > 0 {
		err = nil
	}
	return n, err
}

// jsonRoom is how many bytes of JSON an output of at most limit bytes may take:
// ordinary text with its line ends stays below.
func jsonRoom(limit int) int { return limit + limit/4 }

// excerpt is the text of a log between two offsets, at most limit bytes of it: if
// it is longer, or takes more room than that in JSON, the first 40 % and the last
// 60 % of those, at line ends.
func excerpt(l *output.Log, from, end int64, limit int) (text string, omitted int64) {
	size, room := end-from, jsonRoom(limit)
	if size <= int64(limit) {
		b, gap := part(l, from, end)
		switch {
		case jsonsize.Len(b) > room:
		case gap == 0:
			return b, 0
		default:
			return fmt.Sprintf("[%d bytes were not kept]\n%s", gap, b), gap
		}
	}
	at, after := min(size, int64(limit))*2/5, min(size, int64(limit))*3/5
	head, _ := part(l, from, from+at)
	tail, _ := part(l, end-after, end)
	head, tail = cutEnd(jsonsize.Prefix(head, room*2/5)), cutStart(jsonsize.Suffix(tail, room*3/5))
	omitted = size - int64(len(head)) - int64(len(tail))
	return fmt.Sprintf("%s[%d bytes left out]\n%s", lineEnd(head), omitted, tail), omitted
}

// part reads [from, end), at most a few hundred KiB; gap counts what of it is not
// kept.
func part(l *output.Log, from, end int64) (text string, gap int64) {
	p := make([]byte, 0, max(end-from, 0))
	for at := from; at < end; {
		n, g, err := l.ReadAt(p[len(p):len(p)+int(min(end-at, int64(cap(p)-len(p))))], at)
		p = p[:len(p)+n]
		gap += min(g, end-at)
		at += g + int64(n)
		if err != nil || n == 0 {
			break
		}
	}
	return string(p), gap
}

// cutEnd ends text at a line's end, if one is near, else between code points.
func cutEnd(s string) string {
	if i := strings.LastIndexByte(s, '\n'); i >= 0 && i >= len(s)/2 {
		return s[:i+1]
	}
	for i := len(s) - 1; i >= 0 && i >= len(s)-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return s[:i]
			}
			break
		}
	}
	return s
}

func cutStart(s string) string {
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < len(s)/2 {
		return s[i+1:]
	}
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

// lineEnd is s with a line end behind it.
func lineEnd(s string) string {
	if s == "" || s[len(s)-1] == '\n' {
		return s
	}
	return s + "\n"
}
