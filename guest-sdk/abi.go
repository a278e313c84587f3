package guest

// ABI is the set of host functions exactly as docs/abi.md lists them: zero or
// more is a value, below zero an error number, and results and errors are
// fetched by ResultRead and ErrorRead. In a module the runtime is behind it; in
// tests it is package guesttest. Tools never use it: the methods of [Call] do.
type ABI interface {
	ResultRead(buf []byte, off int) int64
	ErrorRead(buf []byte) int64
	Stat(path string) int64
	List(path string, opts []byte) int64
	Read(path string, off int64, buf []byte) int64
	Write(path string, data []byte, flags int) int64
	Edit(path string, edits []byte) int64
	Remove(path string, flags int) int64
	Rename(from, to string, flags int) int64
	Mkdir(path string) int64
	Diff(max int) int64
	Discard() int64
	Search(req []byte) int64
	Emit(stream int, data []byte) int64
	Progress(done, total int64, note string) int64
	Log(level int, text string) int64
}

// Flags of Write, Remove and Rename in the ABI.
const (
	FlagOverwrite = 1 // Write, Rename
	FlagRecursive = 1 // Remove
	FlagPermanent = 2 // Remove: nothing is kept for an undo
)

// Bounds on what is accepted from a host function. The host's own limits are
// far lower; these keep a wrong length from taking all memory.
const (
	maxResult = 32 << 20
	maxError  = 64 << 10
)

// done turns what a host function returned into a value or an error.
func (c *Call) done(ret int64) (int64, error) {
	if ret >= 0 {
		return ret, nil
	}
	e := &Error{Code: codeByNumber(-ret)}
	buf := make([]byte, 4<<10)
	n := c.host.ErrorRead(buf)
	if n == int64(len(buf)) {
		buf = make([]byte, maxError)
		n = c.host.ErrorRead(buf)
	}
	if n <= 0 || n > int64(len(buf)) {
		return 0, e
	}
	v, err := Parse(buf[:n])
	if err != nil {
		return 0, e
	}
	if code := v.Get("code").TextOr(""); code != "" {
		e.Code = Code(code)
	}
	e.Path = v.Get("path").TextOr("")
	e.Text = v.Get("text").TextOr("")
	e.Next = v.Get("next").TextOr("")
	if d := v.Get("details"); d.Kind() == ObjectKind {
		e.Details = d
	}
	return 0, e
}

// result fetches the JSON that a host function left, whose length it returned.
func (c *Call) result(ret int64) (Value, error) {
	p, err := c.resultBytes(ret)
	if err != nil {
		return Value{}, err
	}
	v, err := Parse(p)
	if err != nil {
		return Value{}, Fail(Internal, "a host function answered with "+err.Error())
	}
	return v, nil
}

func (c *Call) resultBytes(ret int64) ([]byte, error) {
	size, err := c.done(ret)
	if err != nil {
		return nil, err
	}
	if size > maxResult {
		return nil, Fail(Internal, "a host function answered with more than 32 MiB")
	}
	buf := make([]byte, size)
	for off := 0; off < len(buf); {
		n, err := c.done(c.host.ResultRead(buf[off:], off))
		if err != nil {
			return nil, err
		}
		if n == 0 || n > int64(len(buf)-off) {
			return nil, Fail(Internal, "a host function announced another length than it gave")
		}
		off += int(n)
	}
	return buf, nil
}
