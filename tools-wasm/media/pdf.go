package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/ledongthuc/pdf"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

const (
	maxPages = 20      // of a document that one call shows
	maxNodes = 100_000 // of the tree that its pages hang in
	maxDepth = 64      // of that tree
)

// leaves lists the pages of a document. What it says of their number is not
// asked for, and a tree that hangs in itself is refused: the library would
// follow it without end.
func leaves(root pdf.Value) (pages []pdf.Page, err error) {
	nodes := 0
	var walk func(v pdf.Value, depth int) error
	walk = func(v pdf.Value, depth int) error {
		if nodes++; nodes > maxNodes || depth > maxDepth {
			return errors.New("the tree of its pages is too large, or hangs in itself")
		}
		kids := v.Key("Kids")
		if kids.Kind() != pdf.Array {
			if v.Kind() == pdf.Dict && depth > 0 {
				pages = append(pages, pdf.Page{V: v})
			}
			return nil
		}
		for i := range kids.Len() {
			if err := walk(kids.Index(i), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	err = walk(root, 0)
	return pages, err
}

// rooted reports whether the parents of a page end.
func rooted(v pdf.Value) bool {
	for range maxDepth + 1 {
		if v.IsNull() {
			return true
		}
		v = v.Key("Parent")
	}
	return false
}

// pdf shows the text of pages. Of a scan there is none.
func (f file) pdf() (guest.Result, error) {
	r, err := pdf.NewReader(bytes.NewReader(f.data), int64(len(f.data)))
	if err != nil {
		if strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), "encrypt") {
			return guest.Result{}, guest.FailPath(guest.Encoding, f.path, "the document is encrypted").
				WithNext("ask a person for a copy without a password")
		}
		return guest.Result{}, f.broken(err.Error())
	}
	pages, err := leaves(r.Trailer().Key("Root").Key("Pages"))
	if err != nil {
		return guest.Result{}, f.broken(err.Error())
	}
	total := int64(len(pages))
	if total == 0 {
		return guest.Result{}, f.broken("it has no pages")
	}
	first, last, err := f.pages(total, "page")
	if err != nil {
		return guest.Result{}, err
	}
	last = min(last, total)
	want := last
	last = min(last, first+maxPages-1)
	var a answer
	shownLast, cut := first-1, false
	for i := first; i <= last; i++ {
		text := fmt.Sprintf("[page %d]\n", i) + pageText(pages[i-1])
		if i > first && guest.TextLen(text) > a.room() {
			break
		}
		shownLast = i
		if !a.add(text) {
			cut = true
			break
		}
	}
	notice := fmt.Sprintf("[PDF document, pages %d-%d of %d", first, shownLast, total)
	var more guest.Value
	if shownLast < want {
		more = next(shownLast+1, want, total)
		notice += "; next: " + string(more.JSON())
	}
	notice += "]\n"
	if cut {
		notice += fmt.Sprintf("[page %d is cut: it has more text than one answer holds]\n", shownLast)
	}
	return a.result(notice, guest.F("path", f.path), guest.F("size", len(f.data)), guest.F("kind", "PDF document"),
		guest.F("start", first), guest.F("end", shownLast), guest.F("total_pages", total), guest.F("truncated", more.Exists() || cut), guest.F("next", more))
}

// pageText is the text of one page. A page that breaks the parser does not hide
// the others.
func pageText(p pdf.Page) (text string) {
	defer func() {
		if e := recover(); e != nil {
			text = "(the text of this page cannot be read: " + clip(line(fmt.Sprint(e)), 200) + ")\n"
		}
	}()
	if !rooted(p.V) {
		return "(this page is its own parent)\n"
	}
	s, err := p.GetPlainText(nil)
	if err != nil {
		return "(the text of this page cannot be read: " + clip(line(err.Error()), 200) + ")\n"
	}
	if s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\ufffd"); strings.TrimSpace(s) == "" {
		return "(no text on this page; it may be a picture)\n"
	}
	return ended(strings.TrimSpace(s))
}
