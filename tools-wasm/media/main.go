// Command media is the module that shows what read_open cannot show as text:
// images, PDF documents and notebooks.
//
// The parsers of such files are large and have met much hostile input, so they
// run here and not in core: a file that breaks one of them ends the instance of
// its own call, and no other tool pays for their code. What a file claims of
// itself is checked before anything is decoded by it.
package main

import (
	"bytes"
	"fmt"
	"strings"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

const (
	memoryMiB = 512
	openBytes = 24 << 10 // of text in a result, as read_open has it
	maxFile   = 64 << 20 // bytes of a file
	noticeLen = 1 << 10  // kept free for the notice below a text
)

const schema = `{"type":"object","properties":{"path":{"type":"string","minLength":1},"selection":{"type":"object"},"encoding":{"type":"string"}},"required":["path"]}`

func init() {
	guest.Describe(guest.Module{
		Name: "media", Version: "1.0.0", Description: "Images, PDF documents and notebooks for read_open.",
		MemoryMiB: memoryMiB, OutputKiB: 6 << 10, TimeMS: 60_000, Concurrency: 1,
	})
	guest.Add(guest.Tool{
		Name: "read_media", Title: "Open an image, a PDF or a notebook",
		Description: "Open an image, a PDF document or a notebook, as read_open does.",
		Input:       schema, Mode: guest.Parallel, Effects: []guest.Effect{guest.Reads}, Hidden: true, Read: []string{"**"},
		Call: readMedia,
	})
}

func main() {}

// file is what was asked for, whole.
type file struct {
	path string // canonical
	data []byte
	sel  guest.Value
}

func readMedia(c *guest.Call) (res guest.Result, err error) {
	path := c.Args.Get("path").TextOr("")
	info, err := c.Stat(path)
	if err != nil {
		return guest.Result{}, err
	}
	if info.Size > maxFile {
		return guest.Result{}, guest.FailPath(guest.TooLarge, path, fmt.Sprintf("%d bytes; files of this kind are opened up to %d", info.Size, maxFile)).
			WithNext("make it smaller with a program, then open that")
	}
	data, err := c.ReadFile(path, maxFile)
	if err != nil {
		return guest.Result{}, err
	}
	f := file{path: info.Path, data: data, sel: c.Args.Get("selection")}
	// A parser that panics has met a file that is broken, or made to break it.
	defer func() {
		if p := recover(); p != nil {
			res, err = guest.Result{}, f.broken(fmt.Sprint(p))
		}
	}()
	switch {
	case bytes.HasPrefix(data, []byte("%PDF-")):
		return f.pdf()
	case strings.HasSuffix(strings.ToLower(info.Path), ".ipynb"):
		return f.notebook()
	}
	return f.image()
}

// broken refuses a file that is not what it seems.
func (f file) broken(why string) error {
	return guest.FailPath(guest.Encoding, f.path, "the file is damaged, or not what it seems: "+clip(why, 200)).
		WithNext("inspect it with a program that knows the format")
}

// pages is the selection of pages, of total; what they are is said by noun.
func (f file) pages(total int64, noun string) (first, last int64, err error) {
	if f.sel.Exists() && !f.sel.Get("pages").Exists() {
		return 0, 0, guest.FailPath(guest.InvalidArguments, f.path, "only pages can be selected of this file").
			WithNext(`use {"pages":{"start":1}}, or leave selection away`)
	}
	first = f.sel.Get("pages").Get("start").IntOr(1)
	last = min(f.sel.Get("pages").Get("end").IntOr(total), total)
	if first > total && total > 0 {
		return 0, 0, guest.FailPath(guest.InvalidArguments, f.path, fmt.Sprintf("the selection begins past the end; the file has %d %ss", total, noun)).
			WithNext(fmt.Sprintf("choose %ss up to %d", noun, total)).With(guest.F("total_pages", total))
	}
	return first, last, nil
}

// answer is a text with images in it, up to the limit.
type answer struct {
	blocks []guest.Content
	text   strings.Builder
	size   int
}

// room is how much text still fits.
func (a *answer) room() int { return openBytes - noticeLen - a.size }

// add appends text that fits; what does not is cut, with a mark.
func (a *answer) add(s string) (whole bool) {
	n := guest.TextLen(s)
	if n <= a.room() {
		a.text.WriteString(s)
		a.size += n
		return true
	}
	for _, r := range s {
		n := guest.TextLen(string(r))
		if n+20 > a.room() {
			break
		}
		a.text.WriteRune(r)
		a.size += n
	}
	a.text.WriteString("\n[cut here]\n")
	a.size += 16
	return false
}

func (a *answer) image(data []byte, mime string) {
	a.flush()
	a.blocks = append(a.blocks, guest.Content{Type: "image", Data: data, MIMEType: mime})
}

func (a *answer) flush() {
	if a.text.Len() > 0 {
		a.blocks = append(a.blocks, guest.Content{Type: "text", Text: a.text.String()})
		a.text.Reset()
	}
}

// result ends the answer with a notice.
func (a *answer) result(notice string, details ...guest.Field) (guest.Result, error) {
	a.text.WriteString(notice)
	a.flush()
	return guest.Result{Content: a.blocks, Details: guest.Object(details...)}, nil
}

func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// next is the selection of the pages that follow.
func next(start, end, total int64) guest.Value {
	span := []guest.Field{guest.F("start", start)}
	if end < total {
		span = append(span, guest.F("end", end))
	}
	return guest.Object(guest.F("pages", guest.Object(span...)))
}
