package guest

import "unsafe"

// FileText is a whole file as text.
type FileText struct {
	Text     []byte // UTF-8, without a byte order mark
	Encoding string // of the file, for people
	Exact    bool   // else what is no text in that encoding stands as U+FFFD
	Size     int64  // of the file, in bytes
}

// textABI is the part of the ABI that turns a file's bytes into text and back.
// As with outsideABI, only modules that use it import it.
type textABI interface {
	ReadText(path, encoding string) int64
	WriteText(path string, text []byte, encoding string, flags int) int64
}

func (c *Call) text() (textABI, error) {
	t, ok := c.host.(textABI)
	if !ok {
		return nil, Fail(NotAvailable, "this host knows no encodings")
	}
	return t, nil
}

// ReadText gives the text of the file path, of up to 8 MiB. An empty encoding
// means the one that the host is certain of; if it is of none, it fails with
// encoding, and the details have the "candidates".
func (c *Call) ReadText(path, encoding string) (FileText, error) {
	if err := tooLong(path); err != nil {
		return FileText{}, err
	}
	t, err := c.text()
	if err != nil {
		return FileText{}, err
	}
	p, err := c.resultBytes(t.ReadText(path, encoding))
	if err != nil {
		return FileText{}, err
	}
	head, body, err := split(p)
	if err != nil {
		return FileText{}, err
	}
	return FileText{
		Text:     body,
		Encoding: head.Get("encoding").TextOr(""),
		Exact:    head.Get("exact").BoolOr(false),
		Size:     head.Get("size").IntOr(0),
	}, nil
}

// split takes a result apart that is JSON with its length before it, and bytes
// after it.
func split(p []byte) (head Value, body []byte, err error) {
	if len(p) < 4 || uint64(u32(p)) > uint64(len(p)-4) {
		return Value{}, nil, Fail(Internal, "a host function gave an answer without a head")
	}
	n := int(u32(p))
	if head, err = Parse(p[4 : 4+n]); err != nil {
		return Value{}, nil, Fail(Internal, "a host function answered with "+err.Error())
	}
	return head, p[4+n:], nil
}

// WriteTextIn is WriteText in an encoding. If that is empty, a file that is
// overwritten keeps its own, with its byte order mark, and a new one is UTF-8.
func (c *Call) WriteTextIn(path, text, encoding string, overwrite bool) (Change, error) {
	if err := tooLong(path); err != nil {
		return Change{}, err
	}
	t, err := c.text()
	if err != nil {
		return Change{}, err
	}
	return c.change(t.WriteText(path, unsafe.Slice(unsafe.StringData(text), len(text)), encoding, flag(overwrite, FlagOverwrite)))
}
