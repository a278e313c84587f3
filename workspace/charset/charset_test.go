package charset

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

func named(t testing.TB, name string) Encoding {
	t.Helper()
	e, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func encoded(t testing.TB, name, text string) []byte {
	t.Helper()
	e := named(t, name)
	if e.Marked {
		text = Mark + text
	}
	p, err := e.Encode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(p)
}

const (
	chinese   = "// 这个函数返回当前的时间\nfunc now() {}\n"
	chinese2  = "設定檔案無法讀取，請檢查使用者名稱與密碼是否正確。\n"
	japanese  = "// この関数は現在の時刻を返す\nint now();\n"
	japanese2 = "設定ファイルを読み込めませんでした。ユーザー名とパスワードを確認してください。\n"
	korean    = "// 이 함수는 현재 시간을 반환한다\nint now();\n"
	german    = "// Größe prüfen, Übergänge zählen\nint x = 1;\n"
	french    = "Le café était fermé à cause de la fête. Où êtes-vous allés ?\n"
	spanish   = "¿Dónde está el niño? Mañana por la mañana, señor.\n"
	quotes    = "// “smart quotes” – dash … price €5 café\n"
	polish    = "Zażółć gęślą jaźń. Proszę sprawdzić nazwę użytkownika i hasło.\n"
	russian   = "Конфигурационный файл не найден. Проверьте имя пользователя и пароль.\n"
)

func TestDetect(t *testing.T) {
	for _, c := range []struct{ in, text, want string }{
		{"utf-8", "", "UTF-8"},
		{"utf-8", "plain\x1b[0m\f\n", "UTF-8"},
		{"utf-8", chinese, "UTF-8"},
		{"utf-8-sig", korean, "UTF-8 with a byte order mark"},
		{"utf-16", chinese, "UTF-16LE with a byte order mark"},
		{"utf-16be-bom", "", "UTF-16BE with a byte order mark"},
		{"utf-16le", german, "UTF-16LE"},
		{"utf-16be", "four", "UTF-16BE"},
		{"gb18030", chinese, "GB18030"},
		{"gb18030", chinese + "𠀀\n", "GB18030"},
		{"big5", chinese2, "Big5"},
		{"shift_jis", japanese, "Shift_JIS"},
		{"euc-jp", japanese + japanese2, "EUC-JP"},
		{"euc-kr", korean, "EUC-KR"},
		{"latin1", german, "windows-1252"},
		{"latin1", french, "windows-1252"},
		{"latin1", spanish, "windows-1252"},
		{"windows-1252", quotes, "windows-1252"},
		{"latin1", "// © café\nint x = 1;\n", "windows-1252"},
	} {
		p := encoded(t, c.in, c.text)
		e, err := Detect(p)
		if err != nil || e.String() != c.want {
			t.Errorf("Detect(%s of %q) = %v, %v; want %s", c.in, c.text, e, err, c.want)
			continue
		}
		text, err := e.Decode(p)
		if got := strings.TrimPrefix(string(text), Mark); err != nil || got != c.text {
			t.Errorf("%s: decoded as %q, %v; want %q", c.in, got, err, c.text)
		}
	}
}

// TestDetectDoubt has files of which the bytes do not tell enough. Taking one of
// the candidates anyway would show, and write, other characters than there are.
func TestDetectDoubt(t *testing.T) {
	for _, c := range []struct {
		name string
		p    []byte
		want []string // candidates that must be among those given; nil: there are none
	}{
		{"one Chinese word", encoded(t, "gb18030", "// 注意\nint x;\n"), []string{"gb18030", "windows-1252"}},
		{"one Japanese word", encoded(t, "shift_jis", "name=日本語\n"), []string{"shift_jis"}},
		{"one Korean word", encoded(t, "euc-kr", "name=한국어\n"), []string{"euc-kr", "gb18030"}},
		{"a character with a backslash in it", encoded(t, "shift_jis", "// 表\n"), []string{"shift_jis"}},
		{"Polish", encoded(t, "iso-8859-2", polish), []string{"iso-8859-2", "windows-1252"}},
		{"Russian", encoded(t, "windows-1251", russian), []string{"windows-1251"}},
		{"Russian of Unix", encoded(t, "koi8-r", russian), []string{"koi8-r"}},
		{"two bad bytes", []byte("ok \xff\xfe tail\nneedle\n"), []string{"windows-1252"}},
		{"UTF-8 but for one byte", []byte("Größe \xff 日本語\n"), []string{}},
		{"half a pair in UTF-16", []byte("\xff\xfea\x00\x00\xd8b\x00"), []string{"utf-16le"}},
		{"UTF-16 of odd length", []byte("\xff\xfea\x00b"), []string{"utf-16le"}},
		{"UTF-16 without a mark, few bytes", []byte("a\x00b\x00"), nil},
		{"UTF-16 without a mark, odd length", []byte("a\x00b\x00c\x00d\x00e"), nil},
		{"UTF-16 without a mark, not half of it ASCII", encoded(t, "utf-16le", "配置文件：数据库\n"), nil},
		{"UTF-32", []byte("\xff\xfe\x00\x00a\x00\x00\x00"), nil},
		{"numbers", []byte("\x01\x00\x02\x00\x03\x00\x04\x00\x05\x00"), nil},
		{"control characters", []byte("caf\xe9 \x01\x02"), nil},
		{"NUL in Latin-1", []byte("caf\xe9\x00 \n"), nil},
	} {
		e, err := Detect(c.p)
		u, ok := errors.AsType[*Undecided](err)
		if !ok {
			t.Errorf("%s: Detect = %v, %v; want doubt", c.name, e, err)
			continue
		}
		if c.want == nil && len(u.Candidates) > 0 {
			t.Errorf("%s: candidates %v; want none", c.name, u.Names())
		}
		for _, w := range c.want {
			if !slices.Contains(u.Names(), w) {
				t.Errorf("%s: candidates %v; want %s among them", c.name, u.Names(), w)
			}
		}
	}
}

// TestDetectWhole has evidence that is not near the beginning.
func TestDetectWhole(t *testing.T) {
	ascii := strings.Repeat("int x = 1; // plain\n", 20_000)
	for name, text := range map[string]string{"gb18030": chinese, "shift_jis": japanese, "euc-kr": korean, "windows-1252": german} {
		p := append([]byte(ascii), encoded(t, name, text)...)
		if e, err := Detect(p); err != nil || e != named(t, name) {
			t.Errorf("Detect(%s at the end) = %v, %v", name, e, err)
		}
		if _, err := Detect(append(p, 0xff, 0xff, '\n')); err == nil && name != "windows-1252" {
			t.Errorf("Detect(%s with a bad byte at the very end) has no doubt", name)
		}
	}
}

// TestDetectIsTheSameAlways: an answer that changes from call to call would
// have read_open show what replace_block then does not find.
func TestDetectIsTheSameAlways(t *testing.T) {
	for _, p := range [][]byte{
		[]byte("// caf\xe9\nx\n"), []byte("ok \xff\xfe tail\n"), encoded(t, "gb18030", "// 注意\n"), encoded(t, "iso-8859-2", polish), encoded(t, "euc-kr", "name=한국어\n"),
	} {
		e, err := Detect(p)
		for range 100 {
			if e2, err2 := Detect(p); e2 != e || (err == nil) != (err2 == nil) || err != nil && err2.Error() != err.Error() {
				t.Fatalf("Detect(%q) = %v, %v and then %v, %v", p, e, err, e2, err2)
			}
		}
	}
}

func TestDecodeLosesNothing(t *testing.T) {
	for _, name := range []string{"gbk", "gb18030", "big5", "shift_jis", "euc-jp", "euc-kr", "windows-1252", "iso-8859-2", "koi8-r", "windows-1251", "macintosh", "utf-16le", "utf-16be", "utf-8"} {
		e := named(t, name)
		r := rand.New(rand.NewPCG(1, 2))
		kept := 0
		for range 3000 {
			p := make([]byte, r.IntN(9))
			for i := range p {
				p[i] = byte(r.Uint32())
			}
			text, err := e.Decode(p)
			if err != nil {
				if tool.CodeOf(err) != tool.Encoding {
					t.Fatalf("%s: Decode(%q) = %v", name, p, err)
				}
				continue
			}
			kept++
			back, err := e.Encode(text)
			if err != nil || !bytes.Equal(back, p) {
				t.Fatalf("%s: Encode(Decode(%q)) = %q, %v", name, p, back, err)
			}
			// And for any two parts between characters.
			for i := range string(text) {
				a, err := e.Encode(text[:i])
				b, err2 := e.Encode(text[i:])
				if err != nil || err2 != nil || string(a)+string(b) != string(p) {
					t.Fatalf("%s: parts of %q at %d are %q and %q, not %q", name, text, i, a, b, p)
				}
			}
		}
		if kept == 0 {
			t.Errorf("%s: nothing was decoded", name)
		}
	}
}

func TestEncodeNamesTheCharacter(t *testing.T) {
	for name, want := range map[string]string{"windows-1252": "日", "shift_jis": "한", "euc-kr": "é", "gbk": "😀"} {
		_, err := named(t, name).Encode([]byte("plain " + want + " 😀"))
		e := tool.AsError(err)
		if err == nil || e.Code != tool.Encoding || e.Details["character"] != want {
			t.Errorf("%s: Encode = %v (%v); want the code encoding and the character %s", name, err, e.Details, want)
		}
	}
	if p, err := named(t, "gb18030").Encode([]byte("한é😀")); err != nil || len(p) != 4+2+4 {
		t.Errorf("GB18030 has every character; Encode = %q, %v", p, err)
	}
}

func TestLookup(t *testing.T) {
	for in, want := range map[string]string{
		"UTF-8": "UTF-8", " utf8 ": "UTF-8", "ascii": "UTF-8", "utf-8-sig": "UTF-8 with a byte order mark",
		"utf-16": "UTF-16LE with a byte order mark", "UTF-16LE": "UTF-16LE", "utf-16be": "UTF-16BE",
		"latin1": "windows-1252", "ISO-8859-1": "windows-1252", "cp1252": "windows-1252", "sjis": "Shift_JIS", "cp932": "Shift_JIS",
		"gb2312": "GBK", "cp936": "GBK", "gb18030": "GB18030", "cp949": "EUC-KR", "ks_c_5601-1987": "EUC-KR", "iso-8859-2": "ISO-8859-2",
	} {
		if e, err := Lookup(in); err != nil || e.String() != want {
			t.Errorf("Lookup(%q) = %v, %v; want %s", in, e, err, want)
		} else if again, err := Lookup(e.Name()); err != nil || again.Name() != e.Name() {
			t.Errorf("Lookup(%q) = %v, %v; a name must find itself", e.Name(), again, err)
		}
	}
	for _, in := range []string{"", "utf-7", "utf-32", "iso-2022-jp", "hz-gb-2312", "iso-2022-kr", "x-user-defined", "replacement", strings.Repeat("x", 1000)} {
		if e, err := Lookup(in); tool.CodeOf(err) != tool.Encoding || len(err.Error()) > 300 {
			t.Errorf("Lookup(%.20q) = %v, %.400v; want the code encoding", in, e, err)
		}
	}
}

func FuzzDetect(f *testing.F) {
	for name, text := range map[string]string{
		"gb18030": chinese, "big5": chinese2, "shift_jis": japanese, "euc-kr": korean, "euc-jp": japanese, "latin1": german,
		"utf-16": korean, "utf-16be": "plain text\n", "utf-8-sig": french, "koi8-r": russian,
	} {
		f.Add(encoded(f, name, text))
	}
	f.Add([]byte("ok \xff\xfe tail\n"))
	f.Add([]byte("\xff\xfe\x00\xd8"))
	f.Fuzz(func(t *testing.T, p []byte) {
		e, err := Detect(p)
		if err != nil {
			u, ok := errors.AsType[*Undecided](err)
			if !ok || u.For("f").Code != tool.Encoding {
				t.Fatalf("Detect(%q) = %v", p, err)
			}
			for _, c := range u.Candidates {
				if found, err := Lookup(c.Name()); err != nil || found.Name() != c.Name() {
					t.Fatalf("Lookup(%q) = %v, %v", c.Name(), found, err)
				}
				c.Show(p)
			}
			return
		}
		text, err := e.Decode(p)
		if err != nil {
			t.Fatalf("Detect(%q) = %v, in which it does not decode: %v", p, e, err)
		}
		if back, err := e.Encode(text); err != nil || !bytes.Equal(back, p) {
			t.Fatalf("%v: %q became %q, %v", e, p, back, err)
		}
	})
}
