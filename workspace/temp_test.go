package workspace

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSweep(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("d/f = x")
		young, other := tempName(), ".wasmtools-tmp-note"
		for _, n := range []string{young, other} {
			must(t, os.WriteFile(b.W+"/d/"+n, nil, 0o644))
		}
		d, err := b.w.openDir("d")
		must(t, err)
		defer d.close()
		st, err := d.stat()
		must(t, err)
		b.w.sweep(d, st.id, time.Now().Add(staleOther/2))
		if _, err := os.Stat(b.W + "/d/" + young); err != nil {
			t.Error("a young file was removed")
		}
		b.w.swept.seen = nil
		tmpDir := tempName()
		must(t, os.MkdirAll(b.W+"/d/"+tmpDir+"/sub", 0o755), os.Symlink(b.O, b.W+"/d/"+tmpDir+"/sub/l"))
		b.guardOutside()
		b.w.sweep(d, st.id, time.Now().Add(2*staleOther))
		_, err1 := os.Stat(b.W + "/d/" + young)
		_, err2 := os.Stat(b.W + "/d/" + other)
		_, err3 := os.Stat(b.W + "/d/" + tmpDir)
		if err1 == nil || err2 != nil || err3 == nil {
			t.Errorf("old file: %v, a user's file: %v, a removed tree: %v; want the user's alone to stay", err1, err2, err3)
		}
		if b.read("d/f") != "x" {
			t.Error("a user's file changed")
		}
	})
}

// TestSweepOfTheDead: what a dead commit staged goes with the next commit in the
// directory; what a live one staged, or what was taken out of its place, stays.
func TestSweepOfTheDead(t *testing.T) {
	if isWindows {
		t.Skip("staged files are not locked on this system")
	}
	bothSwaps(t, func(t *testing.T, b *box) {
		b.build("d/f = x", "d/g = g")
		aside := b.W + "/d/" + tempName()
		must(t, os.WriteFile(aside, []byte("somebody's"), 0o644))
		staged := func() int {
			names, err := filepath.Glob(b.W + "/d/" + tempPrefix + stagedMark + "*")
			must(t, err)
			return len(names)
		}
		begin := func() *commit {
			o := b.overlay()
			write(t, o, "d/f", "new")
			write(t, o, "d/sub/new", "new")
			return staging(t, b, o)
		}
		dead, live := begin(), begin()
		if n := staged(); n != 4 {
			t.Fatalf("%d staged files; want 4", n)
		}
		dead.close() // as the kernel does for a process that was killed
		other, err := Open(b.W, b.opts)
		must(t, err)
		defer other.Close()
		o := other.Overlay(OverlayOptions{})
		write(t, o, "d/g", "G")
		must(t, other.Commit(t.Context(), o.WriteSet()))
		if n := staged(); n != 2 {
			t.Errorf("%d staged files are left; want the two of the live commit", n)
		}
		if _, err := os.Stat(aside); err != nil {
			t.Errorf("what was taken out of its place is gone: %v", err)
		}
		must(t, live.publish(), live.finish())
		live.close()
		if b.read("d/f") != "new" || b.read("d/sub/new") != "new" || staged() != 0 {
			t.Errorf("the live commit did not do its work, or left %d files", staged())
		}
	})
}

// TestManyStaged: a set larger than the locks leaves nothing behind either.
func TestManyStaged(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		o := b.overlay()
		for i := range maxStagedLocks + 20 {
			write(t, o, fmt.Sprint("d/", i), "x")
		}
		must(t, b.commit(o))
		names, err := os.ReadDir(b.W + "/d")
		must(t, err)
		if len(names) != maxStagedLocks+20 {
			t.Errorf("%d names", len(names))
		}
	})
}

// TestKilledCommit kills a process that has staged files: the next commit of
// another one clears them away.
func TestKilledCommit(t *testing.T) {
	if root := os.Getenv("WORKSPACE_TEST_KILL"); root != "" {
		w, err := Open(root, Options{})
		must(t, err)
		o := w.Overlay(OverlayOptions{})
		write(t, o, "f", strings.Repeat("n", 300_000))
		staging(t, &box{w: w}, o)
		fmt.Println("staged")
		io.Copy(io.Discard, os.Stdin) // until we are killed
		return
	}
	if isWindows {
		t.Skip("staged files are not locked on this system")
	}
	b := newBox(t, Options{NoSync: true})
	b.build("f = x")
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledCommit$")
	cmd.Env = append(os.Environ(), "WORKSPACE_TEST_KILL="+b.W)
	in, err := cmd.StdinPipe()
	must(t, err)
	defer in.Close()
	out, err := cmd.StdoutPipe()
	must(t, err, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "staged\n" {
		t.Errorf("the process said %q, %v", line, err)
	}
	staged := func() int {
		names, err := filepath.Glob(b.W + "/" + tempPrefix + "*")
		must(t, err)
		return len(names)
	}
	n := 0
	next := func() {
		t.Helper()
		w, err := Open(b.W, b.opts) // each looks for leftovers once
		must(t, err)
		defer w.Close()
		o := w.Overlay(OverlayOptions{})
		n++
		write(t, o, "g", fmt.Sprint(n))
		must(t, w.Commit(t.Context(), o.WriteSet()))
	}
	next()
	if staged() != 1 {
		t.Error("the staged file of a process that lives was taken away")
	}
	must(t, cmd.Process.Kill())
	cmd.Wait()
	if staged() != 1 {
		t.Error("the killed process left nothing: this tests nothing")
	}
	next()
	if n := staged(); n != 0 || b.read("f") != "x" {
		t.Errorf("%d files are left, f = %q", n, b.read("f"))
	}
}
