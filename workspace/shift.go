package workspace

import (
	"errors"
	"syscall"

	"github.com/wasmtools/wasmtools/tool"
)

// shift is renameNew for whatever it is. Some file systems do not rename a
// directory that lies below them (overlayfs, for one that came with a container's
// image): then the directory is made anew with the same rights, its names are
// moved one by one, and the old one is removed. Either everything moves or
// nothing does.
func (c *commit) shift(from dir, name string, to dir, toName string) error {
	return c.shiftBy(dir.renameNew, from, name, to, toName)
}

// takeOut is shift to a temporary name.
func (c *commit) takeOut(from dir, name string, to dir, temp string) error {
	return c.shiftBy(dir.takeOut, from, name, to, temp)
}

func (c *commit) shiftBy(rename func(d dir, name string, to dir, toName string) error, from dir, name string, to dir, toName string) error {
	err := rename(from, name, to, toName)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	if st, e := from.lstat(name); e != nil || st.typ != Dir {
		return err
	}
	return c.shiftDir(from, name, to, toName, 0)
}

func (c *commit) shiftDir(from dir, name string, to dir, toName string, depth int) (err error) {
	if depth > maxDepth {
		return syscall.ELOOP
	}
	src, err := from.openDir(name)
	if err != nil {
		return err
	}
	defer src.close()
	st, err := src.stat()
	if err != nil {
		return err
	}
	if err := to.mkdir(toName, 0o700); err != nil {
		return err
	}
	dst, err := to.openDir(toName)
	if err != nil {
		to.rmdir(toName)
		return err
	}
	defer dst.close()
	var moved []string
	defer func() {
		if err == nil {
			return
		}
		for i := len(moved) - 1; i >= 0; i-- {
			err = errors.Join(err, c.merge(dst, moved[i], src, moved[i], depth+1))
		}
		c.repoint(dst, src)
		err = errors.Join(err, to.rmdir(toName))
	}()
	names, err := src.allNames()
	if err != nil {
		return err
	}
	for _, n := range names {
		err := src.renameNew(n, dst, n)
		if errors.Is(err, syscall.EXDEV) {
			err = c.shiftDir(src, n, dst, n, depth+1)
		}
		if err != nil {
			return err
		}
		moved = append(moved, n)
	}
	if err := dst.takeAfter(src, st); err != nil {
		return err
	}
	if err := c.repoint(src, dst); err != nil {
		return err
	}
	// Not empty: somebody made a name in it while its names moved.
	return from.rmdir(name)
}

// repoint makes what knows the directory as old know it as its successor.
func (c *commit) repoint(old, next dir) error {
	was, err := old.stat()
	if err != nil {
		return err
	}
	is, err := next.stat()
	if err != nil {
		return err
	}
	if c.remade == nil {
		c.remade = map[tool.Identity]tool.Identity{}
	}
	c.remade[is.id] = c.original(was.id)
	for _, h := range c.held {
		if h.id != was.id {
			continue
		}
		d, err := next.dup()
		if err != nil {
			return err
		}
		h.d.close()
		h.d, h.id = d, is.id
	}
	return nil
}

// original is what a directory was before it had to be made anew.
func (c *commit) original(id tool.Identity) tool.Identity {
	if was, ok := c.remade[id]; ok {
		return was
	}
	return id
}

// allNames reads a directory that is about to be emptied.
func (d dir) allNames() ([]string, error) {
	var names []string
	buf := make([]byte, 16<<10)
	for {
		end, err := d.readNames(buf, func(n []byte, _ Type) bool {
			names = append(names, string(n))
			return true
		})
		if err != nil || end {
			return names, err
		}
	}
}
