package workspace

import (
	"os"

	"github.com/wasmtools/wasmtools/tool"
)

// DirEntry is one name of a directory, as the kernel gave it.
type DirEntry struct {
	Name string
	Type Type // "" if the file system did not say; Stat tells
}

// DirHandle is an open directory below the root, for walkers. Its methods take
// one name, follow no link and cross to no other mount. It is not safe for
// concurrent use; handles of different directories are independent.
type DirHandle struct {
	d    dir
	path string
	buf  []byte
	rest []DirEntry
	end  bool
}

// OpenDir opens the directory at a canonical path, "." for the root.
func (w *Workspace) OpenDir(path string) (*DirHandle, error) {
	clean, _, err := w.CheckPath(path)
	if err != nil {
		return nil, err
	}
	d, err := w.openDir(clean)
	if err == errLink {
		return nil, tool.PathErrorf(tool.NotRegular, path, "a component is a link; resolve the path first")
	}
	if err != nil {
		return nil, pathError(path, err)
	}
	return &DirHandle{d: d, path: clean}, nil
}

// Path is the canonical path under which the directory was opened.
func (h *DirHandle) Path() string { return h.path }

// ID is the directory's identity.
func (h *DirHandle) ID() (tool.Identity, error) {
	st, err := h.d.stat()
	return st.id, pathError(h.path, err)
}

// Read returns the next names, about n of them if n > 0 and all that are left
// otherwise, in the order of the file system. At the end it returns none.
func (h *DirHandle) Read(n int) ([]DirEntry, error) {
	if h.buf == nil {
		h.buf = make([]byte, 32<<10)
	}
	out := h.rest
	h.rest = nil
	for !h.end && (n <= 0 || len(out) < n) {
		end, err := h.d.readNames(h.buf, func(name []byte, t Type) bool {
			out = append(out, DirEntry{string(name), t})
			return true
		})
		if err != nil {
			return out, pathError(h.path, err)
		}
		h.end = end
	}
	return out, nil
}

// OpenDir opens the directory of that name.
func (h *DirHandle) OpenDir(name string) (*DirHandle, error) {
	if err := oneName(name); err != nil {
		return nil, err
	}
	d, err := h.d.openDir(name)
	if err == errLink {
		return nil, tool.PathErrorf(tool.NotRegular, join(h.path, name), "a link, not a directory")
	}
	if err != nil {
		return nil, pathError(join(h.path, name), err)
	}
	return &DirHandle{d: d, path: join(h.path, name)}, nil
}

// OpenFile opens the regular file of that name for reading.
func (h *DirHandle) OpenFile(name string) (*os.File, Info, error) {
	if err := oneName(name); err != nil {
		return nil, Info{}, err
	}
	path := join(h.path, name)
	f, st, err := h.d.openFile(name)
	if err == errLink {
		return nil, Info{}, tool.PathErrorf(tool.NotRegular, path, "a link, not a regular file")
	}
	if err != nil {
		return nil, Info{}, pathError(path, err)
	}
	return f.osFile(path), st.info(path), nil
}

// Stat tells what stands at that name; a link is not followed. Outside is set
// for what lies on another mount.
func (h *DirHandle) Stat(name string) (Info, error) {
	if err := oneName(name); err != nil {
		return Info{}, err
	}
	path := join(h.path, name)
	st, err := h.d.lstat(name)
	if err != nil {
		return Info{}, pathError(path, err)
	}
	in := st.info(path)
	in.Outside = !h.d.w.sameMount(st)
	return in, nil
}

// Readlink returns the text of a link.
func (h *DirHandle) Readlink(name string) (string, error) {
	if err := oneName(name); err != nil {
		return "", err
	}
	s, err := h.d.readlink(name)
	return s, pathError(join(h.path, name), err)
}

// Close gives the handle up.
func (h *DirHandle) Close() error { return h.d.close() }

// oneName refuses what could be more than one step.
func oneName(name string) error {
	bad := name == "" || name == "." || name == ".." || len(name) > maxNameBytes
	for i := 0; i < len(name) && !bad; i++ {
		bad = name[i] == '/' || name[i] == 0 || isWindows && (name[i] == '\\' || name[i] == ':')
	}
	if bad {
		return tool.PathErrorf(tool.InvalidArguments, name, "not a single name")
	}
	return nil
}
