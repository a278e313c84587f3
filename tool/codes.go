package tool

// Code is a stable machine-readable reason why a call did not do what was
// asked. The set is closed: [Codes] lists all of them, docs/errors.md shows
// the same table to people, and a test compares the two.
type Code string

// The codes, in the order of their numbers in the guest ABI.
const (
	NotRegistered    Code = "not_registered"
	NotAvailable     Code = "not_available"
	NotExposed       Code = "not_exposed"
	SchemaInvalid    Code = "schema_invalid"
	InvalidArguments Code = "invalid_arguments"
	Denied           Code = "denied"
	ApprovalRequired Code = "approval_required"
	ApprovalExpired  Code = "approval_expired"
	ApprovalMismatch Code = "approval_mismatch"
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
	InvalidModule    Code = "invalid_module"
	LockMismatch     Code = "lock_mismatch"
	Busy             Code = "busy"
	Lost             Code = "lost"
	Upstream         Code = "upstream"
	Internal         Code = "internal"
)

// CodeInfo describes one code.
type CodeInfo struct {
	Code    Code
	Meaning string // what happened, in one line
	Next    string // what the caller can do about it
}

// Codes is the whole table. A code's number in the guest ABI is its index plus
// one, so entries are only ever appended.
var Codes = [...]CodeInfo{
	{NotRegistered, "no tool of this name exists", "list the tools and use one of their names"},
	{NotAvailable, "the tool exists but cannot work now", "read the reason; it names what is missing"},
	{NotExposed, "the tool exists but is not in this turn's list", "use a tool of the list, or find it with tool_search"},
	{SchemaInvalid, "the arguments do not fit the tool's schema", "mend every fault listed, then call again"},
	{InvalidArguments, "the arguments fit the schema but cannot be honoured", "change the argument that the text names"},
	{Denied, "a rule or a person said no", "do not repeat the call; read the reason and choose another way"},
	{ApprovalRequired, "a person must agree first", "wait for the decision on the ticket, then repeat the same call"},
	{ApprovalExpired, "nobody answered in time", "make the call again to ask again"},
	{ApprovalMismatch, "what would happen now is not what was approved", "make the call again; it asks again with the present state"},
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
	{InvalidModule, "the module is damaged, unsupported or lies about itself", "get the module again, or report it to its author"},
	{LockMismatch, "the module is not the one that was locked", "review the change and accept it, or restore the module"},
	{Busy, "too many calls are waiting", "try again after the time that the text names"},
	{Lost, "the session or result no longer exists", "start a new one"},
	{Upstream, "a server behind this one failed", "try again later, or read its message"},
	{Internal, "the runtime itself failed", "report it with the text"},
}

var codeNumber = func() map[Code]int {
	m := make(map[Code]int, len(Codes))
	for i, c := range Codes {
		m[c.Code] = i + 1
	}
	return m
}()

// Number returns the code's number in the guest ABI (1 and up), or 0 for a
// code that is not in the table.
func (c Code) Number() int { return codeNumber[c] }

// CodeByNumber is the inverse of [Code.Number]. Numbers outside the table give
// [Internal], because they can come from a guest.
func CodeByNumber(n int) Code {
	if n < 1 || n > len(Codes) {
		return Internal
	}
	return Codes[n-1].Code
}

// Info returns the code's row of the table.
func (c Code) Info() CodeInfo {
	if n := c.Number(); n > 0 {
		return Codes[n-1]
	}
	return CodeInfo{Code: c, Meaning: "unknown code", Next: "report it"}
}
