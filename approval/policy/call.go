package policy

import (
	"encoding/json"

	"github.com/wasmtools/wasmtools/tool"
)

// Profiles of the terminal's sandbox.
const (
	ProfileWrite    = "workspace-write"
	ProfileReadOnly = "read-only"
	ProfileNone     = "none"
)

// Call is one frozen call, as the host sees it.
type Call struct {
	Tool      string // as registered, after aliases
	Source    tool.Source
	Trusted   bool        // of an upstream server: its word on effects counts
	Module    tool.Digest // identity; empty if there is no module
	Effects   tool.Effects
	Arguments json.RawMessage // canonical (RFC 8785)
	Input     tool.Digest     // of Arguments

	// Targets are the files that the call names or, where there is a write set,
	// changes: real, canonical, both ends of a move. A call that changes files
	// and has none is one of which nobody knows what it changes.
	Targets []Target

	// Hosts are what the call may talk to: names with an optional port, or the
	// patterns it was granted. A call that uses the network and has none may talk
	// to anything.
	Hosts []string

	// Command is the shell text, of a call that runs one.
	Command *Command
}

// Verb is what a call does to a file.
type Verb string

const (
	Read   Verb = "read"
	Write  Verb = "write"  // creates it, changes it, or moves something there
	Make   Verb = "make"   // makes a directory; of no weight beside something that goes into it
	Delete Verb = "delete" // removes it or moves it away; recoverable
	Erase  Verb = "erase"  // removes it for good
)

// Target is one file that a call reads or changes.
type Target struct {
	Verb Verb
	Path string // relative to the workspace root with '/', "." for the root; a real absolute path if it lies outside

	// List is the rule of the lists of protected and secret paths that the path
	// fits, by name; empty if there is none. Secret says that it is of the latter:
	// then even reading is denied, else only changing is asked about.
	List   string
	Secret bool
}

// Command is a shell text with everything that decides what it does.
type Command struct {
	Text    string
	Cwd     string            // real, absolute
	Env     map[string]string // overrides, beside what the session has
	Profile string            // "" is ProfileWrite
	Shell   string            // "" is bash
	Changed bool              // the session's shell is not as it was started: rules do not hold
}
