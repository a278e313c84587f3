package main

import (
	"encoding/base64"
	"fmt"
	"strings"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

const (
	maxNotebook = 16 << 20 // bytes; its JSON takes several times as much memory
	maxFigures  = 8        // images in one answer
	figureBytes = 3 << 20  // of all of them
)

// notebook shows a Jupyter notebook as cells; a cell is what pages select.
func (f file) notebook() (guest.Result, error) {
	if len(f.data) > maxNotebook {
		return guest.Result{}, guest.FailPath(guest.TooLarge, f.path, fmt.Sprintf("a notebook of %d bytes; at most %d are shown as cells", len(f.data), maxNotebook)).
			WithNext(`read its JSON with selection {"lines":{"start":1}}`)
	}
	nb, err := guest.Parse(f.data)
	if err != nil || nb.Kind() != guest.ObjectKind {
		return guest.Result{}, f.noNotebook()
	}
	cells := nb.Get("cells").Items()
	for _, sheet := range nb.Get("worksheets").Items() { // before version 4
		cells = append(cells, sheet.Get("cells").Items()...)
	}
	if cells == nil && nb.Get("cells").Kind() != guest.ArrayKind {
		return guest.Result{}, f.noNotebook()
	}
	total := int64(len(cells))
	first, last, err := f.pages(total, "cell")
	if err != nil {
		return guest.Result{}, err
	}
	lang := nb.Get("metadata").Get("language_info").Get("name").TextOr(nb.Get("metadata").Get("kernelspec").Get("language").TextOr(""))
	var a answer
	var figures figures
	shownLast, cut := first-1, false
	for i := first; i <= last; i++ {
		text := cellHead(cells[i-1], i, total)
		body, media := cellText(cells[i-1])
		if i > first && guest.TextLen(text+body) > a.room() {
			break
		}
		whole := a.add(text + body)
		for _, m := range media {
			if !whole {
				break
			}
			if s, why := figures.take(m); why != "" {
				whole = a.add("[" + why + "]\n")
			} else {
				a.image(s.data, s.mime)
			}
		}
		shownLast = i
		if !whole {
			cut = true
			break
		}
	}
	if lang != "" {
		lang = clip(line(lang), 40) + ", "
	}
	notice := fmt.Sprintf("[notebook, %scells %d-%d of %d", lang, first, shownLast, total)
	if total == 0 {
		notice = "[notebook without cells"
	}
	var more guest.Value
	if shownLast < last {
		more = next(shownLast+1, last, total)
		notice += "; next: " + string(more.JSON())
	}
	notice += "]\n"
	if cut {
		notice += `[the last cell is cut; its JSON: selection {"lines":{"start":1}}]` + "\n"
	}
	return a.result(notice, guest.F("path", f.path), guest.F("size", len(f.data)), guest.F("kind", "Jupyter notebook"),
		guest.F("start", first), guest.F("end", shownLast), guest.F("total_pages", total), guest.F("truncated", more.Exists() || cut), guest.F("next", more))
}

func (f file) noNotebook() error {
	return guest.FailPath(guest.Encoding, f.path, "the file has the name of a notebook, but not its form").
		WithNext(`read it as text, with selection {"lines":{"start":1}}`)
}

func cellHead(cell guest.Value, n, total int64) string {
	kind := clip(cell.Get("cell_type").TextOr("unknown"), 40)
	run := ""
	if k, ok := cell.Get("execution_count").Int(); ok {
		run = fmt.Sprintf(", run %d", k)
	}
	return fmt.Sprintf("[cell %d, %s%s]\n", n, line(kind), run)
}

// figure is an image in an output, as the notebook holds it.
type figure struct{ mime, data string }

// cellText gives a cell's source and what it put out.
func cellText(cell guest.Value) (string, []figure) {
	var b strings.Builder
	source := cell.Get("source")
	if !source.Exists() {
		source = cell.Get("input")
	}
	b.WriteString(ended(joined(source)))
	var media []figure
	for _, out := range cell.Get("outputs").Items() {
		text := ""
		switch out.Get("output_type").TextOr("") {
		case "stream":
			text = joined(out.Get("text"))
		case "error", "pyerr":
			if text = joined(out.Get("traceback")); text == "" {
				text = out.Get("ename").TextOr("") + ": " + out.Get("evalue").TextOr("")
			}
		default:
			data := out.Get("data")
			if !data.Exists() {
				data = out
			}
			for _, mime := range []string{"image/png", "image/jpeg"} {
				if v := joined(data.Get(mime)); v != "" {
					media = append(media, figure{mime, v})
				}
			}
			if text = joined(data.Get("text/plain")); text == "" {
				text = joined(data.Get("text"))
			}
		}
		if text != "" {
			b.WriteString("[output]\n" + ended(plain(text)))
		}
	}
	return b.String(), media
}

// joined is the text of a value that is one, or a list of its lines.
func joined(v guest.Value) string {
	if s, ok := v.Text(); ok {
		return s
	}
	var b strings.Builder
	for _, l := range v.Items() {
		b.WriteString(l.TextOr(""))
	}
	return b.String()
}

func ended(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

func line(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }

// plain takes the colours of a terminal out of an output.
func plain(s string) string {
	if !strings.Contains(s, "\x1b[") {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		i := 0
		for i < len(after) && (after[i] < '@' || after[i] > '~') {
			i++
		}
		s = after[min(i+1, len(after)):]
	}
}

// figures counts the images of an answer.
type figures struct{ n, bytes int }

// take decodes an image, or says why it is not shown.
func (g *figures) take(f figure) (shown, string) {
	if g.n >= maxFigures || len(f.data) > 2*figureBytes {
		return shown{}, "an image (" + f.mime + ") is not shown; select the cell alone"
	}
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(f.data), ""))
	if err != nil {
		return shown{}, "an image (" + f.mime + ") is damaged"
	}
	s, err := fit(data)
	if err != nil {
		return shown{}, "an image (" + f.mime + ") cannot be shown: " + clip(line(err.Error()), 200)
	}
	if g.bytes+len(s.data) > figureBytes {
		return shown{}, "an image (" + f.mime + ") is not shown; select the cell alone"
	}
	g.n++
	g.bytes += len(s.data)
	return s, ""
}
