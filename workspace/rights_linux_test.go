package workspace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/tool"
)

// child runs the test of the same name again in another process and gives back
// what that process wrote with say. It reports false in that process.
func child(t *testing.T, env []string, attr *syscall.SysProcAttr) (out string, parent bool) {
	t.Helper()
	const name = "WORKSPACE_TEST_CHILD"
	if os.Getenv(name) == t.Name() {
		return "", false
	}
	p, r := startChild(t, append(env, name+"="+t.Name()), attr)
	b, _ := io.ReadAll(r)
	if st, err := p.Wait(); err != nil || !st.Success() {
		t.Fatalf("%v %v\n%s", err, st, b)
	}
	return string(b), true
}

func startChild(t *testing.T, env []string, attr *syscall.SysProcAttr) (*os.Process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	// The test's own binary may lie where another user cannot reach it.
	exe, err := os.Open("/proc/self/exe")
	must(t, err)
	defer exe.Close()
	p, err := os.StartProcess("/proc/self/fd/3", []string{os.Args[0], "-test.run=^" + t.Name() + "$", "-test.v"}, &os.ProcAttr{
		Env: append(os.Environ(), env...), Files: []*os.File{nil, w, w, exe}, Sys: attr,
	})
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return p, r
}

func TestOwnerAndAttributes(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = a", "g = b")
		xattrs := unix.Setxattr(b.W+"/f", "user.k", []byte("v"), 0)
		unix.Setxattr(b.W+"/f", "user.long", []byte(strings.Repeat("l", 2000)), 0)
		must(t, os.Chmod(b.W+"/f", 0o640))
		if os.Geteuid() == 0 {
			must(t, os.Chown(b.W+"/f", 65534, 65534), os.Chown(b.W+"/g", 65534, 0), unix.Chmod(b.W+"/g", 0o4755))
		}
		o := b.overlay()
		write(t, o, "f", "new")
		write(t, o, "g", "new")
		must(t, b.commit(o))
		var st unix.Stat_t
		must(t, unix.Stat(b.W+"/f", &st))
		if st.Mode&0o7777 != 0o640 {
			t.Errorf("mode %o", st.Mode)
		}
		if os.Geteuid() == 0 {
			if st.Uid != 65534 || st.Gid != 65534 {
				t.Errorf("owner %d:%d", st.Uid, st.Gid)
			}
			must(t, unix.Stat(b.W+"/g", &st))
			if st.Mode&0o7777 != 0o4755 || st.Uid != 65534 {
				t.Errorf("g: mode %o, owner %d: a change of owner after the change of mode drops setuid", st.Mode&0o7777, st.Uid)
			}
		}
		if xattrs != nil {
			t.Logf("no extended attributes here: %v", xattrs)
			return
		}
		buf := make([]byte, 4096)
		for k, v := range map[string]string{"user.k": "v", "user.long": strings.Repeat("l", 2000)} {
			if n, err := unix.Getxattr(b.W+"/f", k, buf); err != nil || string(buf[:n]) != v {
				t.Errorf("%s = %q, %v", k, buf[:max(n, 0)], err)
			}
		}
	})
}

// TestWithoutRights runs as a user who may not do everything.
func TestWithoutRights(t *testing.T) {
	if os.Geteuid() == 0 {
		dir, err := os.MkdirTemp("/tmp", "rights")
		must(t, err, os.Chmod(dir, 0o777))
		defer os.RemoveAll(dir)
		// A file of somebody else in a directory that the user may write.
		must(t, os.WriteFile(dir+"/theirs", []byte("root's"), 0o666), os.Chmod(dir+"/theirs", 0o666))
		attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, parent := child(t, []string{"RIGHTS_DIR=" + dir, "TMPDIR=" + dir}, attr)
		if !parent {
			t.Fatal("still root")
		}
		if !strings.Contains(out, "--- PASS: TestWithoutRights") {
			t.Error(out)
		}
		return
	}
	eachWay(t, func(t *testing.T, b *box) {
		b.build("d/f = keep", "x = x", "none = x", "tree/ro/f = f", "open/g = g")
		must(t, os.Chmod(b.W+"/d", 0o555), os.Chmod(b.W+"/none", 0), os.Chmod(b.W+"/tree/ro", 0o555))
		defer func() {
			os.Chmod(b.W+"/d", 0o755)
			os.Chmod(b.W+"/tree/ro", 0o755)
		}()
		before := tree(t, b.W+"/d")
		o := b.overlay()
		for what, err := range map[string]error{
			"write in a closed directory":         second(o.Write(t.Context(), "d/f", []byte("x"), true)),
			"new file in a closed directory":      second(o.Write(t.Context(), "d/g", []byte("x"), true)),
			"edit in a closed directory":          second(o.Edit(t.Context(), "d/f", []Edit{{Old: "keep", New: "x"}})),
			"removal from a closed directory":     second(o.Remove(t.Context(), "d/f", false)),
			"move out of a closed directory":      second(o.Rename(t.Context(), "d/f", "f", false)),
			"move into a closed directory":        second(o.Rename(t.Context(), "x", "d/x", false)),
			"directory in a closed directory":     o.Mkdir(t.Context(), "d/n"),
			"read without the right":              second(readAll(t, o, "none")),
			"removal of a tree with a closed one": second(o.Remove(t.Context(), "tree", true)),
		} {
			if tool.CodeOf(err) != tool.Permission {
				t.Errorf("%s = %v; want permission", what, err)
			}
		}
		if !o.WriteSet().Empty() || tree(t, b.W+"/d") != before {
			t.Errorf("set = %+v", o.WriteSet())
		}
		// The name of a file that cannot be read can go; it is pinned by a stamp.
		must(t, second(o.Remove(t.Context(), "none", false)))
		if e := o.WriteSet().Entries[0]; e.Stamp == "" || e.Before != "" {
			t.Errorf("entry = %+v", e)
		}
		must(t, b.commit(o))

		// A directory that is closed after the call.
		o = b.overlay()
		write(t, o, "x", "new")
		write(t, o, "open/g", "new")
		must(t, os.Chmod(b.W+"/open", 0o555))
		wantCode(t, b.commit(o), tool.Permission)
		if b.read("x") != "x" {
			t.Error("half of the set was done")
		}
		must(t, os.Chmod(b.W+"/open", 0o755))
		noTemps(t, b)
	})
	if dir := os.Getenv("RIGHTS_DIR"); dir != "" {
		// A file of another owner: to replace it would make it ours.
		w, err := Open(dir, Options{NoSync: true})
		must(t, err)
		defer w.Close()
		o := w.Overlay(OverlayOptions{})
		write(t, o, "theirs", "mine")
		wantCode(t, w.Commit(t.Context(), o.WriteSet()), tool.Permission)
		if p, _ := os.ReadFile(dir + "/theirs"); string(p) != "root's" {
			t.Errorf("theirs = %q", p)
		}
	}
}

// TestLocksHoldBetweenProcesses adds to one number in one file from several
// processes. No addition that was reported as done may be lost.
func TestLocksHoldBetweenProcesses(t *testing.T) {
	const env, each, procs = "WORKSPACE_TEST_LOCKS", 40, 3
	if dir := os.Getenv(env); dir != "" {
		w, err := Open(dir+"/W", Options{StateDir: dir + "/state", NoSync: true})
		must(t, err)
		defer w.Close()
		for done := 0; done < each; {
			o := w.Overlay(OverlayOptions{})
			text, err := readAll(t, o, "n")
			must(t, err)
			var n int
			fmt.Sscanf(text, "<%d>", &n)
			// Not a write: that would not know what was read.
			if _, err = o.Edit(t.Context(), "n", []Edit{{Old: text, New: fmt.Sprintf("<%d>", n+1)}}); err == nil {
				err = w.Commit(t.Context(), o.WriteSet())
			}
			o.Close()
			switch tool.CodeOf(err) {
			case "":
				done++
			case tool.ApprovalMismatch, tool.NoMatch:
			default:
				t.Fatal(err)
			}
		}
		return
	}
	b := newBox(t, Options{})
	b.build("n = <0>")
	base := strings.TrimSuffix(b.W, "/W")
	var wait []func()
	for range procs {
		p, r := startChild(t, []string{env + "=" + base}, nil)
		wait = append(wait, func() {
			out, _ := io.ReadAll(r)
			if st, err := p.Wait(); err != nil || !st.Success() {
				t.Errorf("%v %v\n%s", err, st, out)
			}
		})
	}
	for _, f := range wait {
		f()
	}
	if got, want := b.read("n"), fmt.Sprintf("<%d>", each*procs); got != want {
		t.Errorf("n = %s; want %s", got, want)
	}
	fi, err := os.Stat(base + "/state/locks")
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("state folder: %v, %v; want mode 0700", fi, err)
	}
}

// TestLockKeepsOthersOut takes a lock as another process would and wants the
// commit to wait for it, and to stop waiting when the caller gives up.
func TestLockKeepsOthersOut(t *testing.T) {
	state := t.TempDir()
	b := newBox(t, Options{NoSync: true, StateDir: state})
	b.build("f = x")
	o := b.overlay()
	write(t, o, "f", "y")
	f, err := openLock(state + "/locks/" + fmt.Sprint(shardOf(b.w.id, "f")))
	must(t, err)
	defer f.Close()
	ok, err := tryLock(f)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	ctx, cancel := contextWithSteps(t, 5)
	defer cancel()
	if err := b.w.Commit(ctx, o.WriteSet()); !errors.Is(err, errSteps) || b.read("f") != "x" {
		t.Errorf("commit under a lock of somebody else = %v, f = %q", err, b.read("f"))
	}
	f.Close()
	must(t, b.commit(o))
}

func TestNoDescriptorsAreLeft(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		count := func() int {
			entries, err := os.ReadDir("/proc/self/fd")
			must(t, err)
			return len(entries)
		}
		round := func() {
			b.build("a/b/f = x", "l => a/b/f", "d/x = x", "out => $O")
			o := b.overlay()
			for _, v := range verbs {
				for _, p := range []string{"l", "a/b/f", "out/secret", "none", "a", "d", "a/b/new"} {
					v.do(o, t, p)
				}
			}
			o.Close()
			b.commit(o)
			h, err := b.w.OpenDir(".")
			must(t, err)
			h.Read(0)
			h.Close()
			for _, n := range []string{"a", "l", "d", "out", "moved", "none", "new"} {
				os.RemoveAll(b.W + "/" + n)
			}
		}
		round()
		before := count()
		for range 5 {
			round()
		}
		if after := count(); after > before {
			t.Errorf("%d descriptors; before there were %d", after, before)
		}
	})
}
