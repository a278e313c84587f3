package workspace

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/tool"
)

// within fails the test if f takes longer than anything that does not wait for
// somebody else.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s blocks", what)
	}
}

func TestOnlyRegularFiles(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		if err := unix.Mkfifo(b.W+"/fifo", 0o644); err != nil {
			t.Fatal(err)
		}
		names := []string{"fifo", "d"}
		b.build("d/", "l => fifo")
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if wd := b.W + "/sock"; len(wd) < 100 {
			if err := unix.Bind(fd, &unix.SockaddrUnix{Name: wd}); err != nil {
				t.Fatal(err)
			}
			names = append(names, "sock")
		}
		if err := unix.Mknod(b.W+"/zero", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err == nil {
			names = append(names, "zero")
		} else {
			t.Logf("no device nodes here: %v", err)
		}
		o := b.overlay()
		for _, n := range append(names, "l") {
			within(t, "reading "+n, func() {
				_, err := readAll(t, o, n)
				wantCode(t, err, tool.NotRegular)
			})
			within(t, "writing "+n, func() {
				_, err := o.Write(t.Context(), n, []byte("x"), true)
				wantCode(t, err, tool.NotRegular)
			})
			within(t, "editing "+n, func() {
				_, err := o.Edit(t.Context(), n, []Edit{{Old: "a", New: "b"}})
				wantCode(t, err, tool.NotRegular)
			})
		}
		h, err := b.w.OpenDir(".")
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		for _, n := range names {
			within(t, "OpenFile "+n, func() {
				_, _, err := h.OpenFile(n)
				wantCode(t, err, tool.NotRegular)
			})
		}
		// Their names can go like any other.
		if _, err := o.Remove(t.Context(), "fifo", false); err != nil {
			t.Error(err)
		}
		if err := b.commit(o); err != nil {
			t.Error(err)
		}
	})
}

// TestFIFOBlocksOthers is the control: a plain open of the FIFO waits for ever.
func TestFIFOBlocksOthers(t *testing.T) {
	b := newBox(t, Options{})
	if err := unix.Mkfifo(b.W+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	opened := make(chan struct{})
	go func() {
		if f, err := os.Open(b.W + "/fifo"); err == nil {
			f.Close()
		}
		close(opened)
	}()
	for {
		select {
		case <-opened:
			t.Fatal("a plain open of a FIFO returned: the test above tests nothing")
		default:
		}
		// Fails until a reader waits, and lets it go then.
		fd, err := unix.Open(b.W+"/fifo", unix.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			unix.Close(fd)
			break
		}
	}
	<-opened
}

func TestHugeFileIsRefusedAtOnce(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("big = start")
		if err := os.Truncate(b.W+"/big", 6<<30); err != nil {
			t.Skipf("no sparse files here: %v", err)
		}
		start := time.Now()
		o := b.overlay()
		_, err := o.Edit(t.Context(), "big", []Edit{{Old: "start", New: "x"}})
		wantCode(t, err, tool.TooLarge)
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("refused after %v", d)
		}
		buf := make([]byte, 5)
		if n, err := o.ReadAt(t.Context(), "big", buf, 0); n != 5 || err != nil {
			t.Errorf("ReadAt = %d, %v; want the first bytes", n, err)
		}
		// It can still be moved and removed, pinned by size and time.
		if _, err := o.Rename(t.Context(), "big", "b2", false); err != nil {
			t.Fatal(err)
		}
		if e := o.WriteSet().Entries[0]; e.Before != "" || e.Stamp == "" {
			t.Errorf("entry = %+v; want a stamp and no digest", e)
		}
		f, _ := os.OpenFile(b.W+"/big", os.O_WRONLY, 0)
		f.WriteAt([]byte("changed"), 100)
		f.Close()
		os.Chtimes(b.W+"/big", time.Time{}, time.Unix(1, 0))
		wantCode(t, b.commit(o), tool.ApprovalMismatch)
	})
}

// inNamespace runs the test of the same name again in a process with its own
// mounts and reports whether this is that process.
func inNamespace(t *testing.T) bool {
	const env = "WORKSPACE_TEST_NAMESPACE"
	if os.Getenv(env) == t.Name() {
		return true
	}
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess("/proc/self/exe", []string{os.Args[0], "-test.run=^" + t.Name() + "$", "-test.v"}, &os.ProcAttr{
		Env:   append(os.Environ(), env+"="+t.Name()),
		Files: []*os.File{nil, w, w},
		Sys:   attr,
	})
	w.Close()
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("no right to make a mount namespace: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		out.Write(buf[:n])
		if err != nil {
			break
		}
	}
	st, err := p.Wait()
	if err != nil || !st.Success() {
		t.Fatalf("%v %v\n%s", err, st, out.String())
	}
	if !strings.Contains(out.String(), "--- PASS: "+t.Name()) {
		t.Skip(out.String())
	}
	return false
}

func mount(t *testing.T, source, target, fstype string, flags uintptr) {
	t.Helper()
	if err := unix.Mount(source, target, fstype, flags, ""); err != nil {
		t.Skipf("mount %s: %v", target, err)
	}
	t.Cleanup(func() { unix.Unmount(target, unix.MNT_DETACH) })
}

// TestMounts: a bind mount of the same file system, another file system, /proc
// and a file mounted on a file. os.Root crosses all of them, which is the
// control.
func TestMounts(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skip(err)
	}
	eachWay(t, func(t *testing.T, b *box) {
		b.build("bind/", "tmp/", "p/", "file = mine", "d/m/", "l => bind")
		mount(t, b.O, b.W+"/bind", "", unix.MS_BIND)
		mount(t, b.O, b.W+"/d/m", "", unix.MS_BIND)
		mount(t, b.O+"/secret", b.W+"/file", "", unix.MS_BIND)
		mount(t, "none", b.W+"/tmp", "tmpfs", 0)
		os.WriteFile(b.W+"/tmp/x", []byte(topSecret), 0o644)
		mount(t, "proc", b.W+"/p", "proc", 0)
		b.guardOutside()

		r, err := os.OpenRoot(b.W)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, p := range []string{"bind/secret", "tmp/x", "file", "p/self/environ"} {
			if _, err := r.ReadFile(p); err != nil {
				t.Errorf("os.Root does not cross to %s: %v; the attack does not work", p, err)
			}
		}

		paths := []string{"bind", "bind/secret", "bind/new", "tmp", "tmp/x", "file", "p/self/environ", "p/self/root" + b.O + "/secret", "p/self/cwd", "d/m", "d/m/secret", "l/secret"}
		for _, v := range verbs {
			for _, p := range paths {
				o := b.overlay()
				text, err := v.do(o, t, p)
				if strings.Contains(text, topSecret) || strings.Contains(text, "secret") || strings.Contains(text, "PATH=") {
					t.Errorf("%s %s tells %q", v.name, p, text)
				}
				if err == nil && v.name != "stat" {
					t.Errorf("%s %s worked", v.name, p)
				}
			}
		}
		o := b.overlay()
		_, err = o.Remove(t.Context(), "bind", true)
		wantCode(t, err, tool.OutsideRoot)
		// A mount deep in a tree: nothing of the tree may go.
		_, err = o.Remove(t.Context(), "d", true)
		wantCode(t, err, tool.OutsideRoot)

		page, err := o.List(t.Context(), ".", ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			if want := e.Name != "d" && e.Name != "l"; e.Outside != want && e.Name != "l" {
				t.Errorf("%s: outside = %v; want %v", e.Name, e.Outside, want)
			}
		}
		h, err := b.w.OpenDir(".")
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		for _, n := range []string{"bind", "tmp", "p"} {
			if _, err := h.OpenDir(n); tool.CodeOf(err) != tool.OutsideRoot {
				t.Errorf("OpenDir(%s) = %v", n, err)
			}
			if in, err := h.Stat(n); err != nil || !in.Outside {
				t.Errorf("Stat(%s) = %+v, %v; want outside", n, in, err)
			}
		}
		if _, _, err := h.OpenFile("file"); tool.CodeOf(err) != tool.OutsideRoot {
			t.Errorf("OpenFile(file) = %v", err)
		}
	})
}

// TestMountDuringCommit mounts between the call and its commit.
func TestMountDuringCommit(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skip(err)
	}
	eachWay(t, func(t *testing.T, b *box) {
		b.build("d/x = a", "t/u/y = b")
		b.guardOutside()
		o1, o2 := b.overlay(), b.overlay()
		if _, err := o1.Write(t.Context(), "d/secret", []byte("PWN"), true); err != nil {
			t.Fatal(err)
		}
		if _, err := o2.Remove(t.Context(), "t", true); err != nil {
			t.Fatal(err)
		}
		mount(t, b.O, b.W+"/d", "", unix.MS_BIND)
		mount(t, b.O, b.W+"/t/u", "", unix.MS_BIND)
		for i, o := range []*Overlay{o1, o2} {
			if err := b.commit(o); err == nil {
				t.Errorf("commit %d worked across a mount", i+1)
			}
		}
	})
}

// TestOverlayfs does the random calls on trees that came with a container's image:
// the kernel does not rename their directories.
func TestOverlayfs(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skip(err)
	}
	mnt := t.TempDir()
	mount(t, "none", mnt, "tmpfs", 0)
	t.Setenv("TMPDIR", mnt)
	eachWay(t, func(t *testing.T, first *box) {
		refused, extra := 0, ""
		if inUserNamespace() {
			extra = ",userxattr" // the kernel's condition for a mount without root
		}
		for seed := range uint64(15) {
			randomRound(t, first.opts, seed, func(b *box) {
				base := strings.TrimSuffix(b.W, "/W")
				low, up, wk := base+"/low", base+"/up", base+"/wk"
				must(t, os.Rename(b.W, low), os.Mkdir(b.W, 0o755), os.Mkdir(up, 0o755), os.Mkdir(wk, 0o755))
				if err := unix.Mount("overlay", b.W, "overlay", 0, "lowerdir="+low+",upperdir="+up+",workdir="+wk+extra); err != nil {
					t.Skipf("no overlayfs here: %v", err)
				}
				t.Cleanup(func() { unix.Unmount(b.W, unix.MNT_DETACH) })
				must(t, os.Mkdir(low+"/probe", 0o755))
				if err := os.Rename(b.W+"/probe", b.W+"/probe2"); errors.Is(err, unix.EXDEV) {
					refused++
				}
				b.w.Close()
				var err error
				b.w, err = Open(b.W, b.opts)
				must(t, err)
				b.w.noExchange, b.w.noReplace = seed%5 >= 3, seed%5 == 4
			})
		}
		if refused == 0 {
			t.Error("the kernel renames such directories: the test tests nothing")
		}
	})
}

// inUserNamespace reports whether our user ids are not those of the machine.
func inUserNamespace() bool {
	p, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !strings.HasSuffix(strings.TrimSpace(string(p)), " 4294967295")
}

// TestCasefold renames only the case of a name where the file system ignores it.
func TestCasefold(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "casefold=utf8-12.1.0"); err != nil {
		t.Skipf("no tmpfs that ignores case: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	base := dir + "/c"
	os.Mkdir(base, 0o755)
	fd, err := unix.Open(base, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x40000000) // FS_CASEFOLD_FL
	unix.Close(fd)
	if err != nil {
		t.Skipf("no directory that ignores case: %v", err)
	}
	w, err := Open(base, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	os.WriteFile(base+"/readme.md", []byte("text"), 0o644)
	o := w.Overlay(OverlayOptions{})
	if _, err := o.Rename(t.Context(), "readme.md", "README.md", false); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context(), o.WriteSet()); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(base)
	if len(entries) != 1 || entries[0].Name() != "README.md" {
		t.Errorf("names = %v; want README.md", entries)
	}
}

func TestHardLinks(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = x", "a = same")
		if err := os.Link(b.O+"/secret", b.W+"/h"); err != nil {
			t.Skip(err)
		}
		if err := os.Link(b.W+"/a", b.W+"/A2"); err != nil {
			t.Fatal(err)
		}
		outside := func() string {
			p, _ := os.ReadFile(b.O + "/secret")
			return string(p)
		}
		o := b.overlay()
		_, err := o.Write(t.Context(), "h", []byte("PWN"), true)
		wantCode(t, err, tool.Permission)
		_, err = o.Edit(t.Context(), "h", []Edit{{Old: "TOP", New: "x"}})
		wantCode(t, err, tool.Permission)
		if got, err := readAll(t, o, "h"); got != topSecret || err != nil {
			t.Errorf("reading a hard link = %q, %v", got, err)
		}
		_, err = o.Rename(t.Context(), "a", "A2", true)
		wantCode(t, err, tool.NoChange)

		// A link that is made between the call and its commit.
		if _, err := o.Write(t.Context(), "f", []byte("y"), true); err != nil {
			t.Fatal(err)
		}
		os.Link(b.W+"/f", b.W+"/f2")
		wantCode(t, b.commit(o), tool.Permission)
		os.Remove(b.W + "/f2")

		// Only the name goes.
		o = b.overlay()
		if _, err := o.Remove(t.Context(), "h", false); err != nil {
			t.Fatal(err)
		}
		if err := b.commit(o); err != nil || outside() != topSecret {
			t.Errorf("commit = %v, outside = %q", err, outside())
		}

		// The switch allows it, and detaches.
		os.Link(b.O+"/secret", b.W+"/h")
		opts := b.opts
		opts.AllowHardLinks = true
		w, err := Open(b.W, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		o = w.Overlay(OverlayOptions{})
		if _, err := o.Write(t.Context(), "h", []byte("mine"), true); err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(t.Context(), o.WriteSet()); err != nil || outside() != topSecret || b.read("h") != "mine" {
			t.Errorf("commit = %v, outside = %q, h = %q", err, outside(), b.read("h"))
		}
	})
}
