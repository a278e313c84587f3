package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// sample makes a closed record of several segments and processes, with a call
// of every kind.
func sample(t *testing.T) string {
	t.Helper()
	l := testLog(t, func(o *Options) { o.SegmentBytes = minSegment })
	for i := range 12 {
		if i%4 == 3 { // another process goes on
			closeLog(t, l)
			var err error
			if l, err = Open(l.o); err != nil {
				t.Fatal(err)
			}
		}
		in := readCall(fmt.Sprintf(`{"path":"file%d"}`, i))
		in.Call = fmt.Sprint("c", i)
		h := begin(t, l, in)
		switch i % 3 {
		case 0:
			end(t, l, h, Outcome{Status: Completed})
		case 1:
			end(t, l, h, Outcome{Status: Waiting, Code: tool.ApprovalRequired})
			if err := l.Event(h, Event{Kind: Decided, Approval: &Approval{Verdict: "allow"}}); err != nil {
				t.Fatal(err)
			}
			end(t, l, h, Outcome{Status: Failed})
		}
	}
	closeLog(t, l)
	return l.o.Dir
}

// copyLog copies a record with its key.
func copyLog(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "evidence", "w")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "..", keyName))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(to, "..", keyName), key, 0o600), private(filepath.Dir(to))); err != nil {
		t.Fatal(err)
	}
	return to
}

// private takes the rights of others away, which copying does not.
func private(dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(p, 0o700)
		}
		return os.Chmod(p, 0o600)
	})
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t *testing.T, path string, p []byte) {
	t.Helper()
	if err := os.WriteFile(path, p, 0o600); err != nil {
		t.Fatal(err)
	}
}

func lines(p []byte) [][]byte {
	l := bytes.SplitAfter(p, []byte("\n"))
	if len(l[len(l)-1]) == 0 {
		l = l[:len(l)-1]
	}
	return l
}

// edits are what can be done to line i of a segment. They return nil where they
// do not apply.
var edits = map[string]func(ls [][]byte, i int) [][]byte{
	"flip the hash":        func(ls [][]byte, i int) [][]byte { return flip(ls, i, hashAt+5) },
	"flip the code":        func(ls [][]byte, i int) [][]byte { return flip(ls, i, macAt+5) },
	"flip a frame":         func(ls [][]byte, i int) [][]byte { return flip(ls, i, 3) },
	"flip the number":      func(ls [][]byte, i int) [][]byte { return flip(ls, i, bodyAt+len(`"seq":`)) },
	"flip the body":        func(ls [][]byte, i int) [][]byte { return flip(ls, i, (bodyAt+len(ls[i]))/2) },
	"flip the last member": func(ls [][]byte, i int) [][]byte { return flip(ls, i, len(ls[i])-4) },
	"flip the brace":       func(ls [][]byte, i int) [][]byte { return flip(ls, i, len(ls[i])-2) },
	"join with the next":   func(ls [][]byte, i int) [][]byte { ls[i] = ls[i][:len(ls[i])-1]; return ls },
	"longer": func(ls [][]byte, i int) [][]byte {
		ls[i] = slices.Insert(ls[i], len(ls[i])-2, []byte(`,"x":1`)...)
		return ls
	},
	"another member": func(ls [][]byte, i int) [][]byte {
		ls[i] = bytes.Replace(ls[i], []byte(`"w":`), []byte(`"v":1,"w":`), 1)
		return ls
	},
	"remove": func(ls [][]byte, i int) [][]byte { return slices.Delete(ls, i, i+1) },
	"repeat": func(ls [][]byte, i int) [][]byte { return slices.Insert(ls, i, ls[i]) },
	"swap with the next": func(ls [][]byte, i int) [][]byte {
		if i+1 == len(ls) {
			return nil
		}
		ls[i], ls[i+1] = ls[i+1], ls[i]
		return ls
	},
	"move to the end": func(ls [][]byte, i int) [][]byte {
		if i+1 == len(ls) {
			return nil
		}
		return append(slices.Delete(ls, i, i+1), ls[i])
	},
	"cut before": func(ls [][]byte, i int) [][]byte { return ls[:i] },
	"cut inside": func(ls [][]byte, i int) [][]byte { ls[i] = ls[i][:len(ls[i])/2]; return ls[:i+1] },
	"cut the line end": func(ls [][]byte, i int) [][]byte {
		if i+1 != len(ls) {
			return nil
		}
		ls[i] = ls[i][:len(ls[i])-1]
		return ls
	},
	"insert rubbish":    func(ls [][]byte, i int) [][]byte { return slices.Insert(ls, i, []byte("rubbish\n")) },
	"insert an empty":   func(ls [][]byte, i int) [][]byte { return slices.Insert(ls, i, []byte("\n")) },
	"append rubbish":    func(ls [][]byte, i int) [][]byte { return slices.Insert(ls, i+1, []byte("{}\n")) },
	"insert a forgery":  func(ls [][]byte, i int) [][]byte { return forge(ls, i, false) },
	"forge all after":   func(ls [][]byte, i int) [][]byte { return forge(ls, i, true) },
	"zeros in the line": func(ls [][]byte, i int) [][]byte { clear(ls[i][20 : len(ls[i])-1]); return ls },
}

func flip(ls [][]byte, i, at int) [][]byte {
	if ls[i][at] == '9' { // a number stays one
		ls[i][at] = '8'
	} else {
		ls[i][at] ^= 1
	}
	return ls
}

// forge puts a line that was made with another key after line i, in an unbroken
// chain; with all, the lines after it are chained to it again.
func forge(ls [][]byte, i int, all bool) [][]byte {
	l, ok := parseLine(bytes.TrimSuffix(ls[i], []byte("\n")))
	if !ok {
		panic("no line")
	}
	c := newChain([]byte("another key"))
	at := position{seq: l.seq, hash: l.hash}
	forged := c.appendLine(nil, &at, l.writer, time.Unix(0, 0), typeIntent, 0, []byte(`{"call":"forged","tool":"x"}`))
	out := slices.Insert(slices.Clone(ls), i+1, forged)
	if !all {
		return out
	}
	for j := i + 2; j < len(out); j++ {
		l, _ := parseLine(bytes.TrimSuffix(out[j], []byte("\n")))
		members := append([]byte("{"), l.body[bytes.Index(l.body, []byte(l.typ))+len(l.typ)+2:]...)
		if l.of > 0 {
			members = append([]byte("{"), members[bytes.Index(members, []byte(fmt.Sprint(`"of":`, l.of)))+len(fmt.Sprint(`"of":`, l.of)):]...)
		}
		members = bytes.Replace(members, []byte("{,"), []byte("{"), 1)
		out[j] = c.appendLine(nil, &at, l.writer, l.at(), l.typ, l.of, members)
	}
	return out
}

// TestTampering: every edit at every record is found, at that record or next to
// it. A reader that does not verify believes most of them.
func TestTampering(t *testing.T) {
	dir := sample(t)
	if r := verified(t, dir); r.Segments < 3 || len(r.Notes) != 0 {
		t.Fatalf("control: %+v", r)
	}
	numbers, err := listSegments(dir)
	if err != nil {
		t.Fatal(err)
	}
	work := copyLog(t, dir)
	believed, done := 0, 0
	for _, n := range numbers {
		path := filepath.Join(work, segmentName(n))
		was := read(t, path)
		for i := range lines(was) {
			if testing.Short() && i%6 > 1 {
				continue // the race detector is slow
			}
			for name, edit := range edits {
				now := edit(lines(bytes.Clone(was)), i)
				if now == nil {
					continue
				}
				done++
				write(t, path, bytes.Join(now, nil))
				r, err := Verify(work, VerifyOptions{})
				if err != nil {
					t.Fatalf("%s at line %d of segment %d: %v", name, i+1, n, err)
				}
				near := slices.ContainsFunc(r.Faults, func(f Fault) bool {
					return f.Segment == segmentName(n) && (f.Line == 0 || f.Line >= i && f.Line <= i+2) || f.Kind == Missing && f.Line <= 1
				})
				if r.OK || !near {
					t.Errorf("%s at line %d of segment %d: %s", name, i+1, n, r.Summary())
				}
				if readable(work) {
					believed++
				}
			}
		}
		write(t, path, was)
	}
	verified(t, work)
	if believed*2 < done {
		t.Errorf("control: a plain reader takes %d of %d edited records; the edits are too coarse to prove anything", believed, done)
	}
	t.Logf("%d edits", done)
}

// readable reports whether a plain reader goes through.
func readable(dir string) bool {
	r, err := OpenReader(dir)
	if err != nil {
		return false
	}
	for _, err := range r.Calls(time.Time{}) {
		if err != nil {
			return false
		}
	}
	return true
}

// TestTamperingWithFiles does the same to whole files.
func TestTamperingWithFiles(t *testing.T) {
	dir := sample(t)
	seg := func(d string, n uint64) string { return filepath.Join(d, segmentName(n)) }
	numbers, _ := listSegments(dir)
	last := numbers[len(numbers)-1]
	other := sample(t)
	for name, c := range map[string]struct {
		tamper func(d string) error
		want   string
	}{
		"remove the first":            {func(d string) error { return os.Remove(seg(d, 1)) }, "records 1 to"},
		"remove the second":           {func(d string) error { return os.Remove(seg(d, 2)) }, "missing"},
		"remove the last":             {func(d string) error { return os.Remove(seg(d, last)) }, "missing"},
		"remove all":                  {func(d string) error { return removeAll(d, numbers) }, "missing"},
		"empty the last":              {func(d string) error { return os.Truncate(seg(d, last), 0) }, "missing"},
		"empty the second":            {func(d string) error { return os.Truncate(seg(d, 2), 0) }, "missing"},
		"exchange two":                {func(d string) error { return exchange(seg(d, 2), seg(d, 3)) }, "says that it is segment"},
		"give the last another name":  {func(d string) error { return os.Rename(seg(d, last), seg(d, last+1)) }, "says that it is segment"},
		"a copy after the last":       {func(d string) error { return copyFile(seg(d, 2), seg(d, last+1)) }, "begins with record"},
		"segment of another record":   {func(d string) error { return copyFile(seg(other, 2), seg(d, 2)) }, "vouch"},
		"head removed":                {func(d string) error { return os.Remove(filepath.Join(d, headName)) }, "head is missing"},
		"head emptied":                {func(d string) error { return os.Truncate(filepath.Join(d, headName), 0) }, "head is missing"},
		"head of another record":      {func(d string) error { return copyFile(filepath.Join(other, headName), filepath.Join(d, headName)) }, "not made with this key"},
		"newer half of the head gone": {func(d string) error { return breakNewer(filepath.Join(d, headName)) }, "half of the head"},
		"half gone and a line cut": {func(d string) error {
			return errors.Join(breakNewer(filepath.Join(d, headName)), cutLine(seg(d, last)))
		}, "half of the head"},
		"key removed": {func(d string) error { return os.Remove(filepath.Join(d, "..", keyName)) }, "the key is gone"},
		"another key": {func(d string) error {
			return copyFile(filepath.Join(other, "..", keyName), filepath.Join(d, "..", keyName))
		}, "not made with this key"},
		"key open to all": {func(d string) error { return os.Chmod(filepath.Join(d, "..", keyName), 0o644) }, "open to others"},
		"a link as the key": {func(d string) error {
			k := filepath.Join(d, "..", keyName)
			return errors.Join(os.Rename(k, k+"2"), os.Symlink(k+"2", k))
		}, "no regular file"},
	} {
		d := copyLog(t, dir)
		verified(t, d)
		if err := c.tamper(d); err != nil {
			t.Fatal(name, err)
		}
		r, err := Verify(d, VerifyOptions{})
		if err != nil || r.OK || !strings.Contains(r.Summary(), c.want) {
			t.Errorf("%s: %v, want %q in\n%s", name, err, c.want, r.Summary())
		}
	}
}

func removeAll(dir string, numbers []uint64) (err error) {
	for _, n := range numbers {
		err = errors.Join(err, os.Remove(filepath.Join(dir, segmentName(n))))
	}
	return err
}

func exchange(a, b string) error {
	return errors.Join(os.Rename(a, a+"x"), os.Rename(b, a), os.Rename(a+"x", b))
}

func copyFile(from, to string) error {
	p, err := os.ReadFile(from)
	return errors.Join(err, os.WriteFile(to, p, 0o600))
}

func breakNewer(path string) error {
	p, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	a, _ := decodeSlot(p[:slotSize], nil)
	b, _ := decodeSlot(p[slotSize:], nil)
	if a.count > b.count {
		p[100]++
	} else {
		p[slotSize+100]++
	}
	return os.WriteFile(path, p, 0o600)
}

func cutLine(path string) error {
	p, err := os.ReadFile(path)
	ls := lines(p)
	return errors.Join(err, os.WriteFile(path, bytes.Join(ls[:len(ls)-1], nil), 0o600))
}

// TestTamperingStays: what was tampered with shows for ever, however much is
// recorded afterwards.
func TestTamperingStays(t *testing.T) {
	dir := sample(t)
	numbers, _ := listSegments(dir)
	last := numbers[len(numbers)-1]
	for name, tamper := range map[string]func(d string) error{
		"last line cut":      func(d string) error { return cutLine(filepath.Join(d, segmentName(last))) },
		"last segment gone":  func(d string) error { return os.Remove(filepath.Join(d, segmentName(last))) },
		"last line edited":   func(d string) error { return editLast(filepath.Join(d, segmentName(last))) },
		"first segment gone": func(d string) error { return os.Remove(filepath.Join(d, segmentName(1))) },
		"a forgery appended": func(d string) error { return appendForgery(filepath.Join(d, segmentName(last))) },
		"a line repeated":    func(d string) error { return repeatLast(filepath.Join(d, segmentName(last))) },
		"head removed":       func(d string) error { return os.Remove(filepath.Join(d, headName)) },
		"head and tail gone": func(d string) error {
			return errors.Join(os.Remove(filepath.Join(d, headName)), cutLine(filepath.Join(d, segmentName(last))))
		},
		"all segments gone": func(d string) error { return removeAll(d, numbers) },
		"everything but head": func(d string) error {
			return errors.Join(removeAll(d, numbers), os.RemoveAll(filepath.Join(d, writersName)))
		},
	} {
		d := copyLog(t, dir)
		if err := tamper(d); err != nil {
			t.Fatal(name, err)
		}
		for range 2 {
			l, err := Open(Options{Dir: d})
			if err != nil {
				t.Fatal(err)
			}
			h := begin(t, l, readCall(`{}`))
			end(t, l, h, Outcome{Status: Completed})
			closeLog(t, l)
			r, err := Verify(d, VerifyOptions{})
			if err != nil || r.OK {
				t.Errorf("%s: %v\n%s", name, err, r.Summary())
			}
			reader, err := OpenReader(d)
			if err != nil {
				t.Fatal(err)
			}
			if c, err := reader.Call(h); err != nil || c.Status != Completed {
				t.Errorf("%s: the call after it: %+v, %v", name, c, err)
			}
		}
	}
}

func editLast(path string) error {
	p, err := os.ReadFile(path)
	p[len(p)-10] ^= 1
	return errors.Join(err, os.WriteFile(path, p, 0o600))
}

func appendForgery(path string) error {
	p, err := os.ReadFile(path)
	ls := lines(p)
	return errors.Join(err, os.WriteFile(path, bytes.Join(forge(ls, len(ls)-1, false), nil), 0o600))
}

func repeatLast(path string) error {
	p, err := os.ReadFile(path)
	ls := lines(p)
	return errors.Join(err, os.WriteFile(path, bytes.Join(append(ls, ls[len(ls)-1]), nil), 0o600))
}

// TestLostKey: nothing is recorded without the key that began the record, and
// nothing with another one.
func TestLostKey(t *testing.T) {
	for name, tamper := range map[string]func(d string) error{
		"gone": func(d string) error { return os.Remove(filepath.Join(d, "..", keyName)) },
		"another": func(d string) error {
			return os.WriteFile(filepath.Join(d, "..", keyName), bytes.Repeat([]byte("k"), 32), 0o600)
		},
		"damaged": func(d string) error { return os.WriteFile(filepath.Join(d, "..", keyName), []byte("k"), 0o600) },
		"open":    func(d string) error { return os.Chmod(filepath.Join(d, "..", keyName), 0o640) },
		"folder":  func(d string) error { return os.Chmod(d, 0o755) },
	} {
		d := sample(t)
		if err := tamper(d); err != nil {
			t.Fatal(err)
		}
		l, err := Open(Options{Dir: d})
		if err != nil {
			t.Fatal(err)
		}
		if h, err := l.Begin(readCall(`{}`)); err == nil {
			t.Errorf("%s: Begin = %s", name, h)
		}
		closeLog(t, l)
	}
}

func TestAnchors(t *testing.T) {
	l := testLog(t, func(o *Options) { o.SegmentBytes = minSegment })
	call := func() { end(t, l, begin(t, l, readCall(`{}`)), Outcome{Status: Completed}) }
	for range 20 {
		call()
	}
	file := filepath.Join(t.TempDir(), "anchors")
	anchor := func() {
		a, err := l.Anchor()
		if err != nil {
			t.Fatal(err)
		}
		if err := a.AppendTo(file); err != nil {
			t.Fatal(err)
		}
	}
	anchor()
	closeLog(t, l)
	old := copyLog(t, l.o.Dir)
	l, _ = Open(l.o)
	call()
	anchor()
	call()
	closeLog(t, l)

	anchors, err := ReadAnchors(bytes.NewReader(read(t, file)))
	if err != nil || len(anchors) != 2 {
		t.Fatal(anchors, err)
	}
	check := func(name, dir string, anchors []Anchor, want string) {
		t.Helper()
		r, err := Verify(dir, VerifyOptions{Anchors: anchors})
		if err != nil || r.OK != (want == "") || !strings.Contains(r.Summary(), want) {
			t.Errorf("%s: %v; want %q in\n%s", name, err, want, r.Summary())
		}
	}
	check("good", l.o.Dir, anchors, "")
	verified(t, old) // control: what was put back verifies
	check("put back", old, anchors, "was anchored on")
	check("put back, older anchor", old, anchors[:1], "")
	wentOn := copyLog(t, old)
	for range 4 {
		reopened(t, wentOn)
	}
	verified(t, wentOn)
	check("put back, and went on", wentOn, anchors, "is not the one that was anchored on")
	check("another record", sample(t), anchors, "none of the anchors")

	// Written anew with the same key and name: only the anchor tells.
	anew := copyLog(t, old)
	for _, e := range []string{headName, writersName} {
		if err := os.RemoveAll(filepath.Join(anew, e)); err != nil {
			t.Fatal(err)
		}
	}
	numbers, _ := listSegments(anew)
	if err := removeAll(anew, numbers); err != nil {
		t.Fatal(err)
	}
	l2, _ := Open(Options{Dir: anew})
	end(t, l2, begin(t, l2, readCall(`{}`)), Outcome{Status: Completed})
	closeLog(t, l2)
	verified(t, anew)
	check("anew", anew, anchors, "none of the anchors")

	for name, text := range map[string]string{
		"empty": "", "cut": string(read(t, file)[:50]), "edited": strings.Replace(string(read(t, file)), `"seq":`, `"seq":1`, 1), "rubbish": "x\n",
		"unfinished": strings.TrimSuffix(string(read(t, file)), "\"}\n"),
	} {
		if a, err := ReadAnchors(strings.NewReader(text)); err == nil {
			t.Errorf("ReadAnchors of %s = %v", name, a)
		}
	}
	if a, err := ReadAnchors(strings.NewReader(strings.TrimSuffix(string(read(t, file)), "\n"))); err != nil || len(a) != 2 {
		t.Errorf("without the last line end: %v, %v", a, err)
	}
}

func TestPrune(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := testLog(t, func(o *Options) { o.SegmentBytes = minSegment })
	l.now = func() time.Time { return now }
	waiting := begin(t, l, readCall(`{}`))
	for range 60 {
		now = now.Add(time.Hour)
		end(t, l, begin(t, l, readCall(`{}`)), Outcome{Status: Completed})
	}
	a, err := l.Anchor()
	if err != nil {
		t.Fatal(err)
	}
	before := verified(t, l.o.Dir)
	if p, err := l.Prune(Retention{}); err != nil || p.Segments != 0 {
		t.Errorf("Prune of nothing = %+v, %v", p, err)
	}
	p, err := l.Prune(Retention{MaxAge: 30 * time.Hour})
	if err != nil || p.Segments == 0 || p.Through == 0 {
		t.Fatalf("Prune = %+v, %v", p, err)
	}
	after := verified(t, l.o.Dir)
	if after.Pruned != p.Through || after.Segments != before.Segments-p.Segments || after.First != p.Through+1 {
		t.Errorf("after pruning %+v: %+v", p, after)
	}
	// The call whose intent is gone can still end.
	end(t, l, waiting, Outcome{Status: Completed})
	verified(t, l.o.Dir)
	p, err = l.Prune(Retention{MaxBytes: 2 * minSegment})
	if err != nil || p.Segments == 0 {
		t.Fatalf("Prune = %+v, %v", p, err)
	}
	closeLog(t, l)
	r, err := Verify(l.o.Dir, VerifyOptions{Anchors: []Anchor{a}})
	if err != nil || !r.OK {
		t.Errorf("%v\n%s", err, r.Summary())
	}

	// What nobody pruned is missing, also when the line says so but the signature
	// does not.
	numbers, _ := listSegments(l.o.Dir)
	d := copyLog(t, l.o.Dir)
	if err := os.Remove(filepath.Join(d, segmentName(numbers[0]))); err != nil {
		t.Fatal(err)
	}
	if r, _ := Verify(d, VerifyOptions{}); r.OK {
		t.Error("one more segment was removed, and nothing shows")
	}
}

// TestForgedPrune: somebody who can append lines that the key vouches for (he
// cannot) could still not explain a removal.
func TestForgedPrune(t *testing.T) {
	dir := sample(t)
	second, _, err := lastLine(filepath.Join(dir, segmentName(1)))
	if err != nil {
		t.Fatal(err)
	}
	l, _ := Open(Options{Dir: dir})
	h := begin(t, l, readCall(`{}`))
	l.mu.Lock()
	_, err = l.w.append(typePruned, 0, encode(prunedMembers{
		Through: second.seq, Hash: hex.EncodeToString(second.hash[:]), Sig: base64.RawURLEncoding.EncodeToString(make([]byte, 64)),
	}))
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	end(t, l, h, Outcome{Status: Completed})
	closeLog(t, l)
	verified(t, dir)
	if err := os.Remove(filepath.Join(dir, segmentName(1))); err != nil {
		t.Fatal(err)
	}
	if r, _ := Verify(dir, VerifyOptions{}); r.OK {
		t.Error("a removal is explained by a line without a signature")
	}
}

func TestRetainWhileWriting(t *testing.T) {
	l := testLog(t, func(o *Options) { o.SegmentBytes, o.Retain = minSegment, Retention{MaxBytes: 4 * minSegment} })
	for range 300 {
		end(t, l, begin(t, l, readCall(`{}`)), Outcome{Status: Completed})
	}
	closeLog(t, l)
	r := verified(t, l.o.Dir)
	if r.Segments > 6 || r.Pruned == 0 {
		t.Errorf("%+v", r)
	}
}
