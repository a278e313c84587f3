// Package evidence keeps the record of what happened: for every call an intent
// before it acts and an outcome before it answers, joined to what was asked,
// which rule or person allowed it, what ran and what came out.
//
// The record of a workspace is a folder of segments: lines of JSON, only ever
// appended, each with a hash over the line before it, a code that only the
// holder of the local key can make, and now and then a signature. Several
// processes may write at once. [Verify] finds any edit, removal, insertion,
// reordering or truncation and says where. What a process that was killed left
// half-written is told apart from that, stays where it is, and is passed over;
// nothing that was written is ever written again.
//
// The edge: whoever can read the key can write a record that verifies, and so
// can put back an older copy of the whole folder. Only a copy that stands
// elsewhere shows that: see [Log.Anchor]. An outcome says what this runtime saw
// of one call, and nothing about what other programs did. Secrets are taken out
// by rules before anything is written; a secret that no rule knows, and that was
// not handed in, is not recognised.
package evidence

import (
	"encoding/json"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// Sink takes what happens to calls. It is safe for concurrent use; [Log] is
// the one that this package offers, an embedding program may bring its own.
//
// Begin, Event and End return when the record is written; all of it is flushed
// to the disk within [FlushWithin]. A [Started] event of a call that destroys or
// executes returns when its intent has been flushed: the flush begins with Begin,
// so that looking at the call and judging it take no time of their own. A caller
// whose Begin or Started event fails must not carry out a call with effects.
//
// A handle can be ended with [Waiting] and then, when the ticket was decided,
// once more with what came of it. Any other status is the last word.
type Sink interface {
	Begin(Intent) (Handle, error)
	Event(Handle, Event) error
	End(Handle, Outcome) error
}

// Handle names a call that was begun, within one record. It is short and stays
// the call's name in the record: `wasmtools evidence show HANDLE`.
type Handle string

// Discard is the Sink that keeps nothing.
type Discard struct{}

func (Discard) Begin(Intent) (Handle, error) { return "", nil }
func (Discard) Event(Handle, Event) error    { return nil }
func (Discard) End(Handle, Outcome) error    { return nil }

// FlushWithin bounds how long a record that was written waits to be flushed to
// the disk. A crash of this process loses nothing; one of the machine can lose
// that much.
const FlushWithin = 50 * time.Millisecond

// Intent is a call as it was frozen, before anything was done.
type Intent struct {
	Call      string    `json:"call"`
	Turn      string    `json:"turn,omitempty"`
	Session   string    `json:"session,omitempty"`
	Trace     string    `json:"trace,omitempty"`
	Principal string    `json:"principal,omitempty"`
	Asked     time.Time `json:"asked,omitzero"` // when the request came; zero: not told

	Tool       string       `json:"tool"`
	As         string       `json:"as,omitempty"` // the name it was called by, if that was an alias or mcp_invoke
	Source     tool.Source  `json:"source,omitempty"`
	From       string       `json:"from,omitempty"`       // the module's, server's or host's name
	Module     tool.Digest  `json:"module,omitempty"`     // identity of the module, if there is one
	Definition tool.Digest  `json:"definition,omitempty"` // see [DefinitionDigest]
	Effects    tool.Effects `json:"effects"`

	// Arguments are those that were validated. They are written redacted, and
	// long texts in them cut with their digest kept.
	Arguments json.RawMessage `json:"arguments,omitempty"`

	// Input is the digest of the canonical arguments. If something was redacted
	// it is written as "hmac-sha256:...", keyed, so that nobody can try secrets
	// against it.
	Input tool.Digest `json:"input,omitempty"`

	// Secrets are values that must not be written wherever they occur in this
	// call's records, beside those that the rules find. They are never written.
	Secrets []string `json:"-"`
}

// EventKind says what happened while a call ran.
type EventKind string

const (
	Started          EventKind = "start"             // it begins to act: nothing before this had effects
	Progress         EventKind = "progress"          //
	Output           EventKind = "output"            // partial output; see [Event.Bytes]
	ArtifactMade     EventKind = "artifact"          //
	ApprovalRequired EventKind = "approval_required" // a person or rule is asked; Approval says what
	Decided          EventKind = "decided"           // the answer; Approval says whose
	Finished         EventKind = "finish"            // it has acted; the outcome follows
)

// Event is something that happened between intent and outcome.
type Event struct {
	Kind     EventKind `json:"event"`
	Note     string    `json:"note,omitempty"` // for people; redacted
	Done     int64     `json:"done,omitempty"` // of Total, for progress
	Total    int64     `json:"total,omitempty"`
	Stream   string    `json:"stream,omitempty"`   // stdout, stderr, ... for output
	Bytes    int64     `json:"bytes,omitempty"`    // of output; filled in from Text
	Artifact *Artifact `json:"artifact,omitempty"` //
	Approval *Approval `json:"approval,omitempty"`
	Writes   []Write   `json:"writes,omitempty"` // what a yes would commit, for approval_required

	// Text is the output itself. The event tells its size only; the beginning of
	// each stream is written with the outcome, redacted as a whole, because a
	// secret may come in two pieces.
	Text []byte `json:"-"`
}

// Approval says how it came that a call was allowed or not.
type Approval struct {
	Verdict string      `json:"verdict,omitempty"` // allow, deny, ask, expired, ...
	Rule    Rule        `json:"rule,omitzero"`     // that matched
	By      string      `json:"by,omitempty"`      // who answered
	Channel string      `json:"channel,omitempty"` // through what
	Ticket  string      `json:"ticket,omitempty"`
	Binding tool.Digest `json:"binding,omitempty"` // of what was approved
	Reason  string      `json:"reason,omitempty"`  // given with a no
	Saved   string      `json:"saved,omitempty"`   // the rule that was saved with a yes, as it was shown
	Expires time.Time   `json:"expires,omitzero"`
	Asked   time.Time   `json:"asked,omitzero"`
	Decided time.Time   `json:"decided,omitzero"`
}

// Rule names a rule by where it stands. File is a name of the host: it is for
// people, not for models.
type Rule struct {
	Name string `json:"name,omitempty"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Status is how a call stands.
type Status string

const (
	Completed Status = "completed"
	Failed    Status = "failed"
	Denied    Status = "denied"
	Timeout   Status = "timeout"
	Cancelled Status = "cancelled"
	Waiting   Status = "waiting" // for a decision; a ticket stands for it

	// The following two are never written: they are what an intent without an
	// outcome is reported as.
	Interrupted Status = "interrupted" // the process that ran it is gone
	Running     Status = "running"     // the process that runs it is alive
)

// Outcome is what came of a call.
type Outcome struct {
	Status  Status    `json:"status"`
	Code    tool.Code `json:"code,omitempty"`
	Refused string    `json:"refused,omitempty"` // the state of the tool in which the call was refused: registered, public, ...
	Message string    `json:"message,omitempty"` // of an error: the text that the caller got; redacted
	Began   time.Time `json:"began,omitzero"`    // to act; zero: it never did

	Approval Approval `json:"approval,omitzero"`
	Writes   []Write  `json:"writes,omitempty"` // what was committed
	Used     Used     `json:"used,omitzero"`

	// Output is the digest of what the caller got. It is written keyed if the
	// result is sensitive or anything of the call was redacted.
	Output      tool.Digest `json:"output,omitempty"`
	OutputBytes int64       `json:"output_bytes,omitempty"`
	Sensitive   bool        `json:"sensitive,omitempty"`

	ExitCode *int       `json:"exit_code,omitempty"` // of a command
	Artifact []Artifact `json:"artifacts,omitempty"`

	Secrets []string `json:"-"` // more values that must not be written; see [Intent.Secrets]
}

// Write is one change of a write set, without its content.
type Write struct {
	Op     tool.WriteOp `json:"op"`
	Path   string       `json:"path"`
	From   string       `json:"from,omitempty"`
	Before tool.Digest  `json:"before,omitempty"`
	After  tool.Digest  `json:"after,omitempty"`
	Size   int64        `json:"size,omitempty"`

	Permanent bool `json:"permanent,omitempty"` // of a deletion: nothing is kept for an undo
}

// WritesOf is w as it is recorded; nil for nothing.
func WritesOf(w *tool.WriteSet) []Write {
	if w.Empty() {
		return nil
	}
	list := make([]Write, len(w.Entries))
	for i, e := range w.Entries {
		before := e.Before
		if before == "" {
			before = e.Stamp
		}
		list[i] = Write{Op: e.Op, Path: e.Path, From: e.From, Before: before, After: e.After, Size: e.Size, Permanent: e.Permanent}
	}
	return list
}

// Used is what a call asked of the host.
type Used struct {
	HostCalls     int64            `json:"host_calls,omitempty"`
	ByFunction    map[string]int64 `json:"by_function,omitempty"`
	BytesRead     int64            `json:"bytes_read,omitempty"` // from files
	Requests      int64            `json:"requests,omitempty"`   // over HTTP
	BytesSent     int64            `json:"bytes_sent,omitempty"`
	BytesReceived int64            `json:"bytes_received,omitempty"`
	Paths         []string         `json:"paths,omitempty"` // that were opened, relative to the workspace
	Hosts         []string         `json:"hosts,omitempty"` // that were asked
	MemoryPeak    int64            `json:"memory_peak,omitempty"`
	Fuel          uint64           `json:"fuel,omitempty"`
}

// Artifact is an archived output.
type Artifact struct {
	Handle string      `json:"handle"`
	Title  string      `json:"title,omitempty"`
	Bytes  int64       `json:"bytes,omitempty"`
	Digest tool.Digest `json:"digest,omitempty"`
}

// StatusOf is the status of a call that was answered with r.
func StatusOf(r tool.Result) Status {
	if !r.IsError {
		return Completed
	}
	switch r.Code {
	case tool.ApprovalRequired:
		return Waiting
	case tool.Denied, tool.Protected, tool.ApprovalExpired, tool.ApprovalMismatch,
		tool.NotRegistered, tool.NotAvailable, tool.NotExposed:
		return Denied
	case tool.Timeout:
		return Timeout
	case tool.Cancelled:
		return Cancelled
	}
	return Failed
}

// DefinitionDigest names what a tool says about itself, as a model saw it.
// Computing it marshals the definition: do it once a list, not once a call.
func DefinitionDigest(d tool.Definition) tool.Digest {
	p, err := json.Marshal(d)
	if err != nil {
		return "" // a schema that is no JSON; the catalog refuses such a tool
	}
	return tool.DigestOf(p)
}
