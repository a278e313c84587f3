package artifact_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/tool"
)

func put(t *testing.T, s *artifact.Store, session, content string) tool.ArtifactRef {
	t.Helper()
	ref, err := s.Put(artifact.Scope{Session: session}, tool.ArtifactInfo{Title: "out"}, strings.NewReader(content))
	if err != nil {
		t.Fatalf("Put = %v", err)
	}
	return ref
}

func read(s *artifact.Store, session, handle string) (string, error) {
	f, err := s.Open(session, handle)
	if err != nil {
		return "", err
	}
	defer f.Close()
	p, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	return string(p), err
}

func open(t *testing.T, o artifact.Options) (*artifact.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a")
	s := artifact.Open(dir, o)
	t.Cleanup(func() { s.Close() })
	return s, dir
}

func TestPutAndOpen(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	for _, c := range []struct {
		content        string
		lines, longest int64
	}{
		{"", 0, 0}, {"\n", 1, 0}, {"one", 1, 3}, {"one\n", 1, 3}, {"one\ntwo", 2, 3}, {"é日\n", 1, 2},
		{strings.Repeat("x", 3000) + "\n\n", 2, 3000},
	} {
		ref := put(t, s, "s", c.content)
		if ref.Bytes != int64(len(c.content)) || ref.Lines != c.lines || ref.LongestLine != c.longest || ref.Dropped != 0 || ref.Digest != tool.DigestOf([]byte(c.content)) {
			t.Errorf("Put(%.10q) = %+v; want %d lines, longest %d", c.content, ref, c.lines, c.longest)
		}
		if !artifact.ValidHandle(ref.Handle) {
			t.Errorf("the handle is %q", ref.Handle)
		}
		if got, err := read(s, "s", ref.Handle); err != nil || got != c.content {
			t.Errorf("read back %.10q, %v; want %.10q", got, err, c.content)
		}
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "objects"): 0o700, filepath.Join(dir, "handles"): 0o700} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}
	list, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	for _, f := range list {
		if fi, err := os.Stat(f); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, fi.Mode(), err)
		}
	}
}

// TestHandlesBelongToASession: a handle opens for nobody else, and the answer
// does not tell whether it exists. Control: its own session opens it.
func TestHandlesBelongToASession(t *testing.T) {
	s, _ := open(t, artifact.Options{})
	ref := put(t, s, "mine", "text")
	_, other := s.Open("other", ref.Handle)
	_, absent := s.Open("other", strings.Repeat("a", 26))
	if tool.CodeOf(other) != tool.NotFound || other.Error() != absent.Error() {
		t.Errorf("another session's handle: %v; one that does not exist: %v", other, absent)
	}
	for _, h := range []string{"", "../handles/" + ref.Handle, strings.ToUpper(ref.Handle), ref.Handle + "/", ".." + strings.Repeat("/", 24)} {
		if _, err := s.Open("mine", h); tool.CodeOf(err) != tool.NotFound {
			t.Errorf("Open(%q) = %v", h, err)
		}
	}
	if got, err := read(s, "mine", ref.Handle); err != nil || got != "text" {
		t.Errorf("its own session reads %q, %v", got, err)
	}
}

func TestEqualContentIsStoredOnce(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	a, b := put(t, s, "s", "same"), put(t, s, "s", "same")
	if a.Handle == b.Handle {
		t.Error("two artifacts have one handle")
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "objects", "*")); len(list) != 1 {
		t.Errorf("equal content is stored as %q", list)
	}
}

// TestTamperedContent: what is not what was stored is lost, never shown.
func TestTamperedContent(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, attack := range map[string]func(object string) error{
		"bytes":   func(o string) error { return os.WriteFile(o, []byte("TEXT"), 0o600) },
		"shorter": func(o string) error { return os.Truncate(o, 1) },
		"longer":  func(o string) error { return os.WriteFile(o, []byte("text and more"), 0o600) },
		"removed": os.Remove,
		"a link out": func(o string) error {
			return errors.Join(os.Remove(o), os.Symlink(secret, o))
		},
	} {
		for _, fresh := range []bool{true, false} {
			s, dir := open(t, artifact.Options{})
			ref := put(t, s, "s", "text")
			if !fresh { // it was read and verified before
				if _, err := read(s, "s", ref.Handle); err != nil {
					t.Fatal(err)
				}
			}
			object := filepath.Join(dir, "objects", strings.TrimPrefix(string(ref.Digest), "sha256:")+".txt")
			if err := attack(object); err != nil {
				t.Fatal(err)
			}
			_ = os.Chtimes(object, time.Time{}, time.Now().Add(time.Hour)) // whatever the clock's grain is
			if got, err := read(s, "s", ref.Handle); tool.CodeOf(err) != tool.Lost {
				t.Errorf("%s, read before %v: got %q, %v", name, !fresh, got, err)
			}
		}
	}
}

// TestLimitOfOneArtifact: what is over the limit is counted, and reading goes
// on, so that whoever writes is not stopped.
func TestLimitOfOneArtifact(t *testing.T) {
	s, _ := open(t, artifact.Options{MaxBytes: 10})
	for _, n := range []int{9, 10, 11, 1000} {
		ref, err := s.Put(artifact.Scope{Session: "s"}, tool.ArtifactInfo{}, iotest.OneByteReader(strings.NewReader(strings.Repeat("x", n))))
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(min(n, 10)); ref.Bytes != want || ref.Dropped != int64(n)-want {
			t.Errorf("of %d bytes %d are stored and %d dropped", n, ref.Bytes, ref.Dropped)
		}
	}
}

func TestSourceThatFails(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	boom := errors.New("boom")
	if _, err := s.Put(artifact.Scope{}, tool.ArtifactInfo{}, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(boom))); !errors.Is(err, boom) {
		t.Errorf("Put = %v", err)
	}
	if _, err := s.Put(artifact.Scope{}, tool.ArtifactInfo{Sensitive: true}, strings.NewReader("key")); tool.CodeOf(err) != tool.NotAvailable {
		t.Errorf("a sensitive result: %v", err)
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "*", ".*")); len(list) != 0 {
		t.Errorf("left behind: %q", list)
	}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("List = %v, %v", list, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := artifact.Open(file, artifact.Options{}).Put(artifact.Scope{}, tool.ArtifactInfo{}, strings.NewReader("x")); tool.CodeOf(err) != tool.NotAvailable {
		t.Errorf("a store that cannot be made: %v", err)
	}
}

// TestPrune: by age, then by size with the oldest first; a handle says why its
// content is gone, and one that shares it with another keeps it.
func TestPrune(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	first, second := put(t, s, "s", strings.Repeat("a", 100)), put(t, s, "s", strings.Repeat("b", 100))
	third := put(t, s, "s", strings.Repeat("a", 100)) // the first's content
	later := time.Now().Add(time.Hour)
	removed, err := s.Prune(artifact.Retention{MaxBytes: 150}, later)
	if err != nil || len(removed) != 2 || removed[0].Handle != first.Handle || removed[1].Handle != second.Handle {
		t.Fatalf("Prune = %+v, %v", removed, err)
	}
	for _, h := range []string{first.Handle, second.Handle} {
		if _, err := read(s, "s", h); tool.CodeOf(err) != tool.Lost || !strings.Contains(err.Error(), "made room") {
			t.Errorf("a removed artifact: %v", err)
		}
	}
	if got, err := read(s, "s", third.Handle); err != nil || len(got) != 100 {
		t.Errorf("the shared content: %v", err)
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "objects", "*")); len(list) != 1 {
		t.Errorf("%d contents are left; want 1", len(list))
	}
	if _, err := s.Prune(artifact.Retention{MaxAge: time.Minute}, later); err != nil {
		t.Fatal(err)
	}
	if _, err := read(s, "s", third.Handle); tool.CodeOf(err) != tool.Lost || !strings.Contains(err.Error(), "older") {
		t.Errorf("an old artifact: %v", err)
	}
	if _, err := s.Prune(artifact.Retention{MaxAge: time.Minute}, later.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(list) != 0 {
		t.Errorf("left after everything is old: %q", list)
	}
}

func TestOldestMakeRoom(t *testing.T) {
	s, _ := open(t, artifact.Options{MaxBytes: 100, MaxStored: 250})
	var refs []tool.ArtifactRef
	for i := range 4 {
		refs = append(refs, put(t, s, "s", strings.Repeat(fmt.Sprint(i), 100)))
	}
	for i, ref := range refs {
		_, err := read(s, "s", ref.Handle)
		if want := i >= 2; (err == nil) != want {
			t.Errorf("artifact %d: %v; want it kept: %v", i, err, want)
		}
	}
}

// TestRoomOnDisk: the bound holds for the files too, also where one artifact is
// TestOldArtifactsGo: what is older than a store keeps goes when something is
// stored, and says why. Control: a store that keeps for any time.
func TestOldArtifactsGo(t *testing.T) {
	for age, want := range map[time.Duration]tool.Code{0: "", 48 * time.Hour: "", 24 * time.Hour: tool.Lost} {
		s, dir := open(t, artifact.Options{})
		old := put(t, s, "s", "old")
		info, err := s.Find("s", old.Handle)
		if err != nil {
			t.Fatal(err)
		}
		info.Created = info.Created.Add(-25 * time.Hour)
		p, err := json.Marshal(info)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "handles", old.Handle), p, 0o600); err != nil {
			t.Fatal(err)
		}
		next := artifact.Open(dir, artifact.Options{MaxAge: age})
		defer next.Close()
		recent := put(t, next, "s", "new")
		if _, err := read(next, "s", old.Handle); tool.CodeOf(err) != want || want != "" && !strings.Contains(err.Error(), "older than 24h") {
			t.Errorf("kept for %v: the old one says %v; want %q", age, err, want)
		}
		if got, err := read(next, "s", recent.Handle); err != nil || got != "new" {
			t.Errorf("kept for %v: the new one is %q, %v", age, got, err)
		}
	}
}

// as large as everything may be.
func TestRoomOnDisk(t *testing.T) {
	for _, o := range []artifact.Options{{MaxBytes: 1 << 16, MaxStored: 1 << 16}, {MaxBytes: 1 << 16, MaxStored: 3 << 16}, {MaxBytes: 100, MaxStored: 250}} {
		s, dir := open(t, o)
		var last tool.ArtifactRef
		for i := range 30 {
			last = put(t, s, "s", strings.Repeat(string(rune('a'+i)), 2*int(o.MaxBytes)))
		}
		list, _ := filepath.Glob(filepath.Join(dir, "objects", "*"))
		var n int64
		for _, f := range list {
			fi, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			n += fi.Size()
		}
		if n > o.MaxStored || n < o.MaxBytes {
			t.Errorf("%d bytes stand on the disk of a store of %d", n, o.MaxStored)
		}
		if _, err := read(s, "s", last.Handle); err != nil {
			t.Errorf("the newest artifact: %v", err)
		}
	}
}

// TestStoreIsConcurrent: goroutines of two stores on one folder store, read and
// prune at once; whatever a handle opens is what was stored under it.
func TestStoreIsConcurrent(t *testing.T) {
	a, dir := open(t, artifact.Options{MaxStored: 5000})
	b := artifact.Open(dir, artifact.Options{MaxStored: 5000})
	defer b.Close()
	var wg sync.WaitGroup
	for g := range 8 {
		s := []*artifact.Store{a, b}[g%2]
		wg.Go(func() {
			for i := range 40 {
				content := strings.Repeat(fmt.Sprint(i%7), 50+i)
				ref, err := s.Put(artifact.Scope{Session: "s"}, tool.ArtifactInfo{}, strings.NewReader(content))
				if err != nil {
					t.Errorf("Put = %v", err)
					return
				}
				got, err := read(b, "s", ref.Handle)
				if err == nil && got != content || err != nil && tool.CodeOf(err) != tool.Lost {
					t.Errorf("read %q, %v; want %q", got, err, content)
				}
				if i%10 == 0 {
					if _, err := s.Prune(artifact.Retention{MaxBytes: 4000}, time.Now()); err != nil {
						t.Errorf("Prune = %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// FuzzHandleFile: whatever stands in the file of a handle, opening it neither
// panics nor gives bytes that were not stored under it.
func FuzzHandleFile(f *testing.F) {
	handle := strings.Repeat("a", 26)
	f.Add([]byte(`{"handle":"` + handle + `","session":"s","digest":"` + string(tool.DigestOf([]byte("text"))) + `","bytes":4}`))
	f.Add([]byte(`{"handle":"` + handle + `","session":"s","digest":"sha256:../../x","bytes":4}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, p []byte) {
		s, dir := open(t, artifact.Options{})
		put(t, s, "s", "text")
		if err := os.WriteFile(filepath.Join(dir, "handles", handle), p, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := read(s, "s", handle)
		if err == nil && got != "text" {
			t.Errorf("a handle file %q opened %q", p, got)
		}
	})
}

func BenchmarkPut(b *testing.B) {
	s := artifact.Open(b.TempDir(), artifact.Options{})
	defer s.Close()
	content := bytes.Repeat([]byte("a line of some output\n"), 3000)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		if _, err := s.Put(artifact.Scope{Session: "s"}, tool.ArtifactInfo{}, bytes.NewReader(content)); err != nil {
			b.Fatal(err)
		}
	}
}
