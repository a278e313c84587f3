package terminal

import (
	"bytes"
	"context"
	"io"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/vt"

	"github.com/wasmtools/wasmtools/tool"
)

// maxTitle bounds the title of a screen, which a program chooses.
const maxTitle = 200

// Screen draws what a person would see on the session's terminal now. It is made
// for this call from the end of the output, so that what does not ask for a screen
// does not pay for one: an emulator is a hundred times slower than reading.
func (m *Manager) Screen(ctx context.Context, id string) (Result, error) {
	u, err := m.find(id)
	if err != nil {
		return Result{}, err
	}
	if !u.tty {
		return Result{}, tool.Errorf(tool.InvalidArguments, "%s has no terminal, so there is no screen", u.id).
			WithNext("use op read")
	}
	res := u.brief()
	u.out.mu.Lock()
	raw := bytes.Clone(u.out.raw.buf)
	first := u.out.raw.total - int64(len(raw))
	sizes := append([]sized(nil), u.out.raw.sizes...)
	alternate := u.out.raw.alternate
	u.out.mu.Unlock()
	raw, first = recent(raw, first, alternate)
	shot := draw(raw, first, sizes, alternate)
	res.Screen, res.ScreenCursor, res.Cols, res.Rows = shot.rows, &shot.cursor, shot.cols, shot.lines
	res.Alternate, res.Title, res.Partial = shot.alternate, shot.title, first > 0
	return res, nil
}

// plainBytes is how much is drawn of output that scrolls, with which the emulator
// is slowest: some hundred screens of it take a second.
const plainBytes = 32 << 10

// recent leaves out what cannot be seen any more: what stands before the last
// clearing of the screen, and of scrolling text what is far above it.
func recent(raw []byte, first int64, alternate bool) ([]byte, int64) {
	last := func(p []byte, escape string) int { return bytes.LastIndex(p, []byte(escape)) }
	line := func(at int) int { // the next line's beginning
		if at <= 0 {
			return 0
		}
		return at + max(bytes.IndexByte(raw[at:], '\n'), 0)
	}
	cut := 0
	if alternate {
		cut = max(last(raw, "\x1b[2J"), last(raw, "\x1b[?1049h"), 0)
	} else {
		left := last(raw, "\x1b[?1049l")
		cut = max(last(raw, "\x1b[2J"), 0)
		if left >= cut { // what is seen stood there before the other screen
			if entered := last(raw[:left], "\x1b[?1049h"); entered >= 0 {
				cut = line(entered - plainBytes)
			} else {
				cut = left
			}
		}
		if far := len(raw) - plainBytes; far > max(left, cut) {
			cut = line(far)
		}
	}
	return raw[cut:], first + int64(cut)
}

// snapshot is a screen as plain text.
type snapshot struct {
	rows        []string
	cursor      Point
	cols, lines int
	alternate   bool
	title       string
}

// draw lets an emulator work on raw, which begins at offset first of the stream,
// with the sizes that the terminal had. alternate says which screen was shown at
// its end, in case that the switch stands before first.
func draw(raw []byte, first int64, sizes []sized, alternate bool) (shot snapshot) {
	size := sizes[0]
	last := sizes[len(sizes)-1]
	shot = snapshot{cols: last.cols, lines: last.rows, alternate: alternate}
	em := vt.NewEmulator(size.cols, size.rows)
	em.SetScrollbackSize(1) // nobody scrolls
	em.SetCallbacks(vt.Callbacks{Title: func(t string) { shot.title = t }})
	// Its answers to questions would block it if nobody took them.
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		_, _ = io.Copy(io.Discard, em)
	}()
	defer func() {
		if recover() != nil { // what it cannot draw is not worth a crash
			shot.rows = []string{"[this screen cannot be drawn]"}
		}
		// Its own Close leaves a reader waiting, and races with it.
		if c, ok := em.InputPipe().(io.Closer); ok {
			c.Close()
		}
		<-taken
		em.Close()
		shot.title = plainTitle(shot.title)
	}()
	if first > 0 {
		// The beginning is lost: what is left may begin in the middle of an escape.
		if i := bytes.IndexAny(raw, "\n\x1b"); i > 0 {
			raw, first = raw[i:], first+int64(i)
		}
		if alternate && !bytes.Contains(raw, []byte("\x1b[?1049h")) {
			_, _ = em.WriteString("\x1b[?1049h")
		}
	}
	for _, s := range sizes[1:] {
		if n := s.at - first; n > 0 {
			n = min(n, int64(len(raw)))
			_, _ = em.Write(raw[:n])
			raw, first = raw[n:], first+n
		}
		em.Resize(s.cols, s.rows)
	}
	_, _ = em.Write(raw)
	for y := range em.Height() {
		var row strings.Builder
		for x := 0; x < em.Width(); {
			cell := em.CellAt(x, y)
			if cell == nil || cell.Width < 1 || cell.Content == "" {
				row.WriteByte(' ')
				x++
				continue
			}
			row.WriteString(cell.Content)
			x += cell.Width
		}
		shot.rows = append(shot.rows, strings.TrimRight(row.String(), " "))
	}
	pos := em.CursorPosition()
	shot.cursor = Point{Row: pos.Y, Col: pos.X}
	shot.alternate = em.IsAltScreen()
	for len(shot.rows) > 0 && shot.rows[len(shot.rows)-1] == "" {
		shot.rows = shot.rows[:len(shot.rows)-1]
	}
	return shot
}

// plainTitle is a title that shows as itself.
func plainTitle(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if len(s) > maxTitle {
		s = strings.ToValidUTF8(s[:maxTitle], "")
	}
	return s
}
