package guest

import (
	"io"
	"unsafe"
)

// Kinds of a file system object, in [Info].
const (
	TypeFile  = "file"
	TypeDir   = "dir"
	TypeLink  = "link"  // a symbolic link, not followed
	TypeOther = "other" // device, FIFO, socket
)

// Info describes one name of the workspace.
type Info struct {
	Path    string // from the workspace root, with '/'
	Name    string
	Type    string
	Size    int64
	MTime   int64  // Unix milliseconds
	Mode    uint32 // permission bits with setuid, setgid and sticky
	Links   int64  // number of hard links
	Target  string // of a link that stays inside the workspace
	Outside bool   // a link that leaves the workspace, or another file system
	Ignored bool   // by a gitignore rule
	Secret  string // the rule by which it is a secret; then only Path, Name and Type are told
	Escaped bool   // the name is not UTF-8: its bad bytes stand as \xNN in Path and Name, which cannot be opened
}

// Skipped counts what a listing or a search left out, by reason.
type Skipped struct {
	Ignored, Unreadable, OtherFS, TooLarge, Binary, Denied, Protected int64
}

// Page is one page of a directory in name order.
type Page struct {
	Entries   []Info
	Total     int64
	Truncated bool
	Next      string // cursor of the next page
	Skipped   Skipped
}

// Edit replaces one literal text by another. Old is not empty; it must occur
// exactly once unless All is set.
type Edit struct {
	Old, New string
	All      bool
}

// LineRange is 1-based and inclusive.
type LineRange struct{ Start, End int64 }

// Change says what a write, edit, removal or move did.
type Change struct {
	Path         string
	From         string
	Created      bool
	Bytes        int64  // size after
	SHA256       string // of the content after, in hexadecimal
	Replacements int64
	Lines        []LineRange // of the replaced spans, in the new file
	CRLF         bool        // LF in a new text became CRLF, as the lines at its place end
	Encoding     string      // in which text was written, for people; empty: UTF-8, or bytes
	Removed      int64       // names removed
}

func infoOf(v Value) Info {
	return Info{
		Path:    v.Get("path").TextOr(""),
		Name:    v.Get("name").TextOr(""),
		Type:    v.Get("type").TextOr(""),
		Size:    v.Get("size").IntOr(0),
		MTime:   v.Get("mtime").IntOr(0),
		Mode:    uint32(v.Get("mode").IntOr(0)),
		Links:   v.Get("nlink").IntOr(0),
		Target:  v.Get("target").TextOr(""),
		Outside: v.Get("outside").BoolOr(false),
		Ignored: v.Get("ignored").BoolOr(false),
		Secret:  v.Get("secret").TextOr(""),
		Escaped: v.Get("escaped").BoolOr(false),
	}
}

func infosOf(v Value) []Info {
	out := make([]Info, 0, len(v.Items()))
	for _, item := range v.Items() {
		out = append(out, infoOf(item))
	}
	return out
}

func skippedOf(v Value) Skipped {
	return Skipped{
		Ignored:    v.Get("ignored").IntOr(0),
		Unreadable: v.Get("unreadable").IntOr(0),
		OtherFS:    v.Get("other_fs").IntOr(0),
		TooLarge:   v.Get("too_large").IntOr(0),
		Binary:     v.Get("binary").IntOr(0),
		Denied:     v.Get("denied").IntOr(0),
		Protected:  v.Get("protected").IntOr(0),
	}
}

// Fields gives the counts above zero under the names of the wire.
func (s Skipped) Fields() []Field {
	var out []Field
	add := func(key string, n int64) {
		if n > 0 {
			out = append(out, F(key, n))
		}
	}
	add("ignored", s.Ignored)
	add("unreadable", s.Unreadable)
	add("other_fs", s.OtherFS)
	add("too_large", s.TooLarge)
	add("binary", s.Binary)
	add("denied", s.Denied)
	add("protected", s.Protected)
	return out
}

func changeOf(v Value) Change {
	c := Change{
		Path:         v.Get("path").TextOr(""),
		From:         v.Get("from").TextOr(""),
		Created:      v.Get("created").BoolOr(false),
		Bytes:        v.Get("bytes").IntOr(0),
		SHA256:       v.Get("sha256").TextOr(""),
		Replacements: v.Get("replacements").IntOr(0),
		Removed:      v.Get("removed").IntOr(0),
		CRLF:         v.Get("crlf").BoolOr(false),
		Encoding:     v.Get("encoding").TextOr(""),
	}
	for _, r := range v.Get("lines").Items() {
		c.Lines = append(c.Lines, LineRange{r.Get("start").IntOr(0), r.Get("end").IntOr(0)})
	}
	return c
}

// maxPath is PATH_MAX of Linux, and the most that the host takes.
const maxPath = 4096

// tooLong refuses paths that the host would only refuse by their bytes.
func tooLong(paths ...string) error {
	for _, p := range paths {
		if len(p) > maxPath {
			return Fail(InvalidArguments, "a path has "+itoa(int64(len(p)))+" bytes; at most "+itoa(maxPath)+" are allowed").
				WithNext("use a shorter path")
		}
	}
	return nil
}

// Stat describes path. Links inside the workspace are followed; the answer's
// Path is the canonical one.
func (c *Call) Stat(path string) (Info, error) {
	if err := tooLong(path); err != nil {
		return Info{}, err
	}
	v, err := c.result(c.host.Stat(path))
	if err != nil {
		return Info{}, err
	}
	return infoOf(v), nil
}

// List gives one page of the directory path in name order: at most maxResults
// names (0 means 200, 1,000 is the most), beginning after cursor, which is
// empty or the Next of the page before.
func (c *Call) List(path string, maxResults int, cursor string) (Page, error) {
	if err := tooLong(path); err != nil {
		return Page{}, err
	}
	var opts []Field
	if maxResults != 0 {
		opts = append(opts, F("max_results", maxResults))
	}
	if cursor != "" {
		opts = append(opts, F("cursor", cursor))
	}
	v, err := c.result(c.host.List(path, Object(opts...).JSON()))
	if err != nil {
		return Page{}, err
	}
	return Page{
		Entries:   infosOf(v.Get("entries")),
		Total:     v.Get("total").IntOr(0),
		Truncated: v.Get("truncated").BoolOr(false),
		Next:      v.Get("next").TextOr(""),
		Skipped:   skippedOf(v.Get("skipped")),
	}, nil
}

// ReadAt reads bytes of the file path from offset off into p. Like
// [io.ReaderAt] it returns io.EOF where fewer than len(p) bytes are left. All
// reads of one path in one call see the same open file.
func (c *Call) ReadAt(path string, p []byte, off int64) (int, error) {
	if err := tooLong(path); err != nil {
		return 0, err
	}
	got := 0
	for got < len(p) {
		n, err := c.done(c.host.Read(path, off+int64(got), p[got:]))
		if err != nil {
			return got, err
		}
		if n > int64(len(p)-got) {
			return got, Fail(Internal, "a host function gave more bytes than there was room for")
		}
		if n == 0 {
			return got, io.EOF
		}
		got += int(n)
	}
	return got, nil
}

// ReadFile reads the whole file path, or fails with too_large if it has more
// than limit bytes.
func (c *Call) ReadFile(path string, limit int) ([]byte, error) {
	const step = 64 << 10
	buf := make([]byte, 0, min(step, limit)+1)
	for {
		n, err := c.ReadAt(path, buf[len(buf):cap(buf)], int64(len(buf)))
		buf = buf[:len(buf)+n]
		if len(buf) > limit {
			return nil, FailPath(TooLarge, path, "the file has more than "+itoa(int64(limit))+" bytes")
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
		bigger := make([]byte, len(buf), min(2*cap(buf), limit+1))
		copy(bigger, buf)
		buf = bigger
	}
}

// WriteFile makes the file path hold data, and makes its parents. If path
// exists, it fails with exists unless overwrite is set.
//
// Changes by this and the methods below are made in the call's own view: they
// reach the disk only after the call has ended without error and a person or a
// rule has accepted them.
func (c *Call) WriteFile(path string, data []byte, overwrite bool) (Change, error) {
	if err := tooLong(path); err != nil {
		return Change{}, err
	}
	return c.change(c.host.Write(path, data, flag(overwrite, FlagOverwrite)))
}

// WriteText is WriteFile for a string, without a copy of it.
func (c *Call) WriteText(path, text string, overwrite bool) (Change, error) {
	return c.WriteFile(path, unsafe.Slice(unsafe.StringData(text), len(text)), overwrite)
}

// Edit makes all edits in the file path, or none. Every Old is matched against
// the file as it was before; the matches must not overlap.
func (c *Call) Edit(path string, edits ...Edit) (Change, error) {
	return c.EditIn(path, "", edits...)
}

// EditIn is Edit for a file in an encoding that the host is not certain of; it
// is for Edit if encoding is empty.
func (c *Call) EditIn(path, encoding string, edits ...Edit) (Change, error) {
	if err := tooLong(path); err != nil {
		return Change{}, err
	}
	list := make([]Value, 0, len(edits))
	for _, e := range edits {
		fields := []Field{F("old", e.Old), F("new", e.New)}
		if e.All {
			fields = append(fields, F("all", true))
		}
		list = append(list, Object(fields...))
	}
	req := []Field{F("edits", list)}
	if encoding != "" {
		req = append(req, F("encoding", encoding))
	}
	return c.change(c.host.Edit(path, Object(req...).JSON()))
}

// Remove removes path; a directory, also an empty one, only if recursive is set.
func (c *Call) Remove(path string, recursive bool) (Change, error) {
	return c.remove(path, flag(recursive, FlagRecursive))
}

// RemovePermanently is Remove for what is not to be kept for an undo. Hosts that
// know no such thing keep it.
func (c *Call) RemovePermanently(path string, recursive bool) (Change, error) {
	return c.remove(path, flag(recursive, FlagRecursive)|FlagPermanent)
}

func (c *Call) remove(path string, flags int) (Change, error) {
	if err := tooLong(path); err != nil {
		return Change{}, err
	}
	return c.change(c.host.Remove(path, flags))
}

// Rename moves from to to and makes to's parents. If to exists, it fails with
// exists unless overwrite is set.
func (c *Call) Rename(from, to string, overwrite bool) (Change, error) {
	if err := tooLong(from, to); err != nil {
		return Change{}, err
	}
	return c.change(c.host.Rename(from, to, flag(overwrite, FlagOverwrite)))
}

// Mkdir makes the directory path and its parents.
func (c *Call) Mkdir(path string) error {
	if err := tooLong(path); err != nil {
		return err
	}
	_, err := c.done(c.host.Mkdir(path))
	return err
}

// Diff returns a unified diff of this call's changes so far, of at most limit
// bytes, cut at a line end and marked where it was longer.
func (c *Call) Diff(limit int) (string, error) {
	p, err := c.resultBytes(c.host.Diff(limit))
	return string(p), err
}

// Discard forgets every change of this call, as a dry run does at its end.
func (c *Call) Discard() error {
	_, err := c.done(c.host.Discard())
	return err
}

func (c *Call) change(ret int64) (Change, error) {
	v, err := c.result(ret)
	if err != nil {
		return Change{}, err
	}
	return changeOf(v), nil
}

func flag(on bool, bit int) int {
	if on {
		return bit
	}
	return 0
}
