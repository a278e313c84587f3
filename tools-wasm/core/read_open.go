package main

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

// opened is a file that read_open shows, as far as its beginning tells.
type opened struct {
	call *guest.Call
	path string // as it was asked for
	info guest.Info
	enc  encoding

	head  []byte // of the file
	whole bool   // head is all of it
	size  int64  // of the file in bytes

	// If the host has decoded the file, head is its text, info.Size the length of
	// that, and name its encoding.
	name  string
	exact bool
	late  bool   // it was decoded after its beginning had been read as UTF-8
	asked bool   // the host was asked
	doubt string // what the host said instead
}

// decode has the host decode the whole file, in the encoding that is named or
// the one that it is certain of.
func (f *opened) decode(named string) error {
	f.asked = true
	t, err := f.call.ReadText(f.path, named)
	if err != nil {
		if e, ok := err.(*guest.Error); ok && e.Code == guest.Encoding && named == "" {
			var names []string
			for _, n := range e.Details.Get("candidates").Items() {
				names = append(names, n.TextOr(""))
			}
			if len(names) > 0 {
				f.doubt = "its encoding is not certain; set encoding to read it as " + strings.Join(names, " or ")
			}
		}
		return err
	}
	f.enc, f.name, f.exact = utf8Plain, t.Encoding, t.Exact
	f.head, f.whole, f.info.Size = t.Text, true, int64(len(t.Text))
	return nil
}

// encoding names the file's encoding.
func (f *opened) encoding() string {
	if f.name != "" {
		return f.name
	}
	return f.enc.String()
}

// ranges reports whether selections of bytes can be told for lines.
func (f *opened) ranges() bool { return !f.enc.wide() && !f.late }

func readOpen(c *guest.Call) (guest.Result, error) {
	path := c.Args.Get("path").TextOr("")
	sel := c.Args.Get("selection")
	if err := checkSelection(c, sel); err != nil {
		return guest.Result{}, err
	}
	if err := checkOpenable(c.Args, "path"); err != nil {
		return guest.Result{}, err
	}
	head := make([]byte, sampleBytes)
	n, err := c.ReadAt(path, head, 0)
	if err != nil && err != io.EOF {
		return guest.Result{}, openError(path, err)
	}
	whole := err == io.EOF
	head = head[:n]
	info, err := c.Stat(path)
	if err != nil {
		return guest.Result{}, err
	}
	f := opened{call: c, path: path, info: info, enc: encodingOf(head), head: head, whole: whole, size: info.Size}
	named := c.Args.Get("encoding").TextOr("")
	kind := binaryKind(head)
	switch {
	case named != "":
		err = f.decode(named)
		if kind == kindBinary {
			kind = ""
		}
	case kind == kindBinary && bytes.IndexByte(head, 0) >= 0: // perhaps UTF-16
		if f.decode("") == nil {
			kind = ""
		}
	case kind == "" && !f.enc.wide() && !utf8.Valid(wholeRunes(head)):
		f.decode("") // if it cannot, bytes are shown as they are
	}
	if kind != "" {
		return guest.Result{}, f.notText(kind)
	}
	if err != nil && err != io.EOF {
		return guest.Result{}, err
	}
	if strings.HasSuffix(strings.ToLower(info.Path), ".ipynb") && (!sel.Exists() || sel.Get("pages").Exists()) {
		return guest.Result{}, f.notText(kindNotebook)
	}
	if sel.Get("pages").Exists() {
		return guest.Result{}, guest.FailPath(guest.InvalidArguments, path, "pages are for PDF documents and the cells of notebooks; this is a text file").
			WithNext(`use {"lines":{"start":1}}, or leave selection away`)
	}
	if len(f.head) <= len(f.enc.mark()) {
		return f.empty(sel)
	}
	switch {
	case sel.Get("range").Exists():
		return f.showRange(sel.Get("range"))
	case sel.Get("section").Exists():
		return f.showSection(sel.Get("section").Get("heading").TextOr(""))
	}
	first, last := int64(1), int64(maxLine)
	if l := sel.Get("lines"); l.Exists() {
		first, last = l.Get("start").IntOr(1), l.Get("end").IntOr(maxLine)
	}
	return f.showLines(first, last, "")
}

// openError adds the next move that only this tool knows.
func openError(path string, err error) error {
	if e, ok := err.(*guest.Error); ok && e.Code == guest.NotRegular && strings.Contains(e.Text, "director") {
		e.Next = `list it with read_discover, mode "list"`
	}
	return err
}

// maxLine stands for "to the end".
const maxLine = 1 << 62

// checkSelection finds what the schema leaves open: exactly one form, and ends
// that do not lie before their beginnings.
func checkSelection(c *guest.Call, sel guest.Value) error {
	if !sel.Exists() {
		return nil
	}
	var faults []guest.Fault
	var forms []string
	for _, form := range []string{"lines", "range", "section", "pages"} {
		if sel.Get(form).Exists() {
			forms = append(forms, form)
		}
	}
	if len(forms) != 1 {
		text := "needs exactly one of lines, range, section and pages"
		if len(forms) > 1 {
			text += "; it has " + strings.Join(forms, " and ")
		}
		faults = append(faults, guest.Fault{Path: "$.selection", Text: text})
	}
	for _, form := range []string{"lines", "pages"} {
		l := sel.Get(form)
		if end, ok := l.Get("end").Int(); ok && end < l.Get("start").IntOr(1) {
			faults = append(faults, guest.Fault{Path: "$.selection." + form + ".end", Text: "lies before start"})
		}
	}
	if faults != nil {
		return c.Invalid(faults...)
	}
	return nil
}

// notText refuses what cannot be shown as text, and says what it is. By the
// detail "kind" the host knows what media.wasm can show.
func (f opened) notText(kind string) error {
	e := guest.FailPath(guest.Encoding, f.path, "this is "+article(kind)+" of "+count(f.size, "byte")+", not text").
		With(guest.F("kind", kind), guest.F("size", f.size))
	switch {
	case kind == kindNotebook:
		e.Text = "this is " + article(kind) + " of " + count(f.size, "byte") + "; its cells cannot be shown here"
		return e.WithNext(`read its JSON with selection {"lines":{"start":1}}`)
	case kind == kindPDF:
		return e.WithNext("its pages cannot be shown here; convert it to text with a program, then open that")
	case strings.HasSuffix(kind, " image"):
		return e.WithNext("images of this kind cannot be shown here; ask a person, or inspect it with a program")
	case kind == "UTF-32 text":
		return e.WithNext("convert it to UTF-8 with a program, then open that")
	}
	return e.WithNext("inspect it with a program that knows the format, or choose another file")
}

func article(noun string) string {
	switch {
	case noun == "UTF-32 text", strings.HasSuffix(noun, "data"), strings.HasSuffix(noun, "media"), strings.HasSuffix(noun, "audio"):
		return noun
	case strings.ContainsRune("AEIOM", rune(noun[0])) && !strings.HasPrefix(noun, "Ma"), strings.HasPrefix(noun, "empty"):
		return "an " + noun
	}
	return "a " + noun
}

func (f opened) empty(sel guest.Value) (guest.Result, error) {
	if start := sel.Get("lines").Get("start").IntOr(1); start > 1 {
		return guest.Result{}, f.pastEnd(0)
	}
	if off := sel.Get("range").Get("offset").IntOr(0); off > f.info.Size {
		return guest.Result{}, f.pastEndBytes()
	}
	if h := sel.Get("section"); h.Exists() {
		return guest.Result{}, guest.FailPath(guest.InvalidArguments, f.path, "the file is empty; it has no sections")
	}
	return guest.Text("[the file is empty]\n").WithDetails(guest.F("path", named(f.info.Path)), guest.F("size", f.size), guest.F("total_lines", 0)), nil
}

func (f opened) pastEnd(total int64) error {
	return guest.FailPath(guest.InvalidArguments, f.path, "the selection begins past the end; the file has "+count(total, "line")).
		WithNext("choose lines up to " + itoa(total)).With(guest.F("total_lines", total))
}

func (f opened) pastEndBytes() error {
	return guest.FailPath(guest.InvalidArguments, f.path, "the range begins past the end; the file has "+count(f.info.Size, "byte")).
		WithNext("choose an offset below " + itoa(f.info.Size)).With(guest.F("size", f.info.Size))
}

// page collects the numbered lines of an answer until one of the limits.
type page struct {
	text    strings.Builder
	size    int
	first   int64 // line numbers shown; 0 = none
	last    int64
	full    bool // a limit was reached; last+1 is the next line
	bad     int
	endings [endCR + 1]int64
	cut     []line // lines not shown whole, without text
}

func (p *page) add(l line) {
	if p.full {
		return
	}
	s := show(l)
	number, end := itoa(l.number), "\n"
	if !s.whole {
		end = " [line cut]\n"
	}
	n := len(number) + guest.TextLen("\t") + guest.TextLen(s.text) + guest.TextLen(end)
	if p.size+n > openBytes-noticeRoom || p.first > 0 && l.number-p.first >= openLines {
		p.full = true
		return
	}
	p.text.WriteString(number)
	p.text.WriteByte('\t')
	p.text.WriteString(s.text)
	p.text.WriteString(end)
	p.size += n
	p.bad += s.bad
	p.endings[l.ending]++
	if p.first == 0 {
		p.first = l.number
	}
	p.last = l.number
	if !s.whole {
		l.text = nil
		p.cut = append(p.cut, l)
	}
}

// showLines shows the lines from first to last, as far as they fit. About names
// what they are a part of, for the notice.
func (f opened) showLines(first, last int64, about string) (guest.Result, error) {
	var p page
	p.text.Grow(min(openBytes, len(f.head)*2))
	loneCR, err := f.hasLoneCR()
	if err != nil {
		return guest.Result{}, err
	}
	// One line more than may be shown, to learn that there is one.
	want := last
	if want-first >= openLines {
		want = first + openLines
	}
	sp := splitter{first: first, last: want, loneCR: loneCR, each: p.add}
	src := f.newSource()
	ended := false
	for src.off < scanBytes {
		piece, err := src.next()
		if err == io.EOF {
			ended = true
			break
		}
		if err != nil {
			return guest.Result{}, err
		}
		sp.feed(piece)
	}
	if ended || src.end {
		sp.close()
		ended = true
	}
	if p.bad > 0 && !f.asked && !f.enc.wide() && f.decode("") == nil {
		f.late = true
		return f.showLines(first, last, about)
	}
	total := sp.count
	if first > total {
		if !ended {
			return guest.Result{}, guest.FailPath(guest.TooLarge, f.path, "lines are counted in the first "+itoa(scanBytes>>20)+" MiB only, which hold "+count(total, "line")).
				WithNext(`read it by bytes: {"range":{"offset":` + itoa(src.off) + `,"length":16384}}`)
		}
		return guest.Result{}, f.pastEnd(total)
	}

	var next guest.Value
	if p.full || p.last < min(last, total) {
		span := []guest.Field{guest.F("start", p.last+1)}
		if last < maxLine {
			span = append(span, guest.F("end", min(last, max(total, p.last+1))))
		}
		next = guest.Object(guest.F("lines", guest.Object(span...)))
	}
	atLeast := ""
	if !ended {
		atLeast = "at least "
	}
	var notes []string
	if next.Exists() || p.first > 1 || p.last < total || !ended {
		note := about + "lines " + itoa(p.first) + "-" + itoa(p.last) + " of " + atLeast + itoa(total)
		if next.Exists() {
			note += "; next: " + string(next.JSON())
		}
		notes = append(notes, note)
	}
	notes = append(notes, f.notes(p)...)
	text := p.text.String()
	for _, n := range notes {
		text += "[" + n + "]\n"
	}

	d := []guest.Field{
		guest.F("path", named(f.info.Path)), guest.F("size", f.size), guest.F("start", p.first), guest.F("end", p.last),
		guest.F("total_lines", total), guest.F("truncated", next.Exists()), guest.F("next", next),
		guest.F("encoding", f.encoding()), guest.F("line_ends", p.lineEnds()),
	}
	if !ended {
		d = append(d, guest.F("total_is_lower_bound", true))
	}
	if p.bad > 0 {
		d = append(d, guest.F("invalid_bytes", p.bad))
	}
	if len(p.cut) > 0 {
		var cut []guest.Value
		for _, l := range p.cut[:min(len(p.cut), 20)] {
			one := []guest.Field{guest.F("line", l.number)}
			if f.ranges() {
				one = append(one, guest.F("range", f.rangeOf(l)))
			}
			cut = append(cut, guest.Object(one...))
		}
		d = append(d, guest.F("cut_lines", cut))
	}
	return guest.Text(text).WithDetails(d...), nil
}

// rangeOf gives the byte range of a line in the file.
func (f opened) rangeOf(l line) guest.Value {
	return guest.Object(guest.F("offset", l.start+int64(len(f.enc.mark()))), guest.F("length", l.length))
}

// notes says what a reader of the text cannot see in it.
func (f opened) notes(p page) []string {
	var notes []string
	if len(p.cut) > 0 {
		note := count(len(p.cut), "line") + " cut after " + itoa(linePoints) + " code points"
		if f.ranges() {
			note += "; line " + itoa(p.cut[0].number) + " whole: " + string(guest.Object(guest.F("range", f.rangeOf(p.cut[0]))).JSON())
		}
		notes = append(notes, note)
	}
	notes = append(notes, f.encodingNotes(p.bad)...)
	switch p.lineEnds() {
	case "CRLF":
		notes = append(notes, "lines end in CRLF")
	case "CR":
		notes = append(notes, "lines end in CR")
	case "mixed":
		notes = append(notes, "line ends are mixed: "+itoa(p.endings[endLF])+" LF, "+itoa(p.endings[endCRLF])+" CRLF")
	}
	return notes
}

// encodingNotes says how the file's bytes became the text shown, in which bad of
// them are none.
func (f *opened) encodingNotes(bad int) []string {
	var notes []string
	if f.encoding() != utf8Plain.String() {
		notes = append(notes, "the file is "+f.encoding())
	}
	if f.name != "" && !f.exact {
		notes = append(notes, "it is not that throughout: what does not fit is shown as U+FFFD")
	}
	if bad > 0 {
		note := badText(bad)
		if f.doubt != "" {
			note += "; " + f.doubt
		}
		notes = append(notes, note)
	}
	return notes
}

func badText(n int) string {
	if n == 1 {
		return "1 byte that is no UTF-8 is shown as U+FFFD"
	}
	return itoa(n) + " bytes that are no UTF-8 are shown as U+FFFD"
}

func (p *page) lineEnds() string {
	lf, crlf, cr := p.endings[endLF], p.endings[endCRLF], p.endings[endCR]
	switch {
	case lf > 0 && crlf > 0:
		return "mixed"
	case crlf > 0:
		return "CRLF"
	case cr > 0:
		return "CR"
	case lf > 0:
		return "LF"
	}
	return "none"
}
