package workspace

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace/charset"
)

// in gives text in an encoding, with its mark if it has one.
func in(t testing.TB, name, text string) string {
	t.Helper()
	e, err := charset.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	if e.Marked {
		text = charset.Mark + text
	}
	p, err := e.Encode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

const (
	chineseLine  = "// 这个函数返回当前的时间，不需要参数"
	japaneseLine = "// この関数は現在の時刻を返す。表示用"
	koreanLine   = "// 이 함수는 현재 시간을 반환한다"
	germanLine   = "// Größe prüfen, Übergänge zählen"
)

func TestEditEncodings(t *testing.T) {
	for _, c := range []struct {
		name, encoding, src, old, new, want string
		given                               string
		code                                tool.Code
	}{
		{name: "GB18030", encoding: "gb18030", src: chineseLine + "\r\nx\r\n", old: "当前的时间", new: "日期 €😀", want: "// 这个函数返回日期 €😀，不需要参数\r\nx\r\n"},
		{name: "Shift_JIS", encoding: "shift_jis", src: japaneseLine + "\nx\n", old: "現在", new: "昔", want: "// この関数は昔の時刻を返す。表示用\nx\n"},
		{name: "EUC-KR", encoding: "euc-kr", src: koreanLine + "\nx\r\ny\n", old: "x\ny", new: "엑스\n와이", want: koreanLine + "\n엑스\r\n와이\n"},
		{name: "windows-1252", encoding: "windows-1252", src: germanLine + "\n", old: "zählen", new: "messen – 5 €", want: "// Größe prüfen, Übergänge messen – 5 €\n"},
		{name: "UTF-16LE with a mark", encoding: "utf-16", src: "one\r\ntwo\r\n", old: "two", new: "zwei\n日", want: "one\r\nzwei\r\n日\r\n"},
		{name: "UTF-16BE with a mark", encoding: "utf-16be-bom", src: "one\ntwo\n", old: "one", new: "😀", want: "😀\ntwo\n"},
		{name: "the mark is pasted", encoding: "utf-16", src: "one\n", old: charset.Mark + "one", new: charset.Mark + "1", want: "1\n"},
		{name: "UTF-16 without a mark", encoding: "utf-16le", src: "plain text\n", old: "plain", new: "é", want: "é text\n"},
		{name: "UTF-8 with a mark", encoding: "utf-8-sig", src: "é\n", old: "é", new: "日", want: "日\n"},

		{name: "a character that the encoding lacks", encoding: "windows-1252", src: germanLine + "\n", old: "zählen", new: "数", code: tool.Encoding},
		{name: "and in Shift_JIS", encoding: "shift_jis", src: japaneseLine, old: "現在", new: "한", code: tool.Encoding},
		{name: "not there", encoding: "gb18030", src: chineseLine, old: "数据库", new: "x", code: tool.NoMatch},
		{name: "not unique", encoding: "euc-kr", src: koreanLine + "\n" + koreanLine + "\n", old: "함수", new: "x", code: tool.NotUnique},
		{name: "no change", encoding: "gb18030", src: chineseLine, old: "时间", new: "时间", code: tool.NoChange},

		{name: "in doubt, ASCII", encoding: "gb18030", src: "// 注意\nx = 1\n", old: "x = 1", new: "x = 2", want: "// 注意\nx = 2\n"},
		{name: "in doubt, old not ASCII", encoding: "gb18030", src: "// 注意\n", old: "注意", new: "x", code: tool.Encoding},
		{name: "in doubt, new not ASCII", encoding: "gb18030", src: "// 注意\nx = 1\n", old: "x = 1", new: "意", code: tool.Encoding},
		{name: "in doubt, half a character", encoding: "shift_jis", src: "// 表\n", old: "\\", new: "/", code: tool.Encoding},
		{name: "in doubt, but named", encoding: "gb18030", given: "gbk", src: "// 注意\n", old: "注意", new: "意", want: "// 意\n"},
		{name: "named and the character is whole", encoding: "shift_jis", given: "shift_jis", src: "// 表\\\n", old: "\\", new: "/", want: "// 表/\n"},
		{name: "named wrongly", encoding: "gb18030", given: "utf-8", src: "// 注意\n", old: "// ", new: "", code: tool.Encoding},
		{name: "named as nothing", encoding: "gb18030", given: "utf-7", src: "// 注意\n", old: "// ", new: "", code: tool.Encoding},
	} {
		src := in(t, c.encoding, c.src)
		before := strings.Clone(src)
		done, err := editFile(context.Background(), []byte(src), []Edit{{Old: c.old, New: c.new}}, c.given, 1<<20)
		if src != before {
			t.Errorf("%s: the source changed", c.name)
		}
		if c.code != "" {
			if tool.CodeOf(err) != c.code {
				t.Errorf("%s: editFile = %q, %v; want the code %s", c.name, done.data, err, c.code)
			}
			continue
		}
		if want := in(t, c.encoding, c.want); err != nil || string(done.data) != want {
			t.Errorf("%s: editFile = %q, %v; want %q", c.name, done.data, err, want)
		}
	}
}

// TestEditEncodingsByteExact makes random edits in random files of all encodings
// and takes them back. The control is an edit that decodes what it can and
// writes it all anew: that must be caught.
func TestEditEncodingsByteExact(t *testing.T) {
	careful := func(src []byte, e Edit, encoding string) ([]byte, error) {
		done, err := editFile(context.Background(), src, []Edit{e}, encoding, 1<<20)
		return done.data, err
	}
	if n, lost := editAndBack(t, careful); lost > 0 || n < 2000 {
		t.Errorf("%d of %d edits were not undone to the byte", lost, n)
	}
	careless := func(src []byte, e Edit, encoding string) ([]byte, error) {
		enc, err := charset.Lookup(encoding)
		if err != nil {
			return nil, err
		}
		text := strings.ReplaceAll(string(enc.Show(src)), "\r\n", "\n")
		if strings.Count(text, e.Old) != 1 {
			return nil, tool.Errorf(tool.NoMatch, "")
		}
		return enc.Encode([]byte(strings.Replace(text, e.Old, e.New, 1)))
	}
	if _, lost := editAndBack(t, careless); lost == 0 {
		t.Error("an edit that writes the whole file anew was not noticed")
	}
}

// editAndBack reports how many edits were made, and how many of them their
// inverse did not undo.
func editAndBack(t *testing.T, edit func(src []byte, e Edit, encoding string) ([]byte, error)) (n, lost int) {
	pieces := map[string][]string{
		"gb18030":      {"时间", "函", "é", "😀", "a", "\\"},
		"gbk":          {"时间", "函", "a", "~"},
		"big5":         {"時間", "函", "a", "\\"},
		"shift_jis":    {"表", "ソ", "関数", "ｱ", "a", "\\"},
		"euc-jp":       {"表", "関数", "a"},
		"euc-kr":       {"함수", "현", "a"},
		"windows-1252": {"é", "ß", "€", "a"},
		"utf-16":       {"é", "😀", "表", "a", "\u0a0a", "\u0d0d"},
		"utf-16be":     {"é", "😀", "\u0a00", "a"},
		"utf-8-sig":    {"é", "😀", "a"},
	}
	ends := []string{"\n", "\r\n", "\r", "\f", "\u2028", " "}
	for name, own := range pieces {
		e, err := charset.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(7, uint64(len(name))))
		text := func(n int) string {
			var b strings.Builder
			for range n {
				if p := own[r.IntN(len(own))]; r.IntN(4) > 0 {
					b.WriteString(p)
				} else if end := ends[r.IntN(len(ends))]; e.Wide() || end != "\u2028" {
					b.WriteString(end)
				}
			}
			return b.String()
		}
		for range 600 {
			content := text(r.IntN(30))
			if r.IntN(10) == 0 && !e.Wide() {
				content += string([]byte{0xff}) // of no use in any of them
			}
			var src []byte
			if strings.HasSuffix(content, "\xff") {
				src = append([]byte(in(t, name, content[:len(content)-1])), 0xff)
			} else {
				src = []byte(in(t, name, content))
			}
			mark := " <" + text(2) + "> "
			old := " <old" + strings.ReplaceAll(text(2), "\r", "") + "> "
			at := r.IntN(2) * len(src)
			if m := []byte(in(t, name, "")); at < len(m) {
				at = len(m)
			}
			plain := strings.TrimPrefix(in(t, name, old), in(t, name, ""))
			src = append(src[:at:at], append([]byte(plain), src[at:]...)...)

			out, err := edit(bytes.Clone(src), Edit{Old: old, New: mark}, name)
			if err != nil {
				continue
			}
			n++
			if !bytes.HasPrefix(out, src[:at]) || !bytes.HasSuffix(out, src[at+len(plain):]) {
				lost++
				continue
			}
			if strings.ContainsAny(old+mark, "\r\n") {
				continue // line ends of new texts are fitted to their place
			}
			if back, err := edit(bytes.Clone(out), Edit{Old: mark, New: old}, name); err != nil || !bytes.Equal(back, src) {
				lost++
			}
		}
	}
	return n, lost
}

func TestWriteTextEncodings(t *testing.T) {
	b := newBox(t, Options{})
	b.build("u8 = é\n", "bom = "+in(t, "utf-8-sig", "é\n"), "u16 = "+in(t, "utf-16", "é\n"), "sj = "+in(t, "shift_jis", japaneseLine),
		"doubt = "+in(t, "gb18030", "// 注意\n"), "bin = a\x00b\xff")
	for _, c := range []struct {
		path, text, encoding, want, said string
		code                             tool.Code
	}{
		{path: "u8", text: "日\n", want: "日\n"},
		{path: "bom", text: "日\n", want: in(t, "utf-8-sig", "日\n"), said: "UTF-8 with a byte order mark"},
		{path: "bom", text: charset.Mark + "日\n", want: in(t, "utf-8-sig", "日\n"), said: "UTF-8 with a byte order mark"},
		{path: "u16", text: "日\n", want: in(t, "utf-16", "日\n"), said: "UTF-16LE with a byte order mark"},
		{path: "u16", text: "日\n", encoding: "utf-8", want: "日\n"},
		{path: "sj", text: "関数\n", want: in(t, "shift_jis", "関数\n"), said: "Shift_JIS"},
		{path: "sj", text: "한\n", code: tool.Encoding},
		{path: "sj", text: "한\n", encoding: "euc-kr", want: in(t, "euc-kr", "한\n"), said: "EUC-KR"},
		{path: "doubt", text: "plain\n", want: "plain\n"},
		{path: "doubt", text: "日\n", code: tool.Encoding},
		{path: "doubt", text: "日\n", encoding: "gbk", want: in(t, "gbk", "日\n"), said: "GBK"},
		{path: "bin", text: "日\n", want: "日\n"},
		{path: "new", text: "é\n", want: "é\n"},
		{path: "new", text: "é\n", encoding: "latin1", want: "\xe9\n", said: "windows-1252"},
		{path: "new", text: "é\n", encoding: "utf-16be-bom", want: in(t, "utf-16be-bom", "é\n"), said: "UTF-16BE with a byte order mark"},
		{path: "new", text: "日\n", encoding: "latin1", code: tool.Encoding},
		{path: "new", text: "x\n", encoding: "klingon", code: tool.Encoding},
	} {
		o := b.w.Overlay(OverlayOptions{})
		ch, err := o.WriteText(t.Context(), c.path, c.text, c.encoding, true)
		got := ""
		if ws := o.WriteSet(); len(ws.Entries) == 1 {
			got = string(ws.Entries[0].Blob)
		}
		if tool.CodeOf(err) != c.code || got != c.want || ch.Encoding != c.said {
			t.Errorf("WriteText(%s, %q, %q) = %q, %q, %v; want %q, %q, %q", c.path, c.text, c.encoding, got, ch.Encoding, err, c.want, c.said, c.code)
		}
		if c.code != "" && err.(*tool.Error).Path != c.path {
			t.Errorf("WriteText(%s): the error names the path %q", c.path, err.(*tool.Error).Path)
		}
	}
}

func TestReadText(t *testing.T) {
	b := newBox(t, Options{})
	b.build("u16 = "+in(t, "utf-16", "é\n"), "kr = "+in(t, "euc-kr", koreanLine), "doubt = "+in(t, "gb18030", "// 注意\n"), "bad = caf\xe9 \xff\n", "bin = a\x00b\xff")
	for _, c := range []struct {
		path, encoding, want, said string
		exact                      bool
		code                       tool.Code
	}{
		{path: "u16", want: "é\n", said: "UTF-16LE with a byte order mark", exact: true},
		{path: "kr", want: koreanLine, said: "EUC-KR", exact: true},
		{path: "doubt", code: tool.Encoding},
		{path: "doubt", encoding: "gbk", want: "// 注意\n", said: "GBK", exact: true},
		{path: "bad", encoding: "utf-8", want: "caf\ufffd \ufffd\n", said: "UTF-8"},
		{path: "bad", encoding: "shift_jis", want: "caf\ufffd \ufffd\n", said: "Shift_JIS"},
		{path: "bin", code: tool.Encoding},
		{path: "gone", code: tool.NotFound},
		{path: "../x", code: tool.OutsideRoot},
	} {
		o := b.w.Overlay(OverlayOptions{})
		x, err := o.ReadText(t.Context(), c.path, c.encoding, 1<<20)
		if tool.CodeOf(err) != c.code || err == nil && (string(x.Text) != c.want || x.Encoding.String() != c.said || x.Exact != c.exact) {
			t.Errorf("ReadText(%s, %q) = %q, %v, exact %v, %v; want %q, %s, %v, %q", c.path, c.encoding, x.Text, x.Encoding, x.Exact, err, c.want, c.said, c.exact, c.code)
		}
	}
	o := b.w.Overlay(OverlayOptions{})
	if _, err := o.ReadText(t.Context(), "kr", "", 10); tool.CodeOf(err) != tool.TooLarge {
		t.Errorf("ReadText of a file above the limit: %v", err)
	}
}

func TestDiffDecodes(t *testing.T) {
	b := newBox(t, Options{})
	b.build("sj = "+in(t, "shift_jis", japaneseLine+"\n"), "u16 = "+in(t, "utf-16", "é\n"), "same = "+in(t, "utf-16", "é\n"), "doubt = "+in(t, "gb18030", "// 注意\n"), "bad = a \xff\xfe x\n")
	o := b.w.Overlay(OverlayOptions{})
	must(t, second(o.Edit(t.Context(), "sj", []Edit{{Old: "現在", New: "昔"}})), second(o.Edit(t.Context(), "u16", []Edit{{Old: "é", New: "日"}})),
		second(o.WriteText(t.Context(), "same", "é\n", "utf-8", true)), second(o.EditText(t.Context(), "doubt", []Edit{{Old: "注", New: "日"}}, "gbk")),
		second(o.Edit(t.Context(), "bad", []Edit{{Old: "x", New: "y"}})))
	d := o.Diff(0)
	for _, want := range []string{"-// この関数は現在の時刻を返す。表示用\n+// この関数は昔の", "-é\n+日\n", "(only the encoding differs: UTF-8, before UTF-16LE with a byte order mark)", "-// 注意\n+// 日意\n", "-a \ufffd x\n+a \ufffd y\n"} {
		if !strings.Contains(d, want) {
			t.Errorf("Diff has no %q:\n%s", want, d)
		}
	}
}

func FuzzEditText(f *testing.F) {
	f.Add([]byte(in(f, "gb18030", chineseLine)), "时间", "日", "")
	f.Add([]byte(in(f, "shift_jis", "// 表\\\n")), "\\", "/", "shift_jis")
	f.Add([]byte(in(f, "utf-16", "a\r\nb\n")), "a\nb", "é", "")
	f.Add([]byte("caf\xe9\n"), "é", "e", "latin1")
	f.Fuzz(func(t *testing.T, src []byte, old, text, encoding string) {
		if len(src) > 2000 || len(old) > 200 || len(text) > 200 || old == "" {
			return
		}
		before := bytes.Clone(src)
		done, err := editFile(t.Context(), src, []Edit{{Old: old, New: text}}, encoding, 1<<20)
		if !bytes.Equal(before, src) {
			t.Fatal("the source changed")
		}
		if err != nil {
			if tool.CodeOf(err) == "" {
				t.Fatalf("%v has no code", err)
			}
			return
		}
		if done.encoding == (charset.Encoding{}) {
			return // as bytes: FuzzEdit
		}
		// What lies before and after the one span is there to the byte.
		a, err := done.encoding.Encode(done.text[:done.spans[0].start])
		if err != nil || !bytes.HasPrefix(src, a) || !bytes.HasPrefix(done.data, a) {
			t.Fatalf("%v: bytes before the span changed: %q became %q (%v)", done.encoding, src, done.data, err)
		}
		b, err := done.encoding.Encode(done.text[done.spans[0].start+len(done.spans[0].text):])
		if err != nil || !bytes.HasSuffix(src, b) || !bytes.HasSuffix(done.data, b) {
			t.Fatalf("%v: bytes after the span changed: %q became %q (%v)", done.encoding, src, done.data, err)
		}
	})
}
