// Package workspace is the bounded file tree: the only code that touches the
// user's files.
//
// # What it promises
//
// No call reads, lists, makes, changes or removes anything outside the root
// directory, whatever links, races, mounts and names say. Every name is opened
// below a descriptor of the root that is held for the life of the workspace,
// through no link and onto no other mount; a link that stays inside is followed
// by us, one component at a time, and what it leads to is opened in the same way.
// Only regular files are opened for reading, and nothing waits for a device or a
// FIFO. A call changes its own [Overlay] only. [Workspace.Commit] puts a write
// set on the disk: all of its files or none, each replaced in one step, and only
// if every file is still what it was when the write set was made.
//
// Nothing that is on the list of secrets is opened, listed or changed, by whatever
// name; what is on the list of protected paths is changed only by a commit that
// was allowed those very paths. Both lists are judged by names, at every call; what
// git makes special by its settings is looked up at every change, and for that
// alone git's own settings outside the root are read.
//
// Other programs may save at any time. A commit that meets another save takes
// itself back, and the last save stands under its name afterwards.
//
// What a commit takes away is kept, and can be put back: [Workspace.Undo].
//
// # What it does not promise
//
// Without a journal ([Options.StateDir], [JournalOptions]), a crash in the middle of
// a commit can leave some of its files changed and others not, each whole, and
// hidden files whose names begin with .wasmtools-tmp-; with one, the next opening
// of the workspace settles that. Staged
// new content goes with the next commit in that directory by another process, or
// after an hour where files cannot be locked; what was taken out of its place, or
// has a second name there, stays for a day. Where the file system cannot swap two
// names, a save that falls between the last look at a file and its replacement,
// microseconds, is lost; where it cannot keep a name from being replaced either,
// so may be one at either end of a move.
//
// A directory that another process moves out of the root while a call holds it
// open is still that directory. A hard link names the same file as another name
// outside: such files can be read, and are refused for writing. A program that
// holds a file open goes on writing to the old file after it was replaced. What
// is written to ordinary files may run later, when a person builds or tests.
package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/wasmtools/wasmtools/tool"
)

// Options changes how a workspace is opened. The zero value is safe.
type Options struct {
	// StateDir is where lock files live; it is created with mode 0700. Without
	// it locks hold only between the calls of this process.
	StateDir string

	// Journal bounds what is kept for undo, below StateDir. Without StateDir
	// nothing is.
	Journal JournalOptions

	// Notice takes remarks for a person: that a commit was taken back whose
	// process had died. Nil drops them.
	Notice func(string)

	// NoSync skips fsync. A power cut may then lose or tear what was committed.
	NoSync bool

	// AllowHardLinks allows to write files that have more than one name. The
	// write detaches the name: the other names keep the old bytes.
	AllowHardLinks bool

	// Deny lists folders of the host that no call may touch, should they lie in
	// the tree: where the program keeps its state. They need not exist yet.
	Deny []string

	// DenyRead adds to the built-in list of secrets, which no call may read, list
	// or change. Protect adds to the built-in list of protected paths, which a
	// commit changes only if it was allowed for them by name. AllowRead takes
	// paths off the list of secrets; it is for what the user alone has written.
	DenyRead, Protect, AllowRead []Rule

	// NoOpenat2 uses os.Root even where openat2 works.
	NoOpenat2 bool
}

// Workspace is an open directory tree. It is safe for concurrent use.
type Workspace struct {
	opts  Options
	real  string // of the root when it was opened; for people and for absolute arguments
	id    tool.Identity
	mount uint64
	umask uint32

	overlayfs bool // the root lies on one

	osRoot  *os.Root
	root    dir
	openat2 bool
	why     string // of the mechanism

	// Tests make these fail, or foreseeable.
	sysOpenat2 openat2Func
	noExchange bool // no swapping of names
	noReplace  bool // no rename that never replaces
	noLink     bool // no second names
	tempName   func() string
	onFault    func(op string) error // instead of a step that changes the disk: the error that it has
	onStep     func(op string)       // before each step and look of a commit that another program could come before

	lists   atomic.Pointer[lists]
	surveys surveys
	denied  deniedDirs
	swept   sweptDirs
	journal *journal // nil: none is kept
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

func (v Verb) String() string {
	switch v {
	case VerbStat:
		return "stat"
	case VerbRead:
		return "read"
	case VerbList:
		return "list"
	case VerbWrite:
		return "write"
	case VerbDelete:
		return "delete"
	}
	return "unknown"
}

// Open opens the tree below a directory. Errors are for the person who starts
// the program and may name host paths.
func Open(path string, opts Options) (*Workspace, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, err
	}
	rules, err := newLists(opts)
	if err != nil {
		return nil, err
	}
	if opts.StateDir != "" {
		if err := os.MkdirAll(filepath.Join(opts.StateDir, lockDirName), 0o700); err != nil {
			return nil, fmt.Errorf("the state folder, which holds the locks of the workspace, cannot be made: %w", err)
		}
	}
	w := &Workspace{opts: opts, real: real, umask: currentUmask(), sysOpenat2: defaultOpenat2, tempName: tempName}
	w.surveys.turn = make(chan struct{}, 1)
	w.lists.Store(rules)
	if err := w.openRoot(real); err != nil {
		return nil, err
	}
	w.probe(opts)
	w.deny(opts.Deny)
	w.openJournal()
	w.recover()
	return w, nil
}

func (w *Workspace) step(op string) {
	if w.onStep != nil {
		w.onStep(op)
	}
}

func (w *Workspace) fault(op string) error {
	if w.onFault != nil {
		return w.onFault(op)
	}
	return nil
}

// Close gives the root up. Overlays and handles must not be used afterwards.
func (w *Workspace) Close() error { return errors.Join(w.journal.close(), w.closeRoot()) }

// RealPath is where the root was when the workspace was opened, without links.
// It is for people and for reading absolute arguments; nothing is opened by it.
func (w *Workspace) RealPath() string { return w.real }

// Mechanism says how names are opened: "openat2" or "os.Root", and why.
func (w *Workspace) Mechanism() string {
	if w.openat2 {
		return "openat2 (" + w.why + ")"
	}
	return "os.Root (" + w.why + ")"
}

// Identity is that of the root directory.
func (w *Workspace) Identity() tool.Identity { return w.id }
