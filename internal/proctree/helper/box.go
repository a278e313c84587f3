//go:build linux && (amd64 || arm64)

package helper

import (
	"os"
	"slices"
	"syscall"
	"unsafe"

	"github.com/wasmtools/wasmtools/internal/proctree/wire"
)

// A box is a reaper's own view of the file tree: all of it read-only, the
// workspace writable, and a private /tmp, /dev, /proc and /run on top. What is
// hidden is covered by something empty that nobody may open. The
// reaper alone can mount here; what it starts has no capabilities and is
// refused the calls.

// Mount flags, and those of the calls that take descriptors.
const (
	attrReadOnly = 0x1
	attrNoSuid   = 0x2
	attrNoDev    = 0x4

	openTreeClone   = 1
	moveEmptyPath   = 0x4  // the source is the descriptor itself
	moveToEmptyPath = 0x40 // and so is the target
)

// The vault holds the covers; it lies in the box's own /dev.
const (
	coverFile = "/dev/.hidden-file"
	coverDir  = "/dev/.hidden-directory"
)

// tmpSize bounds the private /tmp in memory, and /dev/shm.
const tmpSize = "size=64m"

// keptOfRun is what systems without /usr/bin keep in /run.
var keptOfRun = []string{"/run/current-system", "/run/opengl-driver", "/run/booted-system"}

// kernelFolders show root what concerns the whole machine.
var kernelFolders = []string{"/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/fs/bpf", "/sys/firmware"}

// maxMounts bounds how much a box covers and shows.
const maxMounts = 4096

// boxError is a step of building that failed; the profile cannot be had then.
type boxError struct {
	step string
	err  error
}

func (e *boxError) reason() string { return e.step + ": " + e.err.Error() }

// place is one thing to be mounted.
type place struct {
	path string
	kind int
	tree int // placeShow: a detached copy
}

const (
	placeShow = iota // a directory to be written, or at least seen
	placeProtect
	placeHide
)

// buildBox lays out the view. It is called once, before anything is started.
func buildBox(s *wire.Setup) *boxError {
	if len(s.Write)+len(s.Read)+len(s.Protect)+len(s.Hide) > maxMounts {
		return &boxError{"paths", syscall.E2BIG}
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return &boxError{"private mounts", err}
	}
	var places []place
	defer func() {
		for _, p := range places {
			if p.tree >= 0 {
				syscall.Close(p.tree)
			}
		}
	}()
	// Copies of what stays writable are taken before all else is made read-only.
	for i, dir := range slices.Concat(s.Write, s.Read) {
		attrs := uint64(attrNoSuid | attrNoDev)
		if i >= len(s.Write) {
			attrs |= attrReadOnly
		}
		fd, err := copyTree(dir, attrs)
		if err != nil {
			return &boxError{"directory " + dir, err}
		}
		places = append(places, place{dir, placeShow, fd})
	}
	tmps := []string{"/tmp", "/var/tmp"}
	tmpTrees := map[string]int{}
	for _, t := range tmps {
		if s.Tmp == "" || !isDir(t) {
			continue
		}
		fd, err := copyTree(s.Tmp, attrNoSuid|attrNoDev)
		if err != nil {
			return &boxError{"temporary directory", err}
		}
		defer syscall.Close(fd)
		tmpTrees[t] = fd
	}
	devices := map[string]int{}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if fd, err := copyTree("/dev/"+name, 0); err == nil {
			defer syscall.Close(fd)
			devices[name] = fd
		}
	}
	kept := map[string]int{}
	for _, dir := range keptOfRun {
		if fd, err := copyTree(dir, attrReadOnly|attrNoSuid|attrNoDev); err == nil {
			defer syscall.Close(fd)
			kept[dir] = fd
		}
	}
	for _, p := range s.Protect {
		places = append(places, place{p, placeProtect, -1})
	}
	for _, p := range slices.Concat(s.Hide, kernelFolders) {
		places = append(places, place{p, placeHide, -1})
	}
	// What lies deeper is mounted later, so that it is not covered again.
	slices.SortStableFunc(places, func(a, b place) int { return depth(a.path) - depth(b.path) })

	if err := setAttr(atFdcwd, "/", atRecursive, attrReadOnly|attrNoSuid); err != nil {
		return &boxError{"read-only tree", err}
	}
	if err := mountDevices(devices); err != nil {
		return err
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC|syscall.MS_RDONLY, ""); err != nil {
		return &boxError{"/proc", err}
	}
	for _, t := range tmps {
		if !isDir(t) {
			continue
		}
		var err error
		if fd, ok := tmpTrees[t]; ok {
			err = moveTree(fd, t)
		} else {
			err = syscall.Mount("tmpfs", t, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777,"+tmpSize)
		}
		if err != nil {
			return &boxError{t, err}
		}
	}
	if isDir("/run") {
		if err := syscall.Mount("tmpfs", "/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755,size=1m"); err != nil {
			return &boxError{"/run", err}
		}
		for dir, fd := range kept {
			if os.MkdirAll(dir, 0o755) == nil {
				moveTree(fd, dir) // programs may miss it; nothing gets wider
			}
		}
	}
	for _, p := range places {
		if err := p.mount(places); err != nil {
			return err
		}
	}
	for _, fresh := range []string{"/run", "/dev"} {
		if err := syscall.Mount("", fresh, "", syscall.MS_REMOUNT|syscall.MS_RDONLY|syscall.MS_NOSUID, ""); err != nil && isDir(fresh) {
			return &boxError{"read-only " + fresh, err}
		}
	}
	return nil
}

func (p place) mount(all []place) *boxError {
	switch p.kind {
	case placeShow:
		if !isDir(p.path) { // below a place that is empty now
			if err := os.MkdirAll(p.path, 0o755); err != nil {
				return &boxError{"directory " + p.path, err}
			}
		}
		if err := moveTree(p.tree, p.path); err != nil {
			return &boxError{"directory " + p.path, err}
		}
	case placeProtect:
		if err := protectPath(p.path); err != nil {
			return &boxError{"protected path " + p.path, err}
		}
	case placeHide:
		for _, q := range all {
			if q.kind == placeShow && below(q.path, p.path) && isDir(p.path) {
				// The workspace lies in what is hidden: a cover that can be walked through.
				if err := syscall.Mount("tmpfs", p.path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=711,size=1m"); err != nil {
					return &boxError{"hidden path " + p.path, err}
				}
				return nil
			}
		}
		if err := cover(p.path); err != nil {
			return &boxError{"hidden path " + p.path, err}
		}
	}
	return nil
}

// readOnlyMount is the flag of statfs.
const readOnlyMount = 1

// protectPath makes what path names read-only, if there is anything and it is
// not yet. It follows no link: what one leads to has a name of its own.
func protectPath(path string) error {
	fd, err := openReal(path)
	if err == syscall.ENOENT || err == syscall.ENOTDIR || err == syscall.ELOOP || err == syscall.EACCES {
		return nil
	}
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var fs syscall.Statfs_t
	if err := syscall.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Flags&readOnlyMount != 0 {
		return nil
	}
	tree, err := copyTree(path, attrReadOnly|attrNoSuid)
	if err != nil {
		return err
	}
	defer syscall.Close(tree)
	return moveTree(tree, path)
}

// cover hides what path names, if there is anything and it is not hidden yet.
func cover(path string) error {
	var st, vault syscall.Stat_t
	err := syscall.Stat(path, &st)
	if err == syscall.ENOENT || err == syscall.ENOTDIR || err == syscall.EACCES {
		return nil // not there, or below a cover
	}
	if err != nil {
		return err
	}
	if err := syscall.Stat(coverDir, &vault); err != nil {
		return err
	}
	if st.Dev == vault.Dev {
		return nil
	}
	with := coverFile
	if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		with = coverDir
	}
	return syscall.Mount(with, path, "", syscall.MS_BIND, "")
}

// mountDevices makes a /dev of the harmless devices and terminals of its own:
// in the shared one a program could open the user's other terminals.
func mountDevices(devices map[string]int) *boxError {
	fail := func(what string, err error) *boxError { return &boxError{"/dev" + what, err} }
	if err := syscall.Mount("tmpfs", "/dev", "tmpfs", syscall.MS_NOSUID|syscall.MS_NOEXEC, "mode=755,size=1m"); err != nil {
		return fail("", err)
	}
	for name, fd := range devices {
		if err := touch("/dev/"+name, 0o666); err != nil {
			return fail("/"+name, err)
		}
		if err := moveTree(fd, "/dev/"+name); err != nil {
			return fail("/"+name, err)
		}
	}
	for _, dir := range []string{"pts", "shm"} {
		if err := syscall.Mkdir("/dev/"+dir, 0o755); err != nil {
			return fail("/"+dir, err)
		}
	}
	if err := syscall.Mount("devpts", "/dev/pts", "devpts", syscall.MS_NOSUID|syscall.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return fail("/pts", err)
	}
	if err := syscall.Mount("tmpfs", "/dev/shm", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777,"+tmpSize); err != nil {
		return fail("/shm", err)
	}
	for name, to := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := syscall.Symlink(to, "/dev/"+name); err != nil {
			return fail("/"+name, err)
		}
	}
	// A socket cannot be opened even by root, who may read a file that nobody may.
	if err := syscall.Mknod(coverFile, syscall.S_IFSOCK, 0); err != nil {
		return fail("", err)
	}
	if err := syscall.Mkdir(coverDir, 0); err != nil {
		return fail("", err)
	}
	return nil
}

func touch(path string, mode uint32) error {
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_EXCL|syscall.O_RDONLY|syscall.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	return syscall.Close(fd)
}

// openReal opens path to name it, and follows no symbolic link on the way: an
// earlier program in a sandbox may have put one into the workspace.
func openReal(path string) (int, error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	how := struct{ flags, mode, resolve uint64 }{flags: oPath | syscall.O_CLOEXEC, resolve: resolveNoSymlinks}
	at := atFdcwd
	for {
		fd, _, e := syscall.Syscall6(sysOpenat2, uintptr(at), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if e == syscall.EINTR || e == syscall.EAGAIN {
			continue
		}
		if e != 0 {
			return -1, e
		}
		return int(fd), nil
	}
}

// copyTree makes a detached copy of the mounts at path, which holds no link.
func copyTree(path string, attrs uint64) (int, error) {
	real, err := openReal(path)
	if err != nil {
		return -1, err
	}
	defer syscall.Close(real)
	var empty [1]byte
	fd, _, e := syscall.Syscall(sysOpenTree, uintptr(real), uintptr(unsafe.Pointer(&empty)), openTreeClone|atRecursive|atEmptyPath|syscall.O_CLOEXEC)
	if e != 0 {
		return -1, e
	}
	if attrs != 0 {
		if err := setAttr(int(fd), "", atEmptyPath|atRecursive, attrs); err != nil {
			syscall.Close(int(fd))
			return -1, err
		}
	}
	return int(fd), nil
}

// moveTree mounts a detached copy at path, which holds no link either.
func moveTree(tree int, path string) error {
	real, err := openReal(path)
	if err != nil {
		return err
	}
	defer syscall.Close(real)
	var empty [1]byte
	_, _, e := syscall.Syscall6(sysMoveMount, uintptr(tree), uintptr(unsafe.Pointer(&empty)), uintptr(real), uintptr(unsafe.Pointer(&empty)), moveEmptyPath|moveToEmptyPath, 0)
	if e != 0 {
		return e
	}
	return nil
}

func setAttr(dir int, path string, flags int, set uint64) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	attr := struct{ set, clear, propagation, userns uint64 }{set: set}
	_, _, e := syscall.Syscall6(sysMountSetattr, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags), uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		return e
	}
	return nil
}

func isDir(path string) bool {
	var st syscall.Stat_t
	return syscall.Lstat(path, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFDIR
}

func depth(path string) int {
	n := 0
	for i := range len(path) {
		if path[i] == '/' && i+1 < len(path) {
			n++
		}
	}
	return n
}

// below tells whether path lies in dir or is it.
func below(path, dir string) bool {
	return path == dir || dir == "/" || len(path) > len(dir) && path[:len(dir)] == dir && path[len(dir)] == '/'
}
