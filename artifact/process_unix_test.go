//go:build unix

package artifact_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/tool"
)

// child runs this test binary as another process that does what and then waits
// for its standard input to end. It returns once the child says that it has begun.
func child(t *testing.T, what, dir string) (*exec.Cmd, io.Closer, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), "ARTIFACT_CHILD="+what, "ARTIFACT_DIR="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); line != "begun\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return cmd, in, r
}

// TestChild is what the other processes of these tests do.
func TestChild(t *testing.T) {
	dir := os.Getenv("ARTIFACT_DIR")
	s := artifact.Open(dir, artifact.Options{MaxStored: 5000})
	switch os.Getenv("ARTIFACT_CHILD") {
	case "write": // half of an artifact, until it is told to end
		_, err := s.Put(artifact.Scope{Session: "s"}, tool.ArtifactInfo{}, io.MultiReader(
			strings.NewReader(strings.Repeat("half\n", 1000)), &begun{}, os.Stdin))
		fmt.Println("stored", err)
	case "prune": // again and again, while others do
		fmt.Println("begun")
		io.Copy(io.Discard, os.Stdin)
		for i := range 50 {
			content := strings.Repeat(fmt.Sprint(i%7), 500)
			ref, err := s.Put(artifact.Scope{Session: "s"}, tool.ArtifactInfo{}, strings.NewReader(content))
			if err != nil {
				t.Fatalf("Put = %v", err)
			}
			// What was removed is forgotten soon: by then its handle was never there.
			if got, err := read(s, "s", ref.Handle); err == nil && got != content || err != nil && tool.CodeOf(err) != tool.Lost && tool.CodeOf(err) != tool.NotFound {
				t.Fatalf("read %.10q, %v", got, err)
			}
			if _, err := s.Prune(artifact.Retention{MaxBytes: 2000, MaxAge: time.Millisecond}, time.Now()); err != nil {
				t.Fatalf("Prune = %v", err)
			}
		}
	}
}

// begun is a reader that has nothing to give, and says that it was asked.
type begun struct{}

func (*begun) Read([]byte) (int, error) {
	fmt.Println("begun")
	return 0, io.EOF
}

func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*", ".tmp-*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestKilledWriter: a process that is killed while it stores leaves nothing that
// a handle leads to, and its half file goes at the next prune, or when the next
// process stores something. Control: as long as it lives its file stays, however
// old it looks.
func TestKilledWriter(t *testing.T) {
	for _, by := range []string{"prune", "put"} {
		s, dir := open(t, artifact.Options{})
		first := put(t, s, "s", "whole")
		cmd, _, _ := child(t, "write", dir)
		list := leftovers(t, dir)
		if len(list) != 1 {
			t.Fatalf("the child writes %q", list)
		}
		if p, err := os.ReadFile(list[0]); err != nil || len(p) != 5000 {
			t.Fatalf("half of it is %d bytes, %v", len(p), err)
		}
		old := time.Now().Add(-time.Hour)
		clear := func() {
			t.Helper()
			if err := os.Chtimes(list[0], old, old); err != nil {
				t.Fatal(err)
			}
			if by == "prune" {
				if _, err := s.Prune(artifact.Retention{}, time.Now()); err != nil {
					t.Fatal(err)
				}
				return
			}
			next := artifact.Open(dir, artifact.Options{})
			defer next.Close()
			put(t, next, "s", "more")
		}
		clear()
		if len(leftovers(t, dir)) != 1 {
			t.Fatalf("%s took the file of a process that lives", by)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if all, err := s.List(); err != nil || len(all) < 1 || all[0].Handle != first.Handle {
			t.Errorf("after the kill List = %v, %v", all, err)
		}
		clear()
		if left := leftovers(t, dir); len(left) != 0 {
			t.Errorf("after the kill %s leaves %q", by, left)
		}
		if got, err := read(s, "s", first.Handle); err != nil || got != "whole" {
			t.Errorf("the other artifact: %q, %v", got, err)
		}
	}
}

// TestProcessesPruneAtOnce: several processes store, read and prune in one
// folder; none fails, none sees another's bytes, and nothing is left over.
func TestProcessesPruneAtOnce(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	put(t, s, "s", "x")
	var start []func()
	var ends []func() error
	for range 3 {
		cmd, in, out := child(t, "prune", dir)
		start = append(start, func() { in.Close() })
		ends = append(ends, func() error {
			said, _ := io.ReadAll(out)
			if err := cmd.Wait(); err != nil {
				return fmt.Errorf("%w: %s", err, said)
			}
			return nil
		})
	}
	for _, begin := range start {
		begin()
	}
	for i, end := range ends {
		if err := end(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
	if left := leftovers(t, dir); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
	if _, err := s.Prune(artifact.Retention{MaxBytes: -1, MaxAge: time.Nanosecond}, time.Now().Add(25*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "objects", "*")); len(list) != 0 {
		t.Errorf("contents that nobody names: %d", len(list))
	}
}

// TestFolderOfOthers: a folder that is a link, or that others may write, takes
// and gives nothing: somebody else may have chosen what is in it. Control: the
// same folder with its own rights.
func TestFolderOfOthers(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"open to others": func(dir string) error { return os.Chmod(dir, 0o755) },
		"a link": func(dir string) error {
			if err := os.Rename(dir, dir+"-away"); err != nil {
				return err
			}
			return os.Symlink(dir+"-away", dir)
		},
		"objects open to others": func(dir string) error { return os.Chmod(filepath.Join(dir, "objects"), 0o777) },
		"objects is a link": func(dir string) error {
			if err := os.Rename(filepath.Join(dir, "objects"), filepath.Join(dir, "away")); err != nil {
				return err
			}
			return os.Symlink("away", filepath.Join(dir, "objects"))
		},
		"handles is a file": func(dir string) error {
			h := filepath.Join(dir, "handles")
			if err := os.RemoveAll(h); err != nil {
				return err
			}
			return os.WriteFile(h, nil, 0o600)
		},
	} {
		s, dir := open(t, artifact.Options{})
		ref := put(t, s, "s", "text")
		control := artifact.Open(dir, artifact.Options{})
		if got, err := read(control, "s", ref.Handle); err != nil || got != "text" {
			t.Fatalf("control: %q, %v", got, err)
		}
		put(t, control, "s", "more")
		control.Close()
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		next := artifact.Open(dir, artifact.Options{})
		if _, err := next.Put(artifact.Scope{Session: "s"}, tool.ArtifactInfo{}, strings.NewReader("x")); tool.CodeOf(err) != tool.NotAvailable {
			t.Errorf("%s: Put = %v", name, err)
		}
		if _, err := next.Open("s", ref.Handle); err == nil {
			t.Errorf("%s: it opens", name)
		}
		next.Close()
	}
}

// TestRewrittenContent: bytes that were changed in place are not shown, although
// the file has the size and the time that it had. Control: by size and time alone
// it is the same file.
func TestRewrittenContent(t *testing.T) {
	for _, trusting := range []bool{false, true} {
		s, dir := open(t, artifact.Options{})
		ref := put(t, s, "s", "text")
		object := filepath.Join(dir, "objects", strings.TrimPrefix(string(ref.Digest), "sha256:")+".txt")
		if trusting { // the file is verified, and then known by its times
			defer artifact.Trust()()
		}
		for range 2 {
			if got, err := read(s, "s", ref.Handle); err != nil || got != "text" {
				t.Fatalf("read %q, %v", got, err)
			}
		}
		before, err := os.Stat(object)
		if err != nil {
			t.Fatal(err)
		}
		for tick := before; trusting && !tick.ModTime().After(before.ModTime()); { // until the clock of the file system goes on
			probe := filepath.Join(t.TempDir(), "probe")
			if err := os.WriteFile(probe, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if tick, err = os.Stat(probe); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(object, []byte("TEXT"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(object, before.ModTime(), before.ModTime()); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(object); err != nil || !os.SameFile(before, fi) || !fi.ModTime().Equal(before.ModTime()) || fi.Size() != before.Size() {
			t.Fatalf("control: the attack shows in %v, %v", fi, err)
		}
		if got, err := read(s, "s", ref.Handle); tool.CodeOf(err) != tool.Lost {
			t.Errorf("trusting %v: read %q, %v", trusting, got, err)
		}
	}
}

// TestManySmallArtifacts: the number of handles is bounded too, the oldest go.
func TestManySmallArtifacts(t *testing.T) {
	defer artifact.Hold(20)()
	s, _ := open(t, artifact.Options{})
	first := put(t, s, "s", "same")
	for range 20 {
		put(t, s, "s", "same")
	}
	last := put(t, s, "s", "same")
	gone, err := s.Prune(artifact.Retention{}, time.Now())
	if err != nil || len(gone) != 2 || gone[0].Handle != first.Handle {
		t.Errorf("Prune = %d, %v; want the two oldest", len(gone), err)
	}
	if _, err := read(s, "s", last.Handle); err != nil {
		t.Errorf("the newest: %v", err)
	}
}

// TestFifoInTheStore: what waits for a writer makes nobody wait.
func TestFifoInTheStore(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	ref := put(t, s, "s", "text")
	for _, f := range []string{filepath.Join(dir, "objects", strings.TrimPrefix(string(ref.Digest), "sha256:")+".txt"), filepath.Join(dir, "handles", ref.Handle)} {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
		if err := mkfifo(f); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open("s", ref.Handle); err == nil {
			t.Errorf("%s opens", f)
		}
		if _, err := s.Prune(artifact.Retention{}, time.Now().Add(time.Hour)); err != nil {
			t.Errorf("Prune = %v", err)
		}
	}
}

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }
