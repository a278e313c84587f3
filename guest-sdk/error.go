package guest

import (
	"errors"
	"strconv"
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
// the next move that stands for an error without one. A test compares it with
// package tool.
var codeTable = [...]struct {
	code Code
	next string
}{
	{"not_registered", "list the tools and use one of their names"},
	{NotAvailable, "read the reason; it names what is missing"},
	{"not_exposed", "use a tool of the list, or find it with tool_search"},
	{SchemaInvalid, "mend every fault listed, then call again"},
	{InvalidArguments, "change the argument that the text names"},
	{Denied, "do not repeat the call; read the reason and choose another way"},
	{"approval_required", "wait for the decision on the ticket, then repeat the same call"},
	{"approval_expired", "make the call again to ask again"},
	{"approval_mismatch", "make the call again; it asks again with the present state"},
	{OutsideRoot, "use a path below the workspace root"},
	{Protected, "leave it, or ask a person to add the rule that the text names"},
	{NotFound, "list the directory or locate the name"},
	{NotRegular, "choose a path of the right kind"},
	{Exists, "choose another name, or set overwrite if replacing it is meant"},
	{NotUnique, "add a neighbouring line to make it unique, or set replace_all"},
	{NoMatch, "read the lines again and copy them exactly"},
	{NoChange, "nothing to do, or correct the arguments"},
	{Stale, "read it again, then repeat the change"},
	{Encoding, "read the text's note on the encoding"},
	{TooLarge, "ask for less, or use bounded reads"},
	{Permission, "a person must change the rights of the file"},
	{Timeout, "ask for less, or raise the tool's time limit"},
	{Cancelled, "repeat it if it is still wanted"},
	{MemoryLimit, "ask for less, or raise the module's memory limit"},
	{Trap, "report it to the module's author"},
	{Quota, "ask for less"},
	{GrantMissing, "ask a person to grant the capability that the text names"},
	{"invalid_module", "get the module again, or report it to its author"},
	{"lock_mismatch", "review the change and accept it, or restore the module"},
	{"busy", "try again after the time that the text names"},
	{Lost, "start a new one"},
	{Upstream, "try again later, or read its message"},
	{Internal, "report it with the text"},
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
	Text    string // what happened; lower case, no full stop
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
	next := e.Next
	if next == "" {
		for _, c := range codeTable {
			if c.code == e.Code {
				next = c.next
			}
		}
	}
	if next == "" {
		return s + e.Text
	}
	return s + e.Text + "; " + next
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
	if p == "" {
		return `""`
	}
	for i, r := range p {
		if r == '\ufffd' && p[i] != 0xef || !strconv.IsPrint(r) {
			return strconv.Quote(p)
		}
	}
	return p
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
