package guest

import "strconv"

// Call is one call of a tool, and the way to the host while it runs. It must
// not be used after the tool has returned.
type Call struct {
	ID       string
	Deadline int64  // Unix nanoseconds; 0 = none
	Args     Value  // an object, validated by the host against the tool's schema
	RawArgs  []byte // their text; must not be changed

	host ABI
	tool *Tool
}

// Streams of [Call.Emit].
const (
	Stdout = 1
	Stderr = 2
)

// Levels of [Call.Log].
const (
	Debug = iota
	Note
	Warning
	Failure
)

// Emit sends partial output to whoever waits for the call, before its result.
// The host may drop what is over its limits.
func (c *Call) Emit(stream int, p []byte) error {
	_, err := c.done(c.host.Emit(stream, p))
	return err
}

// Progress reports that done of total steps are finished; total 0 means that
// it is not known.
func (c *Call) Progress(done, total int64, note string) error {
	_, err := c.done(c.host.Progress(done, total, note))
	return err
}

// Log writes a line to the host's log, which a model does not see.
func (c *Call) Log(level int, text string) error {
	_, err := c.done(c.host.Log(level, text))
	return err
}

// Fault is one thing that is wrong with the arguments.
type Fault struct {
	Path string // "$.selection.lines"
	Text string
}

// maxEcho is how many bytes of the arguments an error repeats, as the host does.
const maxEcho = 2000

// Invalid is the error for arguments that a schema cannot refuse, such as two
// forms of which exactly one is due. It reads as the host's own: every fault,
// then the schema, then what came.
func (c *Call) Invalid(faults ...Fault) *Error {
	text := "the arguments of " + c.tool.Name + " do not fit its schema"
	list := make([]Value, 0, len(faults))
	for _, f := range faults {
		text += "\n- " + f.Path + ": " + f.Text
		list = append(list, Object(F("path", f.Path), F("fault", f.Text)))
	}
	received := string(c.RawArgs)
	if len(received) > maxEcho {
		received = validPrefix(received, maxEcho) + "... (" + itoa(int64(len(c.RawArgs))) + " bytes in all)"
	}
	text += "\nschema: " + c.tool.Input + "\nreceived: " + received + "\n"
	return Fail(SchemaInvalid, text).With(F("faults", list))
}

// validPrefix cuts s to at most n bytes without cutting a rune in two.
func validPrefix(s string, n int) string {
	for n > 0 && n < len(s) && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:min(n, len(s))]
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
