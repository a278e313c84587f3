package shell

import "errors"

// Site is where a text would run. All paths are absolute.
type Site struct {
	Root string   // the workspace
	Cwd  string   // where the command starts, as the server sees it
	Home string   // the user's home, "" if there is none
	Path []string // the fixed PATH
	// Shell is the base name of the shell that will read the text; "" is bash.
	// Rules are off for every other one.
	Shell string
	// Changed means that the session's shell ran something that no rule allowed,
	// so that aliases, functions or variables may change what words mean. Rules
	// are off then.
	Changed bool
	// FS answers what is on disk. Nil means [NoFS].
	FS FS
}

// Kind is what a path names.
type Kind int

const (
	Missing Kind = iota
	Regular
	Executable // a regular file that may be run
	Directory
	Other // device, socket, FIFO
)

// FS is what Judge asks of the file system. Implementations must not block on
// FIFOs or devices and must be safe for concurrent use.
type FS interface {
	// Resolve follows every link in an absolute path, component by component
	// and without cleaning ".." first, and tells what is there. What does not
	// exist is resolved as far as it exists.
	Resolve(path string) (real string, kind Kind, err error)
	// List returns the names in a directory, at most max of them, and whether
	// there are more.
	List(dir string, max int) (names []Entry, more bool, err error)
}

// Entry is one name of a directory.
type Entry struct {
	Name string
	Link bool
	Dir  bool // a directory itself, not a link to one
}

// errNoFS is what NoFS answers for directories.
var errNoFS = errors.New("no file system to look at")
