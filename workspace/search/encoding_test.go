package search

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/workspace/charset"
)

func inEncoding(t testing.TB, name, text string) []byte {
	t.Helper()
	e, err := charset.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.Encode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestScanEncodings looks for text in files that are not UTF-8, near the start
// and far from it, and wants the line numbers that the text has.
func TestScanEncodings(t *testing.T) {
	filler := strings.Repeat("plain line\n", 2*minBuffer/11)
	for name, text := range map[string]string{
		"gb18030":      "// 这个函数返回当前的时间\r\n时间 needle\r\n",
		"shift_jis":    "// この関数は現在の時刻を返す。表示用\n時刻 needle\n",
		"euc-kr":       "// 이 함수는 현재 시간을 반환한다\n시간 needle\n",
		"windows-1252": "// Größe prüfen, Übergänge zählen\nGröße needle\n",
		"utf-16le":     "// plain enough\n日 needle\n",
		"utf-16be":     "// plain enough\n日 needle\n",
	} {
		word := []rune(text[strings.Index(text, "\n")+1:])[0]
		for _, before := range []string{"", "x\n", filler} {
			if before == filler && strings.HasPrefix(name, "utf-16") {
				before = filler[:11*1000]
			}
			p := inEncoding(t, name, before+text)
			for _, multiline := range []bool{false, true} {
				pat, err := compile(string(word)+`[^\n]*needle`, false, false, multiline)
				if err != nil {
					t.Fatal(err)
				}
				out := newPage("f", 0, 0, 10)
				s := newScanner(pat)
				sum, err := s.scan(context.Background(), bytes.NewReader(p), int64(len(p)), false, aimShow, out)
				want := strings.Count(before, "\n") + 2
				if err != nil || sum.hits != 1 || len(out.lines) != 1 || out.lines[0].Line != want || !strings.Contains(out.lines[0].Text, string(word)) {
					t.Errorf("%s after %d bytes (multiline %v): %+v, %v, %+v; want one match in line %d", name, len(before), multiline, sum, err, out.lines, want)
				}
			}
		}
	}
}

// TestScanRestartsClean has a page that is half filled when the encoding shows.
func TestScanRestartsClean(t *testing.T) {
	p := inEncoding(t, "windows-1252", "needle one\n"+strings.Repeat("plain line\n", 2*minBuffer/11)+"// Größe prüfen, Übergänge zählen\nneedle ö\n")
	pat, _ := compile("needle", true, false, false)
	out := newPage("f", 0, 0, 10)
	sum, err := newScanner(pat).scan(context.Background(), bytes.NewReader(p), int64(len(p)), false, aimShow, out)
	var texts []string
	for _, l := range out.lines {
		texts = append(texts, l.Text)
	}
	if want := []string{"needle one", "needle ö"}; err != nil || sum.hits != 2 || !slices.Equal(texts, want) {
		t.Errorf("scan = %+v, %v, %q; want %q", sum, err, texts, want)
	}
}

// TestScanDoubt leaves files as bytes whose encoding is not certain.
func TestScanDoubt(t *testing.T) {
	for _, p := range [][]byte{
		inEncoding(t, "gb18030", "// 注意\nneedle\n"),
		[]byte("ok \xff\xfe tail\nneedle\n"),
		append(bytes.Repeat([]byte("plain line\n"), maxDecoded/11+1), "// Gr\xf6\xdfe\nneedle\n"...),
	} {
		pat, _ := compile("needle", true, false, false)
		sum, err := newScanner(pat).scan(context.Background(), bytes.NewReader(p), int64(len(p)), false, aimLines, nil)
		if err != nil || sum.hits != 1 {
			t.Errorf("scan of %.40q = %+v, %v; want one line", p, sum, err)
		}
	}
}
