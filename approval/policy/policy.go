// Package policy says whether a call may be made: allowed, asked about, or
// denied. Rules are values, [Judge] is a pure function of rules and call, and
// every verdict names the rule that gave it, where that rule stands, and the
// smallest rule that would allow this call and no other.
//
// The strictest rule wins, whatever its place: deny over ask over allow. What
// no rule speaks of is asked. So a rule more that denies or asks, or a rule
// less that allows, never loosens anything.
//
// The edge: Judge decides by what it is told. Real paths, hosts and the working
// directory come from the caller, who has to have resolved them, and to bind
// what was judged to what runs. A rule about paths sees what a call names and
// what its write set holds, not what a search meets on its way: that is what
// the workspace's deny_read is for.
package policy

import (
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// Decision is what a rule, or all of them together, say about a call.
type Decision string

const (
	Allow Decision = "allow"
	Ask   Decision = "ask"
	Deny  Decision = "deny"
)

// Stricter returns the stricter of two decisions. Anything unknown is Deny.
func (d Decision) Stricter(other Decision) Decision {
	if other.rank() > d.rank() {
		return other
	}
	return d
}

func (d Decision) rank() int {
	switch d {
	case Allow:
		return 0
	case Ask:
		return 1
	}
	return 2
}

// Mode says what happens to calls that no rule speaks of.
type Mode string

const (
	ModeAsk        Mode = "ask"         // a person is asked about everything with effects; also for ""
	ModeAllowEdits Mode = "allow-edits" // changes of files of the workspace, but for protected ones, need no question
	ModePlan       Mode = "plan"        // nothing with effects happens, whatever rules allow
	ModeDeny       Mode = "deny"        // nobody is asked: what no rule allows is denied
)

// Headless says what happens to a call that is to be asked about when there is
// nobody to ask.
type Headless string

const (
	HeadlessDeny  Headless = "deny"  // it ends with approval_required; also for ""
	HeadlessQueue Headless = "queue" // its ticket waits for a decision from another channel
)

// Layer says who wrote a rule. A layer gives no precedence: strictest wins.
type Layer string

const (
	User      Layer = "user"      // the user's own configuration
	Workspace Layer = "workspace" // the workspace's own file; ask and deny only
	Saved     Layer = "saved"     // saved by a person from an answer
	BuiltIn   Layer = "builtin"   // what holds without any rule: modes, protected and secret paths
)

// Origin is where a rule stands.
type Origin struct {
	Layer Layer  `json:"layer"`
	File  string `json:"file,omitempty"` // as a person would open it; may be a host path, so it is not for models
	Line  int    `json:"line,omitempty"` // of the rule's first line, from 1; 0 if there is no file
}

// Rule is one line of a policy. Every criterion that is set must fit; one that
// is not set fits anything, but see [Rule.Commands], [Rule.Protected] and
// [Rule.Profiles].
//
// A rule that asks or denies holds if its criteria fit any part of a call: one
// path, one host, one command of a pipe. A call is allowed only if each of its
// parts is allowed by some rule; different parts may be allowed by different
// rules. A rule with paths, hosts or commands allows only parts of those kinds.
type Rule struct {
	Name     string
	Decision Decision

	Tools   []string      // names, or globs with *; as registered, not aliases
	Sources []tool.Source // where the tool came from
	Modules []tool.Digest // identities of modules
	Inputs  []tool.Digest // digests of the canonical arguments: exactly these calls

	// Effects: a rule that allows fits if the call has no other effects than
	// these, one that asks or denies if the call has any of them. 0 fits all.
	Effects tool.Effects

	// Paths are doublestar globs over canonical paths relative to the workspace
	// root. One that begins with a slash fits real paths outside it.
	Paths []string

	// Protected names rules of the list of protected or secret paths ("git",
	// "env", ...) that this rule means to allow. Without it, a protected path is
	// allowed only by a glob that is exactly that path.
	Protected []string

	// Hosts are names, "*.example.com" (every name below) or "*", with ":port" if
	// only that port is meant.
	Hosts []string

	// Commands are patterns of leading words, compared with each simple command
	// of a shell text (package shell). A command is never allowed by a rule
	// without them.
	Commands [][]string

	// Exact are patterns of all words: they fit a simple command of exactly these
	// words, whatever options are among them.
	Exact [][]string

	// Workspaces are the real paths of the roots for which the rule holds.
	Workspaces []string

	// Profiles are sandbox profiles of the terminal. A rule that allows and names
	// none does not hold under profile "none".
	Profiles []string

	Expires time.Time // from then on the rule does not hold; zero: never
	Reason  string    // shown with the verdict, to models too

	Origin Origin
	ID     string // of a saved rule: what revokes it
}

// Ref names a rule for records and people.
type Ref struct {
	Name string `json:"name"`
	Origin
	ID string `json:"id,omitempty"`
}

// Ref returns the reference to r.
func (r *Rule) Ref() Ref { return Ref{r.Name, r.Origin, r.ID} }

// String is the reference without any host path: a name, and the last element
// of the file with the line.
func (r Ref) String() string {
	s := tool.QuotePath(r.Name)
	switch {
	case r.Layer == BuiltIn && r.File == "":
		return s + " (built in)"
	case r.File == "":
		return s
	}
	file := r.File[strings.LastIndexAny(r.File, `/\`)+1:]
	if r.Layer == Workspace {
		file = "the workspace's " + file
	}
	return s + " (" + place(file, r.Line) + ")"
}

// Policy is everything that Judge goes by. Its zero value asks about every call
// with effects.
type Policy struct {
	Rules    []Rule
	Mode     Mode
	ModeAt   Origin // where Mode was set; zero: nowhere, it is the default
	Headless Headless

	// Unsandboxed lets commands run under profile "none" at all. Each one is
	// asked about unless a rule names the profile.
	Unsandboxed bool
}
