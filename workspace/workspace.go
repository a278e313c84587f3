package workspace

import (
	"context"
	"io"
	"os"

	"github.com/wasmtools/wasmtools/tool"
)

// Options changes how a workspace is opened. The zero value is safe.
type Options struct {
	// StateDir is where lock files live; it is created with mode 0700. Without
	// it locks hold only between the calls of this process.
	StateDir string

	// NoSync skips fsync. A power cut may then lose or tear what was committed.
	NoSync bool

	// AllowHardLinks allows to write files that have more than one name. The
	// write detaches the name: the other names keep the old bytes.
	AllowHardLinks bool

	// NoOpenat2 uses os.Root even where openat2 works.
	NoOpenat2 bool
}

// Verb is what a call is about to do to a name.
type Verb uint8

const (
	VerbStat   Verb = iota + 1 // look at the name: type, size, times
	VerbRead                   // read the content of a file
	VerbList                   // read the names in a directory
	VerbWrite                  // create the name, or change what it holds
	VerbDelete                 // remove the name, or move it away
)

// OverlayOptions shapes one call's view.
type OverlayOptions struct {
	// Guard is asked before anything is read, listed or changed, with the
	// canonical path and the identity of what stands there (zero: nothing).
	// An error ends the operation and is returned as it is.
	Guard func(v Verb, path string, id tool.Identity) error

	// MaxBytes bounds the content that the overlay holds; 0 means 64 MiB.
	MaxBytes int64

	// ReadOnly refuses every change.
	ReadOnly bool
}

// DirEntry is one name of a directory, as the kernel gave it.
type DirEntry struct {
	Name string
	Type Type // "" if the file system did not say; Stat tells
}

// PendingFile is one name that an overlay shows differently from the disk.
type PendingFile struct {
	Path    string // canonical
	Type    Type   // File, Dir or Link; "" when Deleted
	Deleted bool   // nothing stands here any more; of a directory: nor below, unless named by another PendingFile
	From    string // the object on disk that is shown here, with everything below it; "" for new content or a new directory
	Data    []byte // new content of a File without From; not to be changed
}

var errNotBuilt = tool.Errorf(tool.NotAvailable, "this operation is not built yet")

type Workspace struct{}
type Overlay struct{}
type DirHandle struct{}

func Open(dir string, opts Options) (*Workspace, error)      { return nil, errNotBuilt }
func (w *Workspace) Close() error                            { return nil }
func (w *Workspace) RealPath() string                        { return "" }
func (w *Workspace) Mechanism() string                       { return "" }
func (w *Workspace) Overlay(OverlayOptions) *Overlay         { return &Overlay{} }
func (w *Workspace) OpenDir(path string) (*DirHandle, error) { return nil, errNotBuilt }
func (w *Workspace) Resolve(path string) (canonical string, info Info, err error) {
	return "", Info{}, errNotBuilt
}
func (w *Workspace) Commit(ctx context.Context, ws *tool.WriteSet) error { return errNotBuilt }

// CheckPath is the pure text check: see path.go for the rules.
func (w *Workspace) CheckPath(path string) (clean string, dir bool, err error) {
	return "", false, errNotBuilt
}

// IsTemp reports whether name is one that commits give their temporary files;
// walkers leave such names out.
func IsTemp(name string) bool { return false }

func (d *DirHandle) Path() string                                 { return "" }
func (d *DirHandle) Read(n int) ([]DirEntry, error)               { return nil, errNotBuilt }
func (d *DirHandle) OpenDir(name string) (*DirHandle, error)      { return nil, errNotBuilt }
func (d *DirHandle) OpenFile(name string) (*os.File, Info, error) { return nil, Info{}, errNotBuilt }
func (d *DirHandle) Stat(name string) (Info, error)               { return Info{}, errNotBuilt }
func (d *DirHandle) Close() error                                 { return nil }
func (o *Overlay) Stat(ctx context.Context, path string) (Info, error) {
	return Info{}, errNotBuilt
}
func (o *Overlay) List(ctx context.Context, path string, opts ListOptions) (Page, error) {
	return Page{}, errNotBuilt
}
func (o *Overlay) ReadAt(ctx context.Context, path string, p []byte, off int64) (int, error) {
	return 0, io.ErrUnexpectedEOF
}
func (o *Overlay) Write(ctx context.Context, path string, data []byte, overwrite bool) (Change, error) {
	return Change{}, errNotBuilt
}
func (o *Overlay) Edit(ctx context.Context, path string, edits []Edit) (Change, error) {
	return Change{}, errNotBuilt
}
func (o *Overlay) Remove(ctx context.Context, path string, recursive bool) (Change, error) {
	return Change{}, errNotBuilt
}
func (o *Overlay) Rename(ctx context.Context, from, to string, overwrite bool) (Change, error) {
	return Change{}, errNotBuilt
}
func (o *Overlay) Mkdir(ctx context.Context, path string) error { return errNotBuilt }
func (o *Overlay) Diff(max int) string                          { return "" }
func (o *Overlay) Pending() []PendingFile                       { return nil }
func (o *Overlay) Discard()                                     {}
func (o *Overlay) WriteSet() *tool.WriteSet                     { return nil }
func (o *Overlay) Close() error                                 { return nil }
