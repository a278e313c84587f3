package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
	"github.com/wasmtools/wasmtools/guest-sdk/guesttest"
)

func lines(start, end int) obj { return obj{"lines": obj{"start": start, "end": end}} }

func TestReadOpen(t *testing.T) {
	tenRows := ""
	for i := 1; i <= 10; i++ {
		tenRows += fmt.Sprintf("row%d\n", i)
	}
	for _, c := range []struct {
		name, file string
		sel        any
		want       string
	}{
		{"whole", "a\nb\n", nil, "1\ta\n2\tb\n"},
		{"no last line end", "a\nb", nil, "1\ta\n2\tb\n"},
		{"blank lines count", "\n\nx\n\n", nil, "1\t\n2\t\n3\tx\n4\t\n"},
		{"empty file", "", nil, "[the file is empty]\n"},
		{"only a mark", "\xef\xbb\xbf", nil, "[the file is empty]\n"},
		{"form feed ends no line", "l1\n\x0cx\nl3\n", lines(2, 2), "2\t\x0cx\n[lines 2-2 of 3]\n"},
		{"next line mark ends no line", "a\u0085b\u2028c\n", nil, "1\ta\u0085b\u2028c\n"},
		{"part", tenRows, lines(3, 4), "3\trow3\n4\trow4\n[lines 3-4 of 10]\n"},
		{"open end", tenRows, obj{"lines": obj{"start": 9}}, "9\trow9\n10\trow10\n[lines 9-10 of 10]\n"},
		{"end past the last line", tenRows, lines(10, 99), "10\trow10\n[lines 10-10 of 10]\n"},
		{"CRLF", "a\r\nb\r\n", nil, "1\ta\n2\tb\n[lines end in CRLF]\n"},
		{"mixed", "a\r\nb\n", nil, "1\ta\n2\tb\n[line ends are mixed: 1 LF, 1 CRLF]\n"},
		{"CR in a file with LF stays", "a\rb\n", nil, "1\ta\rb\n"},
		{"lone CR", "a\rb\r", nil, "1\ta\n2\tb\n[lines end in CR]\n"},
		{"two CR before LF", "a\r\r\n", nil, "1\ta\r\n[lines end in CRLF]\n"},
		{"UTF-8 mark", "\xef\xbb\xbfa\n", nil, "1\ta\n[the file is UTF-8 with a byte order mark]\n"},
		{"UTF-16LE", "\xff\xfea\x00\n\x00", nil, "1\ta\n[the file is UTF-16LE with a byte order mark]\n"},
		{"UTF-16BE", "\xfe\xff\xd8\x3d\xde\x00", nil, "1\t\U0001f600\n[the file is UTF-16BE with a byte order mark]\n"},
		{"invalid UTF-8", "ok \xff\xfe tail\nneedle\n", nil, "1\tok \ufffd\ufffd tail\n2\tneedle\n[2 bytes that are no UTF-8 are shown as U+FFFD]\n"},
		{"range", "0123456789", obj{"range": obj{"offset": 2, "length": 3}}, "234\n[bytes 2-4 of 10; next: X]\n"},
		{"range to the end", "0123456789", obj{"range": obj{"offset": 8, "length": 99}}, "89\n[bytes 8-9 of 10]\n"},
		{"range inside characters", "aäöb", obj{"range": obj{"offset": 2, "length": 2}}, "ö\n[bytes 3-4 of 6]\n"},
		{"range at the mark", "\xef\xbb\xbfabc", obj{"range": obj{"offset": 0, "length": 4}}, "a\n[bytes 0-3 of 6]\n"},
		{"range of UTF-16", "\xff\xfea\x00b\x00", obj{"range": obj{"offset": 3, "length": 2}}, "b\n[bytes 4-5 of 6]\n[the file is UTF-16LE with a byte order mark]\n"},
		{"range with bad bytes", "a\xffb", obj{"range": obj{"offset": 0, "length": 3}}, "a\ufffdb\n[bytes 0-2 of 3]\n[1 byte that is no UTF-8 is shown as U+FFFD]\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := guesttest.New()
			h.Put("f", c.file)
			a := args("path", "f")
			if c.sel != nil {
				a = args("path", "f", "selection", c.sel)
			}
			// A range that was shown as asked names no next one.
			wantText(t, h.Call("read_open", a), strings.ReplaceAll(c.want, "; next: X", ""))
		})
	}
}

// TestReadOpenAroundTheSample: files that end just before, at and behind what is
// read to tell text from binary, with every kind of line end in either part.
func TestReadOpenAroundTheSample(t *testing.T) {
	for _, size := range []int{sampleBytes - 1, sampleBytes, sampleBytes + 1, sampleBytes + 2, pieceBytes + 1} {
		for _, end := range []string{"\n", "\r\n", "\r"} {
			for _, tail := range []string{"", "z", "\n", "\r"} {
				text := strings.Repeat("0123456"+end, size/(7+len(end))+1)[:size-len(tail)] + tail
				h := guesttest.New()
				h.Put("f", text)
				split := "\n"
				if !strings.Contains(text, "\n") {
					split = "\r"
				}
				want := strings.SplitAfter(text, split)
				if want[len(want)-1] == "" {
					want = want[:len(want)-1]
				}
				n := len(want)
				last := strings.TrimSuffix(want[n-1], split)
				if len(last) < len(want[n-1]) && split == "\n" {
					last = strings.TrimSuffix(last, "\r")
				}
				r := h.Call("read_open", args("path", "f", "selection", lines(n, n)))
				got, _, _ := strings.Cut(r.Text(), "\n")
				if r.Details()["total_lines"] != float64(n) || len(last) < 100 && got != fmt.Sprintf("%d\t%s", n, last) {
					t.Errorf("%d bytes, lines end in %q, tail %q: got %q of %v lines; want %q of %d", size, end, tail, got, r.Details()["total_lines"], last, n)
				}
			}
		}
	}
}

func TestReadOpenRefuses(t *testing.T) {
	h := guesttest.New()
	h.Put("f", "a\nb\n")
	h.Put("empty", "")
	h.Put("d/x", "x")
	h.Put("x.png", "\x89PNG\r\n\x1a\n0000")
	h.Put("x.pdf", "%PDF-1.7\n")
	h.Put("x.bin", "abc\x00def")
	h.Put("x.ctl", strings.Repeat("\x01\x02a", 50))
	h.Put("x.ipynb", `{"cells":[]}`)
	h.Put("u32", "\xff\xfe\x00\x00a\x00\x00\x00")
	h.Files["fifo"] = &guesttest.File{Type: guest.TypeOther}
	for _, c := range []struct {
		name  string
		args  string
		code  guest.Code
		parts []string
	}{
		{"past the end", args("path", "f", "selection", lines(3, 4)), guest.InvalidArguments, []string{"2 lines", "f: "}},
		{"past the end of nothing", args("path", "empty", "selection", lines(2, 2)), guest.InvalidArguments, []string{"0 lines"}},
		{"range past the end", args("path", "f", "selection", obj{"range": obj{"offset": 4, "length": 1}}), guest.InvalidArguments, []string{"4 bytes"}},
		{"end before start", args("path", "f", "selection", lines(2, 1)), guest.SchemaInvalid, []string{"$.selection.lines.end", "schema: {", "received: {"}},
		{"two forms", args("path", "f", "selection", obj{"lines": obj{"start": 1}, "section": obj{"heading": "x"}}), guest.SchemaInvalid, []string{"exactly one", "lines and section"}},
		{"no form", args("path", "f", "selection", obj{}), guest.SchemaInvalid, []string{"exactly one"}},
		{"pages of text", args("path", "f", "selection", obj{"pages": obj{"start": 1}}), guest.InvalidArguments, []string{"PDF"}},
		{"no such section", args("path", "f", "selection", obj{"section": obj{"heading": "Zed"}}), guest.InvalidArguments, []string{"Zed"}},
		{"directory", args("path", "d"), guest.NotRegular, []string{"read_discover"}},
		{"missing", args("path", "nope"), guest.NotFound, []string{"nope"}},
		{"outside", args("path", "../x"), guest.OutsideRoot, nil},
		{"fifo", args("path", "fifo"), guest.NotRegular, nil},
		{"image", args("path", "x.png"), guest.Encoding, []string{"a PNG image of 12 bytes"}},
		{"PDF", args("path", "x.pdf"), guest.Encoding, []string{"a PDF document of 9 bytes"}},
		{"NUL", args("path", "x.bin"), guest.Encoding, []string{"binary data of 7 bytes"}},
		{"control characters", args("path", "x.ctl"), guest.Encoding, []string{"binary data"}},
		{"UTF-32", args("path", "u32"), guest.Encoding, []string{"UTF-32 text"}},
		{"notebook", args("path", "x.ipynb"), guest.Encoding, []string{"Jupyter notebook", `{"lines":{"start":1}}`}},
	} {
		t.Run(c.name, func(t *testing.T) { wantError(t, h.Call("read_open", c.args), c.code, c.parts...) })
	}
	// The notebook's next move works.
	wantText(t, h.Call("read_open", args("path", "x.ipynb", "selection", obj{"lines": obj{"start": 1}})), "1\t{\"cells\":[]}\n")
}

// TestReadOpenPages reads files page by page, following the selection that each
// page names, and puts them together again.
func TestReadOpenPages(t *testing.T) {
	var many, wide, quotes strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "l%d\n", i)
	}
	for range 300 {
		wide.WriteString(strings.Repeat("ü", 400) + "\n")
		quotes.WriteString(strings.Repeat("\"\\\x01a", 100) + "\n")
	}
	for _, c := range []struct {
		name, text string
		pages      int
	}{{"many lines", many.String(), 3}, {"wide lines", wide.String(), 11}, {"escapes", quotes.String(), 15}} {
		t.Run(c.name, func(t *testing.T) {
			h := guesttest.New()
			h.Put("f", c.text)
			var got strings.Builder
			var sel any
			pages := 0
			for {
				a := args("path", "f")
				if sel != nil {
					a = args("path", "f", "selection", sel)
				}
				r := h.Call("read_open", a)
				if r.IsError {
					t.Fatal(r.Text())
				}
				if n := guest.TextLen(r.Text()); n > openBytes {
					t.Errorf("page %d takes %d bytes in JSON; at most %d are allowed", pages, n, openBytes)
				}
				n := 0
				for l := range strings.Lines(r.Text()) {
					if strings.HasPrefix(l, "[") {
						continue
					}
					_, text, _ := strings.Cut(l, "\t")
					got.WriteString(text)
					n++
				}
				if n > openLines {
					t.Errorf("page %d has %d lines; at most %d are allowed", pages, n, openLines)
				}
				pages++
				d := r.Details()
				if d["truncated"] != true {
					break
				}
				sel = d["next"]
				if !strings.Contains(r.Text(), "next: "+args("lines", sel.(obj)["lines"])) {
					t.Errorf("the notice does not name the next selection %v:\n%s", sel, r.Text()[len(r.Text())-200:])
				}
			}
			if got.String() != c.text {
				t.Errorf("the pages together are not the file")
			}
			if pages != c.pages {
				t.Errorf("%d pages, want %d", pages, c.pages)
			}
		})
	}
}

// TestReadOpenRangePages does the same with ranges, over text of every width
// and bytes that are no text.
func TestReadOpenRangePages(t *testing.T) {
	text := strings.Repeat("aäߜ€\U0001f600\n", 9000)
	for _, enc := range []encoding{utf8Plain, utf8BOM, utf16LE, utf16BE} {
		h := guesttest.New()
		h.Put("f", string(enc.encode(text)))
		var got strings.Builder
		sel := any(obj{"range": obj{"offset": 0, "length": 1 << 30}})
		for pages := 0; ; pages++ {
			r := h.Call("read_open", args("path", "f", "selection", sel))
			if r.IsError || pages > 100 {
				t.Fatal(pages, r.Text())
			}
			if n := guest.TextLen(r.Text()); n > openBytes {
				t.Errorf("%s: a page takes %d bytes", enc, n)
			}
			body, _, _ := strings.Cut(r.Text(), "[bytes ")
			d := r.Details()
			if d["truncated"] != true {
				got.WriteString(body)
				break
			}
			got.WriteString(body)
			// A page that ends inside a line gets a line end that is not the file's.
			if next := int(d["next"].(obj)["range"].(obj)["offset"].(float64)); !endsLine(h, next, enc) {
				s := got.String()
				got.Reset()
				got.WriteString(strings.TrimSuffix(s, "\n"))
			}
			sel = d["next"]
		}
		if got.String() != text {
			t.Errorf("%s: the pages together are not the file", enc)
		}
	}
}

// encode gives the bytes of text in e, with its mark.
func (e encoding) encode(text string) []byte {
	out := []byte(e.mark())
	if !e.wide() {
		return append(out, text...)
	}
	for _, u := range utf16.Encode([]rune(text)) {
		if e == utf16LE {
			out = append(out, byte(u), byte(u>>8))
		} else {
			out = append(out, byte(u>>8), byte(u))
		}
	}
	return out
}

func endsLine(h *guesttest.Host, off int, enc encoding) bool {
	end := enc.encode("\n")[len(enc.mark()):]
	return bytes.HasSuffix(h.Files["f"].Data[:off], end)
}

func TestReadOpenCutsLongLines(t *testing.T) {
	h := guesttest.New()
	long := strings.Repeat("ä", 3000)
	h.Put("f", "x\n"+long+"\ny\n")
	r := h.Call("read_open", args("path", "f"))
	want := "1\tx\n2\t" + strings.Repeat("ä", 2000) + " [line cut]\n3\ty\n" +
		"[1 line cut after 2000 code points; line 2 whole: {\"range\":{\"offset\":2,\"length\":6000}}]\n"
	wantText(t, r, want)
	r = h.Call("read_open", args("path", "f", "selection", obj{"range": obj{"offset": 2, "length": 6000}}))
	wantText(t, r, long+"\n[bytes 2-6001 of 6005]\n")
}

// slowLines is splitter's twin: it holds the whole text.
func slowLines(text string) []string {
	end := "\n"
	if !strings.Contains(text, "\n") {
		end = "\r"
	}
	out := strings.Split(text, end)
	if out[len(out)-1] == "" {
		out = out[:len(out)-1]
		for i := range out {
			if end == "\n" {
				out[i] = strings.TrimSuffix(out[i], "\r")
			}
		}
		return out
	}
	for i := range out[:len(out)-1] {
		if end == "\n" {
			out[i] = strings.TrimSuffix(out[i], "\r")
		}
	}
	return out
}

func FuzzSplitter(f *testing.F) {
	for _, s := range []string{"", "a", "a\n", "a\r\nb\r\n", "a\rb", "\r\n\r\r\n", "\n\n", "x\r", "a\nb\r"} {
		f.Add(s, uint8(1), uint8(0), uint8(9))
		f.Add(s, uint8(3), uint8(2), uint8(2))
	}
	f.Fuzz(func(t *testing.T, text string, step, first, last uint8) {
		want := slowLines(text)
		if got := splitLines(text); fmt.Sprint(got) != fmt.Sprint(want) || len(got) != len(want) {
			t.Fatalf("splitLines(%q) = %q, want %q", text, got, want)
		}
		var got []string
		sp := splitter{first: max(int64(first), 1), last: int64(last), each: func(l line) {
			if l.number != int64(len(got))+max(int64(first), 1) {
				t.Fatalf("line %d comes after %d others", l.number, len(got))
			}
			if s := text[l.start : l.start+l.length]; !strings.HasPrefix(s, string(l.text)) {
				t.Fatalf("line %d of %q has text %q but bytes %q", l.number, text, l.text, s)
			}
			got = append(got, text[l.start:l.start+l.length])
		}}
		sp.loneCR = !strings.Contains(text, "\n") && strings.Contains(text, "\r")
		for rest := []byte(text); len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			sp.feed(rest[:n])
			rest = rest[n:]
		}
		sp.close()
		if int(sp.count) != len(want) {
			t.Fatalf("%q has %d lines, counted %d", text, len(want), sp.count)
		}
		lo := min(max(int(first), 1)-1, len(want))
		hi := max(min(int(last), len(want)), lo)
		if fmt.Sprint(got) != fmt.Sprint(want[lo:hi]) {
			t.Fatalf("lines %d-%d of %q are %q, want %q", first, last, text, got, want[lo:hi])
		}
	})
}

func FuzzDecodeWide(f *testing.F) {
	f.Add([]byte("a\x00\x3d\xd8\x00\xde"), uint8(1))
	f.Add([]byte("\x3d\xd8"), uint8(0))
	f.Add([]byte("\x00\xdc\x00"), uint8(2))
	f.Fuzz(func(t *testing.T, p []byte, step uint8) {
		var units []uint16
		for i := 0; i+1 < len(p); i += 2 {
			units = append(units, uint16(p[i])|uint16(p[i+1])<<8)
		}
		want := string(utf16.Decode(units))
		if len(p)%2 == 1 {
			want += "\ufffd"
		}
		if got, _ := decodeWide(nil, p, utf16LE, true); string(got) != want {
			t.Fatalf("decodeWide(%x) = %q, want %q", p, got, want)
		}
		// In pieces it gives the same.
		var out, odd []byte
		for rest := p; ; {
			n := min(int(step)+1, len(rest))
			odd = append(odd, rest[:n]...)
			rest = rest[n:]
			var used int
			out, used = decodeWide(out, odd, utf16LE, len(rest) == 0)
			odd = odd[used:]
			if len(rest) == 0 {
				break
			}
		}
		if string(out) != want {
			t.Fatalf("in pieces %x gives %q, want %q", p, out, want)
		}
	})
}

func FuzzDecodeRange(f *testing.F) {
	f.Add([]byte("aäö\U0001f600"), uint8(1), uint8(5), uint8(0))
	f.Add([]byte("\x80\x80\xe2\x82"), uint8(0), uint8(9), uint8(1))
	f.Add([]byte("a\x00\x3d\xd8\x00\xde"), uint8(4), uint8(9), uint8(2))
	f.Fuzz(func(t *testing.T, p []byte, start, length, e uint8) {
		enc := encoding(e % 4)
		data := append([]byte(enc.mark()), p...)
		if int(start) >= len(data) || length == 0 {
			return
		}
		o := opened{enc: enc}
		end := min(int64(start)+int64(length), int64(len(data)))
		text, begin, stop, _ := o.decodeRange(data, 0, int64(start), end)
		if !utf8.ValidString(text) {
			t.Fatalf("not UTF-8: %q", text)
		}
		// It reaches over the asked range by less than one character.
		if begin < int64(start) || begin > int64(start)+3 || stop < begin || stop > max(begin, end+3) || stop < min(end, begin) {
			t.Fatalf("range %d-%d of %x gave %d-%d", start, end, data, begin, stop)
		}
	})
}

func FuzzCountByte(f *testing.F) {
	f.Add([]byte("\n\x0b\x8a\n\n\n\n\n\n"), byte('\n'))
	f.Add([]byte{0, 0x80, 0x7f, 0xff, 1, 0, 0, 0x80, 0x80}, byte(0x80))
	f.Fuzz(func(t *testing.T, p []byte, c byte) {
		if got, want := countByte(p, c), int64(bytes.Count(p, []byte{c})); got != want {
			t.Fatalf("countByte(%x, %x) = %d, want %d", p, c, got, want)
		}
	})
}

// TestReadOpenHugeSelections: a selection over every number is past the end, and
// so is one that only a 64-bit number holds; none is taken for left away.
func TestReadOpenHugeSelections(t *testing.T) {
	h := guesttest.New()
	h.Put("f", "one\ntwo\n")
	h.Put("empty", "")
	for _, n := range []string{"9223372036854775808", "1e300", "9223372036854775807", "9223372036854775806", "1e18", "4611686018427387905"} {
		for _, sel := range []string{`{"lines":{"start":N}}`, `{"lines":{"start":N,"end":9223372036854775807}}`, `{"range":{"offset":N,"length":1}}`, `{"range":{"offset":N,"length":9223372036854775807}}`, `{"pages":{"start":N}}`} {
			if strings.HasSuffix(n, "8") && strings.Contains(sel, `"end"`) {
				continue // the end lies before it
			}
			for _, file := range []string{"f", "empty"} {
				wantError(t, h.Call("read_open", `{"path":"`+file+`","selection":`+strings.ReplaceAll(sel, "N", n)+`}`), guest.InvalidArguments)
			}
		}
	}
	for _, sel := range []string{`{"lines":{"start":1,"end":1e300}}`, `{"range":{"offset":0,"length":1e300}}`} {
		wantError(t, h.Call("read_open", `{"path":"f","selection":`+sel+`}`), guest.InvalidArguments, "1e300")
	}
	wantError(t, h.Call("read_open", `{"path":"empty","selection":{"pages":{"start":1}}}`), guest.InvalidArguments, "pages")
}
