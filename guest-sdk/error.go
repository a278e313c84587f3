package guest

import (
	"errors"
	"strconv"
	"unicode/utf8"
)

// Code is a stable, machine-readable reason; docs/errors.md lists all of them.
type Code string

// The codes that a tool can get from a host function or answer with itself.
const (
	SchemaInvalid    Code = "schema_invalid"
	InvalidArguments Code = "invalid_arguments"
	NotAvailable     Code = "not_available"
	Denied           Code = "denied"
	OutsideRoot      Code = "outside_root"
	Protected        Code = "protected"
	NotFound         Code = "not_found"
	NotRegular       Code = "not_regular"
	Exists           Code = "exists"
	NotUnique        Code = "not_unique"
	NoMatch          Code = "no_match"
	NoChange         Code = "no_change"
	Stale            Code = "stale"
	Encoding         Code = "encoding"
	TooLarge         Code = "too_large"
	Permission       Code = "permission"
	Timeout          Code = "timeout"
	Cancelled        Code = "cancelled"
	MemoryLimit      Code = "memory_limit"
	Trap             Code = "trap"
	Quota            Code = "quota"
	GrantMissing     Code = "grant_missing"
	Lost             Code = "lost"
	Upstream         Code = "upstream"
	Internal         Code = "internal"
)

// codeTable is the host's table of codes in the order of their numbers, with
// what stands for the text and the next move of an error without one. A test compares it with
// package tool.
var codeTable = [...]struct {
	code          Code
	meaning, next string
}{
	{"not_registered", "no tool of this name exists", "list the tools and use one of their names"},
	{NotAvailable, "the tool exists but cannot work now", "read the reason; it names what is missing"},
	{"not_exposed", "the tool exists but is not in this turn's list", "use a tool of the list, or find it with tool_search"},
	{SchemaInvalid, "the arguments do not fit the tool's schema", "mend every fault listed, then call again"},
	{InvalidArguments, "the arguments fit the schema but cannot be honoured", "change the argument that the text names"},
	{Denied, "a rule or a person said no", "do not repeat the call; read the reason and choose another way"},
	{"approval_required", "a person must agree first", "wait for the decision on the ticket, then repeat the same call"},
	{"approval_expired", "nobody answered in time", "make the call again to ask again"},
	{"approval_mismatch", "what would happen now is not what was approved", "make the call again; it asks again with the present state"},
	{OutsideRoot, "the path leaves the workspace", "use a path below the workspace root"},
	{Protected, "the path is protected or secret", "leave it, or ask a person to add the rule that the text names"},
	{NotFound, "nothing of this name exists", "list the directory or locate the name"},
	{NotRegular, "not a regular file, or not a directory where one is needed", "choose a path of the right kind"},
	{Exists, "the destination exists", "choose another name, or set overwrite if replacing it is meant"},
	{NotUnique, "the text occurs more than once", "add a neighbouring line to make it unique, or set replace_all"},
	{NoMatch, "the text does not occur", "read the lines again and copy them exactly"},
	{NoChange, "the call would change nothing", "nothing to do, or correct the arguments"},
	{Stale, "the file changed since it was read", "read it again, then repeat the change"},
	{Encoding, "the text's encoding cannot be kept or told", "read the text's note on the encoding"},
	{TooLarge, "over a size limit", "ask for less, or use bounded reads"},
	{Permission, "the operating system refused", "a person must change the rights of the file"},
	{Timeout, "the call's time is over", "ask for less, or raise the tool's time limit"},
	{Cancelled, "the caller withdrew the call", "repeat it if it is still wanted"},
	{MemoryLimit, "the module used all memory it may have", "ask for less, or raise the module's memory limit"},
	{Trap, "the module failed while running", "report it to the module's author"},
	{Quota, "a limit on output or calls was reached", "ask for less"},
	{GrantMissing, "the module was not granted what it tried to use", "ask a person to grant the capability that the text names"},
	{"invalid_module", "the module is damaged, unsupported or lies about itself", "get the module again, or report it to its author"},
	{"lock_mismatch", "the module is not the one that was locked", "review the change and accept it, or restore the module"},
	{"busy", "too many calls are waiting", "try again after the time that the text names"},
	{Lost, "the session or result no longer exists", "start a new one"},
	{Upstream, "a server behind this one failed", "try again later, or read its message"},
	{Internal, "the runtime itself failed", "report it with the text"},
}

func codeByNumber(n int64) Code {
	if n < 1 || n > int64(len(codeTable)) {
		return Internal
	}
	return codeTable[n-1].code
}

// Error is a failure that a model is meant to read: a code, the path as it was
// asked for, what happened, and the next move. Host functions return it, and a
// tool that returns one answers with it.
type Error struct {
	Code    Code
	Path    string // the requested path, if the failure is about one
	Text    string // what happened; lower case, no full stop; empty means the code's own
	Next    string // the next move; empty means the code's own
	Details Value  // an object with machine-readable extras, or missing
}

// Fail makes an Error without a path.
func Fail(code Code, text string) *Error { return &Error{Code: code, Text: text} }

// FailPath makes an Error about path.
func FailPath(code Code, path, text string) *Error {
	return &Error{Code: code, Path: path, Text: text}
}

// WithNext sets the next move and returns e.
func (e *Error) WithNext(next string) *Error {
	e.Next = next
	return e
}

// With adds details and returns e.
func (e *Error) With(fields ...Field) *Error {
	e.Details = Object(append(e.Details.Fields()[:len(e.Details.Fields()):len(e.Details.Fields())], fields...)...)
	return e
}

// Error gives the form that a model reads: code, path, fact, next move.
func (e *Error) Error() string {
	s := string(e.Code) + ": "
	if e.Path != "" {
		s += QuotePath(e.Path) + ": "
	}
	text, next := e.Text, e.Next
	for _, c := range codeTable {
		if c.code != e.Code {
			continue
		}
		if text == "" {
			text = c.meaning
		}
		if next == "" {
			next = c.next
		}
	}
	if next == "" {
		return s + text
	}
	return s + text + "; " + next
}

// CodeOf returns the code of err, internal for an error that has none, and ""
// for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// QuotePath returns p as it can stand in one line of text: unchanged if every
// rune can be printed, else as a Go string literal, so that control characters
// and bidirectional marks in a file's name can neither forge lines nor reorder
// what is read.
func QuotePath(p string) string {
	plain := p != "" && utf8.ValidString(p)
	for _, r := range p {
		plain = plain && strconv.IsPrint(r)
	}
	if plain {
		return p
	}
	return strconv.Quote(p)
}

// CodeNumber returns a code's number in the ABI, that of internal for one that
// is not in the table.
func CodeNumber(code Code) int {
	for i, c := range codeTable {
		if c.code == code {
			return i + 1
		}
	}
	return len(codeTable)
}
