package evidence

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FuzzSegment puts any bytes in the place of a segment. Nothing panics, nothing
// but the true bytes verifies (with the beginning of a line behind them, which a
// killed process may leave), the next writer goes on, and what did not verify
// does not verify afterwards.
func FuzzSegment(f *testing.F) {
	files := map[string][]byte{}
	for _, name := range []string{headName, segmentName(1), "../" + keyName} {
		p, err := os.ReadFile(filepath.Join("testdata", "record", "w", name))
		if err != nil {
			f.Fatal(err)
		}
		files[name] = p
	}
	good := files[segmentName(1)]
	f.Add(good, false)
	f.Add(append(bytes.Clone(good), `{"hash":"00`...), false)
	f.Add(append(bytes.Clone(good), `{"hash":"00`...), true)
	f.Add(good[:len(good)/2], true)
	f.Add(good[:len(good)-1], false)
	f.Add(bytes.Join(forge(lines(bytes.Clone(good)), 2, true), nil), false)
	f.Add([]byte(nil), false)
	f.Add([]byte("\n\n{}\n"), true)
	dir := filepath.Join(f.TempDir(), "evidence", "w")
	f.Fuzz(func(t *testing.T, p []byte, second bool) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(filepath.Dir(dir), 0o700)); err != nil {
			t.Fatal(err)
		}
		for name, p := range files {
			write(t, filepath.Join(dir, name), p)
		}
		genuine := bytes.HasPrefix(p, good)
		name := segmentName(1)
		if second { // as a segment after the last
			name, genuine = segmentName(2), true
		}
		write(t, filepath.Join(dir, name), p)
		r, err := Verify(dir, VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if r.OK && !genuine {
			t.Fatalf("verifies: %q", p)
		}
		read, err := OpenReader(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range read.Calls(time.Time{}) {
			if err != nil {
				break // a line that is JSON at its beginning only
			}
		}
		l, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		h := begin(t, l, readCall(`{}`))
		end(t, l, h, Outcome{Status: Completed})
		closeLog(t, l)
		after, err := Verify(dir, VerifyOptions{})
		if err != nil || after.OK != r.OK {
			t.Fatalf("before:\n%s\nafter: %v\n%s\n%q", r.Summary(), err, after.Summary(), p)
		}
	})
}

// TestOldRecord: the record in testdata was written once with this format. It
// verifies for ever, and is added to.
func TestOldRecord(t *testing.T) {
	old := filepath.Join("testdata", "record", "w")
	if *rewrite {
		if err := os.RemoveAll(filepath.Dir(old)); err != nil {
			t.Fatal(err)
		}
		l, err := Open(Options{Dir: old, Workspace: "/workspace", Program: "wasmtools"})
		if err != nil {
			t.Fatal(err)
		}
		l.boot = func() [16]byte { return [16]byte{1} }
		end(t, l, begin(t, l, readCall(`{"path":"a"}`)), Outcome{Status: Completed})
		end(t, l, begin(t, l, readCall(`{"path":"b"}`)), Outcome{Status: Waiting})
		closeLog(t, l)
		for _, name := range []string{lockName, writersName} {
			if err := os.RemoveAll(filepath.Join(old, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := copyLog(t, old)
	if r := verified(t, dir); r.Calls != 2 || r.Waiting != 1 || len(r.Notes) != 0 {
		t.Errorf("%s", r.Summary())
	}
	reopened(t, dir)
	if r := verified(t, dir); r.Calls != 3 || len(r.Notes) != 0 {
		t.Errorf("%s", r.Summary())
	}
}

var rewrite = flag.Bool("rewrite-record", false, "write testdata/record anew")

func FuzzLine(f *testing.F) {
	c := newChain([]byte("key"))
	at := position{}
	for _, typ := range []string{typeLog, typeIntent, typeEvent, typeOutcome, typeClose} {
		of := uint64(0)
		if typ == typeEvent || typ == typeOutcome {
			of = 7
		}
		f.Add(bytes.TrimSuffix(c.appendLine(nil, &at, 3, h2026, typ, of, []byte(`{"a":1}`)), []byte("\n")))
		f.Add(bytes.TrimSuffix(c.appendLine(nil, &at, 3, h2026, typ, of, []byte(`{}`)), []byte("\n")))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		l, ok := parseLine(p)
		if !ok {
			return
		}
		_ = l.at()
		if !bytes.Equal(l.raw, p) || l.seq == 0 || l.writer == 0 {
			t.Fatalf("parseLine(%q) = %+v", p, l)
		}
	})
}

// TestParseLineTakesWhatIsWritten, and nothing that differs in one byte of the
// fixed part from what can be written.
func TestParseLineTakesWhatIsWritten(t *testing.T) {
	c := newChain([]byte("key"))
	at := position{seq: 99}
	p := bytes.TrimSuffix(c.appendLine(nil, &at, 3, h2026, typeOutcome, 42, []byte(`{"status":"completed"}`)), []byte("\n"))
	l, ok := parseLine(p)
	if !ok || l.seq != 100 || l.writer != 3 || l.of != 42 || l.typ != typeOutcome || !l.at().Equal(h2026) || l.hash != at.hash || !c.follows(&sum{}, &l) {
		t.Fatalf("parseLine = %+v, %v", l, ok)
	}
	fixed := bytes.Index(p, []byte(`,"status"`))
	for i := range fixed {
		for _, b := range []byte{0, ' ', '"', 'Z', '{', '-'} {
			if p[i] == b {
				continue
			}
			q := bytes.Clone(p)
			q[i] = b
			l, ok := parseLine(q)
			if ok && c.follows(&sum{}, &l) {
				t.Errorf("with %q at %d: %+v", b, i, l)
			}
		}
	}
}
