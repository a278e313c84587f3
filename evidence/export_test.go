package evidence

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func export(t *testing.T, dir string) []byte {
	t.Helper()
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if n, err := r.Export(&b, nil); err != nil || n != bytes.Count(b.Bytes(), []byte("\n")) {
		t.Fatalf("Export = %d, %v", n, err)
	}
	return b.Bytes()
}

// TestExport: what was exported can be checked with the public key alone, also
// after crashes and pruning, and every edit but a cut at the end shows.
func TestExport(t *testing.T) {
	dir := sample(t)
	numbers, _ := listSegments(dir)
	last := numbers[len(numbers)-1]
	// With what crashes leave.
	header := lines(read(t, filepath.Join(dir, segmentName(last))))[0]
	write(t, filepath.Join(dir, segmentName(last+1)), header[:50])
	reopened(t, dir)
	torn := filepath.Join(dir, segmentName(last))
	write(t, torn, append(read(t, torn), `{"hash":"`...))
	for range 20 {
		reopened(t, dir)
	}
	whole := verified(t, dir)
	if len(whole.Notes) != 2 {
		t.Fatal(whole.Summary())
	}
	text := export(t, dir)
	good, err := VerifyExport(bytes.NewReader(text), whole.Key, nil)
	if err != nil || !good.OK || good.Records != whole.Records || good.Calls != whole.Calls || good.Signed != whole.Signed || good.Interrupted != whole.Interrupted || good.Log != whole.Log {
		t.Fatalf("VerifyExport: %v\n%s\n%s", err, good.Summary(), whole.Summary())
	}
	if r, err := VerifyExport(bytes.NewReader(text), "", nil); err != nil || !r.OK || r.Key != whole.Key {
		t.Errorf("without a key: %v\n%s", err, r.Summary())
	}
	if r, _ := VerifyExport(bytes.NewReader(text), verified(t, sample(t)).Key, nil); r.OK {
		t.Error("verifies with another key")
	}
	ls := lines(text)
	done := 0
	for i := range ls {
		if (i%9 != 0 || testing.Short()) && i+3 < len(ls) {
			continue
		}
		for name, edit := range edits {
			if strings.Contains(name, "code") || (strings.HasPrefix(name, "cut") || name == "remove") && i+1 == len(ls) {
				continue // the code is for who has the key; a cut at the end is for an anchor
			}
			now := edit(lines(bytes.Clone(text)), i)
			if now == nil {
				continue
			}
			r, err := VerifyExport(bytes.NewReader(bytes.Join(now, nil)), whole.Key, nil)
			if err != nil {
				t.Fatal(err)
			}
			unsigned := strings.Contains(name, "cut before") || strings.HasPrefix(name, "insert a forgery") && i+1 == len(ls) || strings.HasPrefix(name, "forge all") && i+1 >= len(ls)
			if r.OK && (!unsigned || r.Signed > uint64(i+1)) {
				t.Errorf("%s at line %d: %s", name, i+1, r.Summary())
			}
			done++
		}
	}
	t.Logf("%d edits", done)

	l, _ := Open(Options{Dir: dir, SegmentBytes: minSegment})
	if p, err := l.Prune(Retention{MaxBytes: 2 * minSegment}); err != nil || p.Segments == 0 {
		t.Fatal(p, err)
	}
	a, err := l.Anchor()
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	if r, err := VerifyExport(bytes.NewReader(export(t, dir)), whole.Key, []Anchor{a}); err != nil || !r.OK || r.Pruned == 0 || r.Anchored != a.Seq {
		t.Errorf("pruned: %v\n%s", err, r.Summary())
	}
	if r, _ := VerifyExport(bytes.NewReader(text[len(lines(text)[0]):]), whole.Key, []Anchor{a}); r.OK {
		t.Error("verifies without its beginning")
	}
	if r, _ := VerifyExport(strings.NewReader(""), whole.Key, nil); r.OK {
		t.Error("nothing verifies")
	}
}
