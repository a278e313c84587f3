// Package tool is the contract that every part of wasmtools shares: what a tool
// says about itself, what one call of it is, what comes back, what it wants to
// change, and the closed table of error codes.
//
// It imports nothing of ours, so that every other package can speak it. It
// holds no policy and does no I/O.
package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// NamePattern is what a tool's name must match; [ValidName] checks it.
const NamePattern = `^[a-zA-Z0-9_-]{1,64}$`

// ValidName reports whether s can name a tool.
func ValidName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

// Mode says whether a call may run beside others of its batch.
type Mode string

// One sequential tool in a batch makes the whole batch run one by one.
const (
	Sequential Mode = "sequential" // the default, also for ""
	Parallel   Mode = "parallel"
)

// Visibility says whether a model may ever see a tool.
type Visibility string

const (
	Public Visibility = "public" // the default, also for ""
	Hidden Visibility = "internal"
)

// Definition is what a tool says about itself.
type Definition struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	Mode        Mode            `json:"mode,omitempty"`
	Effects     Effects         `json:"effects"`
	Visibility  Visibility      `json:"visibility,omitempty"`
	Guidelines  []string        `json:"guidelines,omitempty"`
	Packs       []string        `json:"packs,omitempty"`
}

// Source says where a tool came from.
type Source string

const (
	Builtin   Source = "builtin"
	Native    Source = "native"
	Installed Source = "installed"
	MCP       Source = "mcp"
	Host      Source = "host"
	Extension Source = "extension"
)

// ParseSource returns the source named s. Anything unknown is [Installed], the
// least trusted one.
func ParseSource(s string) Source {
	switch src := Source(s); src {
	case Builtin, Native, Installed, MCP, Host, Extension:
		return src
	}
	return Installed
}

// Origin is where a tool came from, and under which identity.
type Origin struct {
	Source  Source
	Name    string // the module's, server's or host's name
	Module  Digest // the module's identity; empty if there is no module
	Trusted bool
}

// Tool is something that a model can call.
//
// Call returns a Go error only if the runtime itself failed. A failure of the
// tool, a refusal and a timeout are results with IsError and a Code.
// Implementations are safe for concurrent use.
type Tool interface {
	Definition() Definition
	Origin() Origin
	Call(context.Context, Invocation, Sink) (Result, error)
}

// Preparer is an optional part of a Tool: it folds older argument spellings
// into the present schema before validation. It must not have effects.
type Preparer interface {
	PrepareArguments(json.RawMessage) (json.RawMessage, error)
}

// Previewer is an optional part of a Tool with effects: it finds out what a
// call would do, without doing it. When a tool has it, the preview's result is
// what the caller gets once [Preview.Writes] has been committed; a call whose
// preview is a Command is carried out by Call instead.
type Previewer interface {
	Preview(context.Context, Invocation, Sink) (Preview, error)
}

// Networker is an optional part of a Tool that uses the network: which hosts a
// call can reach, as names or patterns with an optional port.
type Networker interface {
	Hosts() []string
}

// Invocation is one frozen call.
type Invocation struct {
	CallID    string // unique within the session
	TurnID    string
	Session   string
	Tool      string
	Arguments json.RawMessage // validated; a JSON object
	Input     Digest          // of the canonical arguments (RFC 8785)
	Deadline  time.Time       // zero: none

	// Approved is the Binding of the Preview that was agreed to, of a call which
	// runs a command. The tool compares it with what it is about to do, as late as
	// it can, and answers approval_mismatch if it is something else.
	Approved Digest

	// Base are file changes that the call sees as made, though they are not on the
	// disk: those of the calls before it in a dry run. A preview's Writes begin
	// with them. Nil: there are none.
	Base *WriteSet

	// Plan is what to run in place of the command's text, of a call that a rule
	// allowed: what was judged is what runs. Nil: a person has agreed to the text.
	Plan *Plan
}

// Plan is a command as it was judged: either Pipe or Script. It runs with a fixed
// environment and Env, and nothing that a session has exported.
type Plan struct {
	Pipe   []Exec   // the programs of one pipeline, to be started without a shell
	Script string   // for bash, which then reads no start-up file
	Env    []string // NAME=value settings, on top of all others
}

// Exec is one program with its arguments; Args[0] is its name.
type Exec struct {
	Path string
	Args []string
}

// Preview is what a call would do.
type Preview struct {
	Result  Result    // what the call answers if its effects are accepted
	Writes  *WriteSet // the file changes; nil or empty if there are none
	Diff    string    // unified diff of Writes, for people
	Command string    // shell text as it would run; Writes does not count beside it
	Cwd     string    // of Command: real, absolute
	Env     map[string]string
	Profile string        // the sandbox of Command; empty: the tool has none of its own
	Shell   string        // that reads Command; empty: bash
	Into    string        // what reads Command, if it is typed: a program that runs in a session
	Changed bool          // that shell is not as it was started, so no rule can allow Command
	Timeout time.Duration // after which Command is killed; 0: never
	Hosts   []string
	Binding Digest // digest over everything above that an approval binds

	// Runs says that Call carries the call out, as it does where there is a
	// Command: an effect that is no text, such as opening a shell. Effects, if not
	// 0, are those of this call, of all that the tool can have.
	Runs    bool
	Effects Effects

	// InPerson says that no rule allows the call, and only a person at a terminal
	// of their own does.
	InPerson bool

	// Protected are the paths of Writes that a yes has to name. Nothing binds
	// them: the commit finds them out again, and refuses what was not allowed.
	Protected []ProtectedPath
}

// Sink takes what a running call sends before its result. Its methods do not
// block on a slow reader, may drop what is over their limits, and are safe for
// concurrent use. A nil *Discard is a valid Sink for callers that want nothing.
type Sink interface {
	Progress(done, total int64, note string)
	Output(stream string, p []byte)
	Artifact(ArtifactInfo, io.Reader) (ArtifactRef, error)
}

// Discard is the Sink that drops everything.
type Discard struct{}

func (Discard) Progress(int64, int64, string) {}
func (Discard) Output(string, []byte)         {}
func (Discard) Artifact(ArtifactInfo, io.Reader) (ArtifactRef, error) {
	return ArtifactRef{}, Errorf(NotAvailable, "no artifact store is open")
}

// ArtifactInfo describes an output that is archived instead of shown.
type ArtifactInfo struct {
	Title     string
	MIMEType  string
	Sensitive bool
}

// ArtifactRef names an archived output.
type ArtifactRef struct {
	Handle string
	Bytes  int64
	Lines  int64
	Digest Digest

	Dropped     int64 // bytes that were over the limit, at the end
	LongestLine int64 // code points
}

// Effects is the set of things that a call of a tool can do.
type Effects uint16

const (
	Reads       Effects = 1 << iota // reads the workspace or other state
	Writes                          // changes or creates files
	Destroys                        // removes or overwrites something
	Executes                        // runs programs
	UsesNetwork                     // talks to other machines
	AsksUser                        // asks the person at the keyboard
)

var effectNames = [...]string{"read", "write", "destroy", "execute", "network", "ask_user"}

// Has reports whether e contains all of x.
func (e Effects) Has(x Effects) bool { return e&x == x }

// Any reports whether e contains any of x.
func (e Effects) Any(x Effects) bool { return e&x != 0 }

// Strings lists the effects by their names on the wire.
func (e Effects) Strings() []string {
	out := make([]string, 0, len(effectNames))
	for i, n := range effectNames {
		if e&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return out
}

func (e Effects) String() string { return strings.Join(e.Strings(), ",") }

// MarshalJSON writes the list of names.
func (e Effects) MarshalJSON() ([]byte, error) { return json.Marshal(e.Strings()) }

// UnmarshalJSON reads a list of names; unknown names are an error.
func (e *Effects) UnmarshalJSON(p []byte) error {
	var names []string
	if err := json.Unmarshal(p, &names); err != nil {
		return err
	}
	*e = 0
next:
	for _, n := range names {
		for i, known := range effectNames {
			if n == known {
				*e |= 1 << i
				continue next
			}
		}
		return fmt.Errorf("unknown effect %q", n)
	}
	return nil
}
