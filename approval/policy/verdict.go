package policy

import (
	"strconv"

	"github.com/wasmtools/wasmtools/approval/shell"
)

// Verdict is what Judge found.
type Verdict struct {
	Decision Decision
	Rule     Ref    // what decided
	Reason   string // why, in a sentence for models and people; no host path

	// Findings are the parts of the call, each with what decided about it.
	Findings []Finding

	// Smallest is the rule that would allow this call and no other; nil if none
	// can: then Instead says what a person could change.
	Smallest *Rule
	Instead  string

	// Save is a rule fit to be saved from an answer: as narrow as Smallest but for
	// what changes from call to call (content, operands). Nil if none is offered,
	// as for a shell, an interpreter or a wrapper.
	Save *Rule

	// Plan is what to run instead of the text of a command: what was judged. It is
	// nil for other calls, and for a text that cannot be read for certain; such a
	// text may run as it is only if a person has seen it.
	Plan *shell.Plan

	// InPerson says that only a person at the human's own channel may answer: the
	// call touches a protected path or leaves the sandbox. A blanket yes and an
	// answer through a client do not count.
	InPerson bool
}

// Finding is the verdict on one part of a call.
type Finding struct {
	Part     string // "write docs/a.md", "host api.example.com", "command git status"
	Decision Decision
	Rule     Ref
	Why      string
}

func place(file string, line int) string {
	if line <= 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}
