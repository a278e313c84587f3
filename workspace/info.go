package workspace

import (
	"io/fs"

	"github.com/wasmtools/wasmtools/tool"
)

// stat is what we keep of a file system object.
type stat struct {
	typ      Type
	mode     uint32 // permission bits with setuid, setgid and sticky
	size     int64
	mtime    int64 // Unix nanoseconds
	ctime    int64 // Unix nanoseconds; 0 if the system has none
	nlink    uint64
	uid, gid uint32
	id       tool.Identity
	mount    uint64 // the mount's id, 0 if the system cannot tell
	locked   bool   // immutable or append-only: no right of ours can remove it
}

func (s stat) info(path string) Info {
	_, name := split(path)
	in := Info{
		Path:  path,
		Name:  name,
		Type:  s.typ,
		Size:  s.size,
		MTime: floorMilli(s.mtime),
		Mode:  s.mode,
		Links: s.nlink,
		ID:    s.id,
		ctime: s.ctime,
	}
	if s.typ != File {
		in.Size = 0 // what a file system says about the size of a directory means nothing to a reader
	}
	return in
}

func floorMilli(ns int64) int64 {
	ms := ns / 1e6
	if ns%1e6 < 0 {
		ms--
	}
	return ms
}

// fileMode is the form that write sets hold.
func (s stat) fileMode() fs.FileMode {
	m := permMode(s.mode)
	switch s.typ {
	case Dir:
		m |= fs.ModeDir
	case Link:
		m |= fs.ModeSymlink
	case Other:
		m |= fs.ModeIrregular
	}
	return m
}

func permMode(bits uint32) fs.FileMode {
	m := fs.FileMode(bits & 0o777)
	if bits&0o4000 != 0 {
		m |= fs.ModeSetuid
	}
	if bits&0o2000 != 0 {
		m |= fs.ModeSetgid
	}
	if bits&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// modePerm is the way back.
func modePerm(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		bits |= 0o4000
	}
	if m&fs.ModeSetgid != 0 {
		bits |= 0o2000
	}
	if m&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}

// sameState reports whether nothing that we can see without reading has
// happened to the object between the two looks.
func (s stat) sameState(t stat) bool {
	return s.id == t.id && s.typ == t.typ && s.size == t.size && s.mtime == t.mtime
}
