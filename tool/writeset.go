package tool

import (
	"crypto/sha256"
	"encoding/binary"
	"io/fs"
)

// WriteOp is what one entry of a write set does.
type WriteOp string

const (
	OpWrite  WriteOp = "write"  // create Path, or replace its bytes
	OpMkdir  WriteOp = "mkdir"  // create directory Path
	OpDelete WriteOp = "delete" // remove Path; of a directory, this entry alone
	OpMove   WriteOp = "move"   // rename From to Path, whatever it is
)

// Identity names a file system object while it exists. The zero Identity means
// that the object did not exist, or that the system cannot tell.
type Identity struct {
	Dev, Ino uint64
}

// Write is one change of one name. Paths are canonical (no link in any
// component but, for delete and move, the last), relative to the workspace
// root, with '/'.
type Write struct {
	Op       WriteOp     `json:"op"`
	Path     string      `json:"path"`
	From     string      `json:"from,omitempty"`   // OpMove only
	Identity Identity    `json:"identity"`         // of what is changed: Path, or From of a move; zero for a new name
	Replaced Identity    `json:"replaced"`         // OpMove with overwrite: what stood at Path; else zero
	Before   Digest      `json:"before,omitempty"` // content before; empty if there was none, for a directory or link, or if Stamp stands in
	Stamp    Digest      `json:"stamp,omitempty"`  // digest of size and time of a file that is too large, or not readable, to digest its content
	After    Digest      `json:"after,omitempty"`  // content after; empty for delete and directories
	Mode     fs.FileMode `json:"mode"`             // type and permission bits after (before, for a delete)
	Size     int64       `json:"size"`             // bytes after
	Blob     []byte      `json:"-"`                // the content after, for OpWrite

	Permanent bool `json:"permanent,omitempty"` // OpDelete: nothing is kept to put it back
}

// WriteSet is everything that a call wants to change, in the order in which it
// has to be done. It is what a person approves and exactly what is committed.
type WriteSet struct {
	Entries []Write `json:"entries"`
}

// Empty reports whether w changes nothing; a nil set is empty.
func (w *WriteSet) Empty() bool { return w == nil || len(w.Entries) == 0 }

// Bytes is how much content w holds in memory.
func (w *WriteSet) Bytes() int64 {
	var n int64
	if w != nil {
		for _, e := range w.Entries {
			n += int64(len(e.Blob))
		}
	}
	return n
}

// Binding is a digest over every field of every entry: two write sets with one
// Binding do the same to the same objects in the same state.
func (w *WriteSet) Binding() Digest {
	if w.Empty() {
		return ""
	}
	h := sha256.New()
	str := func(s string) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	num := func(v uint64) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], v)
		h.Write(n[:])
	}
	num(uint64(len(w.Entries)))
	for _, e := range w.Entries {
		str(string(e.Op))
		str(e.Path)
		str(e.From)
		num(e.Identity.Dev)
		num(e.Identity.Ino)
		num(e.Replaced.Dev)
		num(e.Replaced.Ino)
		str(string(e.Before))
		str(string(e.Stamp))
		str(string(e.After))
		num(uint64(e.Mode))
		num(uint64(e.Size))
		if e.Permanent {
			str("permanent")
		}
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return SumDigest(sum)
}
