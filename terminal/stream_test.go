package terminal

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/internal/jsonsize"
	"github.com/wasmtools/wasmtools/terminal/output"
)

// FuzzRedactor holds the redactor, fed in pieces, against a replacement in the
// whole.
func FuzzRedactor(f *testing.F) {
	f.Add([]byte("a secret is a secret"), []byte("secret"), uint8(3))
	f.Add([]byte("ababababac"), []byte("ababac"), uint8(1))
	f.Add([]byte("aaaaaaa"), []byte("aa"), uint8(2))
	f.Add([]byte("xs"), []byte("secret"), uint8(1))
	f.Fuzz(func(t *testing.T, text, secret []byte, step uint8) {
		if len(secret) > 64 || len(text) > 4096 {
			t.Skip("longer ones are of no other kind")
		}
		var r redactor
		r.add(secret)
		var got []byte
		for rest := text; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			got = append(got, r.next(rest[:n])...)
			rest = rest[n:]
		}
		got = append(got, r.flush()...)
		want := text
		if s := bytes.Trim(secret, "\r\n"); len(s) > 0 {
			want = bytes.ReplaceAll(text, s, []byte(redacted))
			if !bytes.Contains([]byte(redacted), s) && bytes.Contains(got, s) && !bytes.Contains(want, s) {
				t.Errorf("the secret %q is in %q", s, got)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%q without %q is %q, want %q", text, secret, got, want)
		}
	})
}

// FuzzExcerpt: an excerpt is no longer than asked, whole code points of the
// beginning and end, and counts what it leaves out.
func FuzzExcerpt(f *testing.F) {
	f.Add("line\nline\nline\n", uint16(300), uint8(3))
	f.Add("ä漢字\n", uint16(1000), uint8(1))
	f.Add("y\n", uint16(1000), uint8(200))
	f.Add("\"\\", uint16(3000), uint8(200))
	f.Add(strings.Repeat("x", 200), uint16(3000), uint8(40))
	f.Fuzz(func(t *testing.T, unit string, limit uint16, times uint8) {
		if !utf8.ValidString(unit) || strings.Contains(unit, "[") || len(unit) > 200 {
			t.Skip("a log holds text")
		}
		text := strings.Repeat(unit, int(times)*8)
		n := max(int(limit), MinOutput)
		log := output.NewLog(nil, 0)
		log.Write([]byte(text))
		got, omitted := excerpt(log, 0, log.Size(), n)
		if size := jsonsize.Len(got); size > n+n/4+100 {
			t.Errorf("of %d bytes, limit %d: %d bytes in JSON", len(text), n, size)
		}
		if len(text) <= n && jsonsize.Len(text) <= n+n/4 {
			if got != text || omitted != 0 {
				t.Errorf("a short text: %q, %d", got, omitted)
			}
			return
		}
		if len(text) > output.HeadBytes+output.TailBytes {
			return // a part is kept nowhere, which other tests are for
		}
		head, tail, ok := strings.Cut(got, "[")
		_, tail, ok2 := strings.Cut(tail, "]\n")
		if !ok || !ok2 || !utf8.ValidString(got) || len(head)+len(tail) > n+1 {
			t.Fatalf("of %d bytes, limit %d: %q", len(text), n, got)
		}
		head = strings.TrimSuffix(head, "\n") // it may have been added
		if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) {
			t.Errorf("%q is not of %q", got, text)
		}
		if d := int64(len(text)) - omitted - int64(len(head)) - int64(len(tail)); d < 0 || d > 1 {
			t.Errorf("of %d bytes %d are said to be left out, %d and %d are shown", len(text), omitted, len(head), len(tail))
		}
	})
}

// FuzzScreen: no output makes drawing fail or hang, and a screen has the size that
// it says.
func FuzzScreen(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b[2J\x1b[1;1Htop\x1b[6n\x1b]2;ti\x07tle"), uint8(20), uint8(5))
	f.Add([]byte("漢字\r\n\x1b[5A\x1b[999C🙂\x1b[3S\x1b[2T"), uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, raw []byte, cols, rows uint8) {
		if len(raw) > 4096 {
			raw = raw[:4096]
		}
		c, r := int(cols)+1, int(rows)+1
		sizes := []sized{{0, 10, 4}, {int64(len(raw) / 2), c, r}}
		cut, first := recent(raw, 0, false)
		shot := draw(cut, first, sizes, false)
		if shot.cols != c || shot.lines != r || len(shot.rows) > r {
			t.Errorf("%d rows of %dx%d", len(shot.rows), shot.cols, shot.lines)
		}
		for _, row := range shot.rows {
			if strings.ContainsAny(row, "\x1b\n\r\x07") {
				t.Errorf("row %q", row)
			}
		}
	})
}

func TestKeys(t *testing.T) {
	for name, want := range map[string]string{
		"C-c": "\x03", "C-C": "\x03", "c-d": "\x04", "C-\\": "\x1c", "Enter": "\r", "Up": "\x1b[A", "F5": "\x1b[15~", "M-x": "\x1bx", "M-C-c": "\x1b\x03", "M-Enter": "\x1b\r", "Escape": "\x1b",
	} {
		if got, ok := keyBytes(name); !ok || got != want {
			t.Errorf("keyBytes(%q) = %q, %t; want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "C-", "C-c ", "C-é", "ls", "M-", "F13", "x"} {
		if got, ok := keyBytes(name); ok {
			t.Errorf("keyBytes(%q) = %q", name, got)
		}
	}
}

func TestTakesCommands(t *testing.T) {
	for _, name := range []string{"bash", "-bash", "python3.11", "python3", "ssh", "sudo", "psql", "sqlite3", "node", "vim.basic", "vim", "perl5.36.0", "gdb", "docker", "less"} {
		if !takesCommands(name) {
			t.Errorf("%s does not", name)
		}
	}
	for _, name := range []string{"cat", "sleep", "apt", "npm-check", "pythonic", "sshfs-wait"} {
		if takesCommands(name) {
			t.Errorf("%s does", name)
		}
	}
	for _, c := range []struct {
		text string
		keys []string
		want bool
	}{{"y\n", nil, true}, {"YES\r", nil, true}, {"\n", nil, true}, {"rm\n", nil, false}, {"y\nrm\n", nil, false}, {"", []string{"Up", "Enter"}, true}, {"", []string{"C-z"}, false}, {"", nil, false}} {
		if got := isAnswer(c.text, c.keys); got != c.want {
			t.Errorf("isAnswer(%q, %q) = %t", c.text, c.keys, got)
		}
	}
}

// TestJournal: a journal does not grow with what has ended, and has what has not.
func TestJournal(t *testing.T) {
	dir, j, err := newInstance(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	alive := newID(true)
	j.write(entry{ID: alive, Pid: 17, Command: "bash"})
	j.write(entry{ID: alive, Limit: smallSpool})
	for range 20_000 {
		id := newID(false)
		j.write(entry{ID: id, Pid: 1, Command: "some command"})
		j.write(entry{ID: id, Ended: true})
	}
	j.write(entry{ID: alive, Size: 9 << 20})
	info, err := os.Stat(filepath.Join(dir, journalFile))
	if err != nil || info.Size() > 2*journalBytes {
		t.Errorf("the journal: %v, %v", info.Size(), err)
	}
	open := readJournal(filepath.Join(dir, journalFile))
	if e := open[alive]; len(open) != 1 || e.Pid != 17 || e.Command != "bash" || e.Limit != smallSpool || e.Size != 9<<20 {
		t.Errorf("it says %+v", open)
	}
}

// FuzzJournal: whatever a crash left, reading it ends.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"id":"s-abcdefghijkl","pid":3}` + "\n" + `{"id":"s-abcdefghijkl","ended":true}` + "\n{"))
	f.Add([]byte(`{"id":"../../etc","pid":-1,"size":-5}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, p, 0o600); err != nil {
			t.Fatal(err)
		}
		for id := range readJournal(path) {
			if !validID(id) {
				t.Errorf("it takes %q", id)
			}
		}
	})
}

// TestPagesInJSON: pages of output that JSON swells stay within their room, and
// reach its end.
func TestPagesInJSON(t *testing.T) {
	for _, unit := range []string{"y\n", "\"\\\t", "é世", "x"} {
		text := strings.Repeat(unit, 30_000)
		log := output.NewLog(nil, 0)
		log.Write([]byte(text))
		var all string
		for at, pages := int64(0), 0; at < log.Size(); pages++ {
			var r Result
			if err := page(&r, log, at, log.Size(), DefaultOutput, ""); err != nil || r.Cursor <= at || pages > 100 {
				t.Fatalf("%q: the page from %d is %+v, %v", unit, at, r, err)
			}
			if n := jsonsize.Len(r.Output); n > jsonRoom(DefaultOutput) {
				t.Fatalf("%q: the page from %d has %d bytes in JSON", unit, at, n)
			}
			all, at = all+r.Output, r.Cursor
		}
		if all != text {
			t.Errorf("%q: pages give %d bytes; want %d", unit, len(all), len(text))
		}
	}
}
