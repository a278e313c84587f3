// Package proctree starts programs and ends everything that came of them.
//
// A [Process] is a leader and all its descendants, wherever they went: into
// other sessions and process groups, to the background, or loose from their
// parents. On Linux each tree lives below a helper process of ours (a reaper)
// to which the kernel hands every orphan, so that "nothing is left" is
// something the kernel says and not a guess: the reaper has no child any more.
// The reapers come from one more helper (the zygote), which ends what a killed
// reaper leaves. Both notice when the server is gone, however it went, and end
// everything within three seconds.
//
// With the first start the environment that the server was started with is erased
// from where /proc shows it, as it holds keys; the server itself keeps its copy.
//
// A tree runs under a [Profile]. What a profile promises is either active,
// and said in [Process.Active], or Start fails; nothing runs wider than asked.
//
// What this package cannot do: a program that raised its user id (sudo, under
// the profile none) may refuse our signals; somebody who kills the server, the
// zygote and a reaper in one moment leaves what ran under the profile none
// behind. Outside Linux there are process groups and terminals only, no
// profiles, and what leaves its group is not found.
package proctree

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Spec says what to start and how. Nothing is inherited from the server: not
// its environment, working directory, descriptors, signal dispositions or
// controlling terminal.
type Spec struct {
	// Path is the absolute path of the program, resolved by the caller. Argv is
	// the whole argument vector, with the name the program sees as first element.
	Path string
	Argv []string
	// Env is the whole environment.
	Env []string
	// Dir is the absolute path of the working directory. If DirFile is set it
	// must be that directory (an O_PATH descriptor will do); Start fails with
	// [ErrMoved] if Dir has come to name another one. DirFile stays the caller's.
	Dir     string
	DirFile *os.File

	// TTY asks for a terminal of that size as standard input, output and error;
	// nil means pipes.
	TTY *Size
	// Stdin asks for a pipe as standard input. Without it (and without TTY)
	// standard input is at its end from the start.
	Stdin bool
	// Merge lets standard output and standard error share one pipe, so that
	// their order is kept.
	Merge bool

	Limits  Limits
	Profile Profile
}

// Size is a terminal's size in cells.
type Size struct{ Cols, Rows uint16 }

// Limits bound what each process of a tree may use; zero means unchanged. Core
// files are never written. None of them counts memory.
type Limits struct {
	OpenFiles uint64 // descriptors of a process
	FileSize  uint64 // bytes of a file that a process writes
	// Processes of the whole tree. Active.Processes says whether it holds: it
	// needs a user namespace of our own or a delegated cgroup, since the kernel's
	// plain limit counts all processes of the user.
	Processes uint64
	Nice      int // 0 to 19; never less than the server's own
}

// Profile names. A profile is for a whole tree: a program cannot leave it, nor
// can what it starts.
const (
	// None runs with all rights of the user who runs the server.
	None = "none"
	// WorkspaceWrite reads everything but Hide, writes below Write and in /tmp,
	// and has no network but, where asked, its own loopback.
	WorkspaceWrite = "workspace-write"
	// ReadOnly is WorkspaceWrite that writes only in /tmp.
	ReadOnly = "read-only"
)

// Profile says what a tree may do. The zero value is not a profile: a name
// must be given. All paths are absolute and clean; those in Write and Read, and
// Tmp, hold no symbolic link.
type Profile struct {
	Name string
	// Write lists the directories below which a tree may write. Only for
	// WorkspaceWrite.
	Write []string
	// Read lists directories that are to be seen although they lie in a place that
	// is private or hidden, as a workspace in /tmp does; those in Write need not be
	// listed.
	Read []string
	// Protect lists files and directories that stay readable but are not
	// written, although they lie below Write. Those that do not exist when a tree
	// starts are not covered.
	Protect []string
	// Hide lists files and directories whose content a tree must not see. Those
	// that do not exist when a tree starts are not covered.
	Hide []string
	// Tmp is a directory that stands at /tmp and /var/tmp, private to those trees
	// that name it; empty means one in memory (64 MiB) of this tree's own. In a
	// weak sandbox it stands at its own path only, so let TMPDIR name it.
	Tmp string
	// Network is NetworkOff or NetworkLoopback; ignored under None.
	Network string
	// Weak accepts a sandbox without namespaces, where the system refuses those:
	// see Active.Gaps for what then is not guarded. Without it such a system
	// cannot have the profile.
	Weak bool
}

// Networks of a profile. Loopback is one of the server's own, shared by all
// its trees that asked for it: they reach each other, and not the host's.
const (
	NetworkOff      = "off"
	NetworkLoopback = "loopback"
)

// Active says what holds for a tree, for results and for doctor.
type Active struct {
	Profile string
	// Means that enforce the profile and that end the tree, such as "user
	// namespace", "landlock 7", "seccomp", "subreaper", "cgroup".
	Means []string
	// Network is "host", "loopback" or "off"; "off" also where loopback was asked
	// for and cannot be had.
	Network string
	// Processes tells whether Limits.Processes holds.
	Processes bool
	// Gaps are sentences on what is not guarded although the profile's name
	// suggests it; only a weak profile has any.
	Gaps []string
}

// Exit tells how a process ended.
type Exit struct {
	Code   int            // exit code; -1 if ended by a signal
	Signal syscall.Signal // 0 if it exited
	// UserTime and SystemTime are of the leader and those of its children that
	// it waited for.
	UserTime, SystemTime time.Duration
}

// Member is one process of a tree.
type Member struct {
	Pid, Parent, Group, Session int
	// Start is the kernel's start time in clock ticks since boot. Pid and Start
	// together name a process once and for all.
	Start uint64
	State byte // as in /proc/PID/stat: R, S, D, T, Z...
	Name  string
}

// Target says whom a signal is for.
type Target int

const (
	// Foreground is the foreground process group of the terminal; without a
	// terminal, the leader's group. It is what Ctrl-C means.
	Foreground Target = iota
	// Tree is every process of the tree.
	Tree
	// Session is every process of the leader's session.
	Session
)

// KillOptions say how a tree is ended.
type KillOptions struct {
	// Grace is the time between SIGTERM (with SIGHUP for a terminal, and SIGCONT)
	// and SIGKILL; 0 means SIGKILL at once.
	Grace time.Duration
	// Keep names processes that are spared, as [Process.Members] returned them: a
	// command's tree is what was not there before it. A tree with spared members
	// goes on.
	Keep []Member
}

// Killed tells what it took to end a tree.
type Killed struct {
	// Asked is how many processes were there when SIGTERM went out.
	Asked int
	// Forced lists those that needed SIGKILL, the first 32 of them.
	Forced []Member
	// ForcedTotal counts them all.
	ForcedTotal int
}

// Tag is the variable by which processes of a tree can be found in /proc when
// nobody knows any more who started them. It is the caller's to set.
const Tag = "WASMTOOLS_SESSION"

// Errors of this package. StartError and UnavailableError carry the details.
var (
	// ErrMoved: Spec.Dir is not the directory that Spec.DirFile is.
	ErrMoved = errors.New("proctree: the working directory was replaced")
	// ErrClosed: the host is closed, or its helper has ended.
	ErrClosed = errors.New("proctree: closed")
	// ErrGone: the tree has ended.
	ErrGone = errors.New("proctree: the process tree has ended")
)

// StartError tells that a program could not be started; Err is a
// [syscall.Errno] where the kernel refused.
type StartError struct {
	Op   string // what failed: "working directory", "terminal", "program", ...
	Path string // the path concerned, if one is
	Err  error
}

func (e *StartError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("start: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("start: %s %s: %v", e.Op, e.Path, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// UnavailableError tells that this system cannot give the profile asked for.
// Nothing was started.
type UnavailableError struct {
	Profile string
	Reason  string // what is missing, in words for a person
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the sandbox profile %s cannot be had here: %s", e.Profile, e.Reason)
}
