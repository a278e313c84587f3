package workspace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/wasmtools/wasmtools/tool"
)

// On the systems without descriptors to work below, os.Root does the work: each
// directory is a root of its own, opened one component after the other, and each
// step must have opened the directory that the name itself was. Support for
// these systems is experimental; see docs/security.md.

type dir struct {
	r    *os.Root
	w    *Workspace
	path string // canonical, for renames between directories
}

type file struct{ f *os.File }

func (w *Workspace) probe(Options) { w.why = "this system has no openat2" }

func (w *Workspace) openRoot(path string) error {
	r, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	w.osRoot, w.root = r, dir{r, w, "."}
	st, err := w.root.stat()
	if err != nil {
		r.Close()
		return err
	}
	w.id = st.id
	return nil
}

func (w *Workspace) closeRoot() error { return w.osRoot.Close() }

func (w *Workspace) sameMount(st stat) bool {
	return st.id.Dev == w.id.Dev || st.id == tool.Identity{}
}

func (w *Workspace) openDir(path string) (dir, error) {
	r, err := w.osRoot.OpenRoot(".")
	d := dir{r, w, "."}
	if err != nil || path == "." {
		return d, unwrap(err)
	}
	for name := range strings.SplitSeq(path, "/") {
		next, err := d.openDir(name)
		d.close()
		if err != nil {
			return dir{w: w}, err
		}
		d = next
	}
	return d, nil
}

func (w *Workspace) openFile(path string) (file, stat, error) {
	if path == "." {
		return file{}, stat{}, syscall.EISDIR
	}
	parent, name := split(path)
	d, err := w.openDir(parent)
	if err != nil {
		return file{}, stat{}, err
	}
	defer d.close()
	return d.openFile(name)
}

func (w *Workspace) lstatPath(path string) (st stat, target string, err error) {
	if path == "." {
		st, err = w.root.stat()
		return st, "", err
	}
	parent, name := split(path)
	d, err := w.openDir(parent)
	if err != nil {
		return stat{}, "", err
	}
	defer d.close()
	if st, err = d.lstat(name); err == nil && st.typ == Link {
		target, err = d.readlink(name)
	}
	return st, target, err
}

func unwrap(err error) error {
	var pe *os.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		return pe.Err
	case errors.As(err, &le):
		return le.Err
	}
	return err
}

func (d dir) close() error { return d.r.Close() }

func (d dir) reread() (dir, error) {
	r, err := d.r.OpenRoot(".")
	return dir{r, d.w, d.path}, unwrap(err)
}

func (d dir) lstat(name string) (stat, error) {
	fi, err := d.r.Lstat(name)
	if err != nil {
		return stat{}, unwrap(err)
	}
	st := statOf(fi)
	if st.typ == File || st.typ == Dir {
		// Only something open has an identity.
		if f, err := d.r.OpenFile(name, os.O_RDONLY, 0); err == nil {
			st.id, st.nlink = identify(f)
			f.Close()
		}
	}
	return st, nil
}

func (d dir) stat() (stat, error) {
	fi, err := d.r.Stat(".")
	if err != nil {
		return stat{}, unwrap(err)
	}
	st := statOf(fi)
	if f, err := d.r.Open("."); err == nil {
		st.id, st.nlink = identify(f)
		f.Close()
	}
	return st, nil
}

func statOf(fi os.FileInfo) stat {
	st := stat{typ: Other, mode: modePerm(fi.Mode()), size: fi.Size(), mtime: fi.ModTime().UnixNano(), nlink: 1}
	switch {
	case fi.Mode().IsRegular():
		st.typ = File
	case fi.IsDir():
		st.typ = Dir
	case fi.Mode()&os.ModeSymlink != 0:
		st.typ = Link
	}
	return st
}

func (d dir) openFile(name string) (file, stat, error) {
	seen, err := d.r.Lstat(name)
	switch {
	case err != nil:
		return file{}, stat{}, unwrap(err)
	case seen.Mode()&os.ModeSymlink != 0:
		return file{}, stat{}, errLink
	case seen.IsDir():
		return file{}, stat{}, syscall.EISDIR
	case !seen.Mode().IsRegular():
		return file{}, stat{}, errNotRegular
	}
	f, err := d.r.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return file{}, stat{}, unwrap(err)
	}
	fi, err := f.Stat()
	if err == nil && !os.SameFile(seen, fi) {
		err = errLink
	}
	if err != nil {
		f.Close()
		return file{}, stat{}, unwrap(err)
	}
	st := statOf(fi)
	st.id, st.nlink = identify(f)
	return file{f}, st, nil
}

func (d dir) openDir(name string) (dir, error) {
	seen, err := d.r.Lstat(name)
	switch {
	case err != nil:
		return dir{w: d.w}, unwrap(err)
	case seen.Mode()&os.ModeSymlink != 0:
		return dir{w: d.w}, errLink
	case !seen.IsDir():
		return dir{w: d.w}, syscall.ENOTDIR
	}
	r, err := d.r.OpenRoot(name)
	if err != nil {
		if _, ok := unwrap(err).(syscall.Errno); !ok {
			err = errLink // "path escapes": it has become a link since
		}
		return dir{w: d.w}, unwrap(err)
	}
	got, err := r.Stat(".")
	if err == nil && !os.SameFile(seen, got) {
		err = errLink
	}
	if err != nil {
		r.Close()
		return dir{w: d.w}, unwrap(err)
	}
	return dir{r, d.w, join(d.path, name)}, nil
}

func (d dir) readlink(name string) (string, error) {
	s, err := d.r.Readlink(name)
	return filepath.ToSlash(s), unwrap(err)
}

func (d dir) create(name string, perm uint32) (file, error) {
	f, err := d.r.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, os.FileMode(perm))
	return file{f}, unwrap(err)
}

func (d dir) mkdir(name string, perm uint32) error {
	return unwrap(d.r.Mkdir(name, os.FileMode(perm)))
}

func (d dir) unlink(name string) error { return unwrap(d.r.Remove(name)) }
func (d dir) rmdir(name string) error  { return unwrap(d.r.Remove(name)) }

func (d dir) rename(name string, to dir, toName string) error {
	if d.path == to.path {
		return unwrap(d.r.Rename(name, toName))
	}
	return unwrap(d.w.osRoot.Rename(join(d.path, name), join(to.path, toName)))
}

// renameNew has a gap between the look and the rename here, unless the file
// system gives a file a second name.
func (d dir) renameNew(name string, to dir, toName string) error {
	if _, err := to.r.Lstat(toName); err == nil {
		return syscall.EEXIST
	}
	if fi, err := d.r.Lstat(name); err == nil && fi.Mode().IsRegular() && d.link(name, to, toName) == nil {
		return d.unlink(name)
	}
	return d.rename(name, to, toName)
}

func (d dir) takeOut(name string, to dir, temp string) error { return d.renameNew(name, to, temp) }

func (d dir) exchange(string, dir, string) error { return errNoExchange }

func (d dir) link(name string, to dir, toName string) error {
	if d.path == to.path {
		return unwrap(d.r.Link(name, toName))
	}
	return unwrap(d.w.osRoot.Link(join(d.path, name), join(to.path, toName)))
}

func (d dir) writable() error            { return nil }
func (d dir) canWrite(name string) error { return nil }
func (d dir) sync() error                { return nil }

func (d dir) readNames(_ []byte, f func(name []byte, t Type) bool) (end bool, err error) {
	r, err := d.r.Open(".")
	if err != nil {
		return true, unwrap(err)
	}
	defer r.Close()
	for {
		entries, err := r.ReadDir(256)
		for _, e := range entries {
			t := Other
			switch {
			case e.Type().IsRegular():
				t = File
			case e.IsDir():
				t = Dir
			case e.Type()&os.ModeSymlink != 0:
				t = Link
			}
			if !f([]byte(e.Name()), t) {
				return false, nil
			}
		}
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return true, unwrap(err)
		}
	}
}

func (f file) close() error { return f.f.Close() }

func (f file) readAt(p []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(p, off)
	if err == io.EOF {
		return n, io.EOF
	}
	return n, unwrap(err)
}

func (f file) write(p []byte) error {
	_, err := f.f.Write(p)
	return unwrap(err)
}

func (f file) skip(p []byte) error {
	_, err := f.f.Seek(int64(len(p)), io.SeekCurrent)
	return unwrap(err)
}

func (f file) truncate(size int64) error { return unwrap(f.f.Truncate(size)) }

func (f file) sync() error { return unwrap(f.f.Sync()) }

func (f file) stat() (stat, error) {
	fi, err := f.f.Stat()
	if err != nil {
		return stat{}, unwrap(err)
	}
	st := statOf(fi)
	st.id, st.nlink = identify(f.f)
	return st, nil
}

// tryLock locks nothing: locks of this system would keep the file from being read.
func (f file) tryLock() (bool, error) { return false, syscall.EWINDOWS }

func (f file) osFile(string) *os.File { return f.f }

func (d dir) takeAfter(dir, stat) error { return nil }

func (f file) become(_, _, mode uint32) error { return nil }

func (d dir) become(_, _, mode uint32) error { return nil }

func (d dir) symlink(target, name string) error { return unwrap(d.r.Symlink(target, name)) }

func (d dir) dup() (dir, error) { return d.reread() }

func (f file) takeAfter(_ file, st stat) error {
	return unwrap(f.f.Chmod(permMode(st.mode)))
}
