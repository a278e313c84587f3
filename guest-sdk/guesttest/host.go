// Package guesttest runs a module's tools natively, against a host made of
// memory, so that their unit tests need neither an engine nor a workspace.
//
//	h := guesttest.New()
//	h.Put("a.txt", "one two\n")
//	r := h.Call("word_count", `{"path":"a.txt"}`)
//
// A call goes the way of a real one: the request is encoded, the tool finds its
// arguments through package guest, and its response is decoded again.
//
// The host is a stand-in. It keeps the shapes of what the real one answers, and
// its error codes, but not its care: there are no ignore rules, no rights and
// no links to follow, the search is a plain loop, and a diff is one hunk per
// file. What depends on those is tested against the real host.
package guesttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

// File is one object of the fake workspace.
type File struct {
	Data    []byte
	Type    string // guest.TypeFile if empty
	Target  string // of a link
	MTime   int64  // Unix milliseconds
	Mode    uint32
	Ignored bool
	Outside bool
}

// Host is a workspace in memory and everything else that a call may ask for.
// It is used by one goroutine at a time.
type Host struct {
	Files map[string]*File // by path; parents need no entry of their own

	// Search, if set, answers the search function instead of the plain loop:
	// it gets the request and returns the response, or an error.
	Search func(req Request) (Response, error)

	// Deny, if set, is asked before every file function; an error is answered.
	Deny func(function, path string) error

	Calls    []string // names of the host functions called, in order
	Logged   []string
	Emitted  []byte
	Progress []string

	before map[string]*File // as the call began
	result []byte
	fail   []byte
}

// New returns a host with an empty workspace.
func New() *Host { return &Host{Files: map[string]*File{}} }

// Put makes the file name hold text.
func (h *Host) Put(name, text string) *File {
	f := &File{Data: []byte(text), MTime: 1767323045000, Mode: 0o644}
	h.Files[name] = f
	return f
}

// Text returns what the file name holds, "" if there is none.
func (h *Host) Text(name string) string {
	if f := h.Files[name]; f != nil {
		return string(f.Data)
	}
	return ""
}

// CallResult is a decoded response.
type CallResult struct {
	Content []struct {
		Type, Text, Data, MIMEType, URI, Name string
	}
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool
	Meta       struct {
		Code    string          `json:"wasmtools/code"`
		Details json.RawMessage `json:"wasmtools/details"`
	} `json:"_meta"`
	Raw []byte `json:"-"`
}

// Text joins the text blocks.
func (r CallResult) Text() string {
	var out []string
	for _, c := range r.Content {
		if c.Type == "text" {
			out = append(out, c.Text)
		}
	}
	return strings.Join(out, "\n")
}

// Details decodes the machine-readable extras.
func (r CallResult) Details() map[string]any {
	m := map[string]any{}
	json.Unmarshal(r.Meta.Details, &m)
	return m
}

// Call runs the registered tool name with arguments in JSON. If the call fails,
// the workspace is as it was before.
func (h *Host) Call(name, args string) CallResult {
	index := slices.IndexFunc(guest.Tools(), func(t guest.Tool) bool { return t.Name == name })
	if index < 0 {
		panic("guesttest: no tool is named " + name)
	}
	h.before = h.copy()
	h.result, h.fail = nil, nil
	var r CallResult
	r.Raw = guest.Serve(abi{h}, EncodeRequest(uint32(index), "call-1", 0, []byte(args)))
	if err := json.Unmarshal(r.Raw, &r); err != nil {
		panic(fmt.Sprintf("guesttest: the response is not JSON: %v\n%s", err, r.Raw))
	}
	if r.IsError {
		h.Files = h.before
	}
	return r
}

// EncodeRequest encodes a request as docs/abi.md lays it out.
func EncodeRequest(tool uint32, callID string, deadline int64, args []byte) []byte {
	p := binary.LittleEndian.AppendUint32(nil, guest.ABIVersion)
	p = binary.LittleEndian.AppendUint32(p, tool)
	p = binary.LittleEndian.AppendUint64(p, uint64(deadline))
	p = binary.LittleEndian.AppendUint32(p, uint32(len(callID)))
	p = binary.LittleEndian.AppendUint32(p, uint32(len(args)))
	p = binary.LittleEndian.AppendUint64(p, 0)
	return append(append(p, callID...), args...)
}

func (h *Host) copy() map[string]*File {
	m := make(map[string]*File, len(h.Files))
	for name, f := range h.Files {
		c := *f
		c.Data = bytes.Clone(f.Data)
		m[name] = &c
	}
	return m
}

// abi is the Host as package guest sees it; a type of its own, because its
// methods have the names of fields of Host.
type abi struct{ *Host }

func (a abi) answer(v any) int64 {
	a.result, _ = json.Marshal(v)
	return int64(len(a.result))
}

// refuse answers with err: its code's number, the rest for ErrorRead.
func (a abi) refuse(err error) int64 {
	e, ok := errors.AsType[*guest.Error](err)
	if !ok {
		e = guest.Fail(guest.Internal, err.Error())
	}
	m := map[string]any{"code": e.Code, "path": e.Path, "text": e.Text, "next": e.Next}
	if e.Details.Exists() {
		m["details"] = json.RawMessage(e.Details.JSON())
	}
	a.fail, _ = json.Marshal(m)
	return -int64(guest.CodeNumber(e.Code))
}

func (a abi) enter(function, name string) (string, error) {
	a.Calls = append(a.Calls, function)
	clean, err := resolve(name)
	if err != nil {
		return "", err
	}
	if a.Deny != nil {
		if err := a.Deny(function, clean); err != nil {
			return "", err
		}
	}
	return clean, nil
}

// resolve cleans a path; "" is the root.
func resolve(name string) (string, error) {
	if strings.Contains(name, "\x00") {
		return "", guest.FailPath(guest.InvalidArguments, name, "the path holds a NUL")
	}
	if path.IsAbs(name) {
		return "", guest.FailPath(guest.OutsideRoot, name, "the path is not below the workspace root")
	}
	clean := path.Clean(name)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", guest.FailPath(guest.OutsideRoot, name, "the path leaves the workspace")
	}
	if clean == "." {
		clean = ""
	}
	return clean, nil
}

func (a abi) isDir(name string) bool {
	if f := a.Files[name]; f != nil {
		return f.Type == guest.TypeDir
	}
	if name == "" {
		return true
	}
	for other := range a.Files {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}

func (a abi) info(name string) (Info, bool) {
	f := a.Files[name]
	switch {
	case f != nil:
		typ := f.Type
		if typ == "" {
			typ = guest.TypeFile
		}
		return Info{
			Path: name, Name: path.Base(name), Type: typ, Size: int64(len(f.Data)), MTime: f.MTime,
			Mode: f.Mode, Links: 1, Target: f.Target, Outside: f.Outside, Ignored: f.Ignored,
		}, true
	case a.isDir(name):
		return Info{Path: name, Name: path.Base(name), Type: guest.TypeDir, Mode: 0o755, MTime: 1767323045000}, true
	}
	return Info{}, false
}

// regular returns the file of that name, or the error that the host would give.
func (a abi) regular(asked, name string) (*File, error) {
	f := a.Files[name]
	switch {
	case f != nil && (f.Type == "" || f.Type == guest.TypeFile):
		return f, nil
	case f != nil:
		return nil, guest.FailPath(guest.NotRegular, asked, "is a "+f.Type+", not a regular file")
	case a.isDir(name):
		return nil, guest.FailPath(guest.NotRegular, asked, "is a directory")
	}
	return nil, guest.FailPath(guest.NotFound, asked, "nothing of this name exists")
}

func (a abi) ResultRead(buf []byte, off int) int64 {
	if off < 0 || off > len(a.result) {
		return a.refuse(guest.Fail(guest.InvalidArguments, "no such offset"))
	}
	return int64(copy(buf, a.result[off:]))
}

func (a abi) ErrorRead(buf []byte) int64 { return int64(copy(buf, a.fail)) }

func (a abi) Stat(asked string) int64 {
	name, err := a.enter("fs_stat", asked)
	if err != nil {
		return a.refuse(err)
	}
	in, ok := a.info(name)
	if !ok {
		return a.refuse(guest.FailPath(guest.NotFound, asked, "nothing of this name exists"))
	}
	return a.answer(in)
}

func (a abi) List(asked string, opts []byte) int64 {
	dir, err := a.enter("fs_list", asked)
	if err != nil {
		return a.refuse(err)
	}
	if !a.isDir(dir) {
		_, err := a.regular(asked, dir)
		if err == nil {
			err = guest.FailPath(guest.NotRegular, asked, "is a file, not a directory")
		}
		return a.refuse(err)
	}
	var o ListOptions
	if err := json.Unmarshal(opts, &o); err != nil {
		return a.refuse(guest.Fail(guest.InvalidArguments, err.Error()))
	}
	names := map[string]bool{}
	for name := range a.Files {
		rest, ok := strings.CutPrefix(name, dir+"/")
		if dir == "" {
			rest, ok = name, true
		}
		if ok && rest != "" {
			first, _, _ := strings.Cut(rest, "/")
			names[first] = true
		}
	}
	p := Page{Entries: []Info{}, Total: len(names)}
	if o.MaxResults == 0 {
		o.MaxResults = 200
	}
	if o.Cursor != "" && !names[o.Cursor] {
		return a.refuse(guest.Fail(guest.InvalidArguments, "the cursor is not one that a page of this listing gave").WithNext("start again without cursor"))
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		if n <= o.Cursor && o.Cursor != "" {
			continue
		}
		if len(p.Entries) == o.MaxResults {
			p.Truncated, p.Next = true, p.Entries[len(p.Entries)-1].Name
			break
		}
		in, _ := a.info(path.Join(dir, n))
		p.Entries = append(p.Entries, in)
	}
	return a.answer(p)
}

func (a abi) Read(asked string, off int64, buf []byte) int64 {
	name, err := a.enter("fs_read", asked)
	if err != nil {
		return a.refuse(err)
	}
	f, err := a.regular(asked, name)
	if err != nil {
		return a.refuse(err)
	}
	if off >= int64(len(f.Data)) {
		return 0
	}
	return int64(copy(buf, f.Data[off:]))
}

func change(name string, data []byte) Change {
	sum := sha256.Sum256(data)
	return Change{Path: name, Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
}

func (a abi) Write(asked string, data []byte, flags int) int64 {
	name, err := a.enter("fs_write", asked)
	if err != nil {
		return a.refuse(err)
	}
	c := change(name, data)
	f, err := a.regular(asked, name)
	switch {
	case err == nil && flags&guest.FlagOverwrite == 0:
		return a.refuse(guest.FailPath(guest.Exists, asked, "the file exists"))
	case err == nil && bytes.Equal(f.Data, data):
		return a.refuse(guest.FailPath(guest.NoChange, asked, "the file holds exactly this already"))
	case err == nil:
		f.Data = bytes.Clone(data)
	case guest.CodeOf(err) == guest.NotFound:
		c.Created = true
		a.Put(name, string(data))
	default:
		return a.refuse(err)
	}
	return a.answer(c)
}

// ReadText knows UTF-8 only, with and without a byte order mark.
func (a abi) ReadText(asked, encoding string) int64 {
	name, err := a.enter("fs_read_text", asked)
	if err != nil {
		return a.refuse(err)
	}
	f, err := a.regular(asked, name)
	if err != nil {
		return a.refuse(err)
	}
	if !utf8.Valid(f.Data) || bytes.IndexByte(f.Data, 0) >= 0 || encoding != "" && encoding != "utf-8" {
		return a.refuse(guest.FailPath(guest.Encoding, asked, "the encoding is not certain"))
	}
	about := map[string]any{"encoding": "UTF-8", "exact": true, "size": len(f.Data)}
	text, marked := bytes.CutPrefix(f.Data, []byte(bom))
	if marked {
		about["encoding"] = "UTF-8 with a byte order mark"
	}
	head, _ := json.Marshal(about)
	a.result = append(binary.LittleEndian.AppendUint32(nil, uint32(len(head))), head...)
	a.result = append(a.result, text...)
	return int64(len(a.result))
}

const bom = "\ufeff"

// WriteText writes UTF-8 only, and keeps a byte order mark.
func (a abi) WriteText(asked string, text []byte, encoding string, flags int) int64 {
	if encoding != "" && encoding != "utf-8" {
		return a.refuse(guest.FailPath(guest.Encoding, asked, "this host writes UTF-8 only"))
	}
	name, err := resolve(asked)
	marked := false
	if f := a.Files[name]; err == nil && f != nil && encoding == "" && flags&guest.FlagOverwrite != 0 {
		if marked = bytes.HasPrefix(f.Data, []byte(bom)); marked && !bytes.HasPrefix(text, []byte(bom)) {
			text = append([]byte(bom), text...)
		}
	}
	n := a.Write(asked, text, flags)
	var c Change
	if n >= 0 && marked && json.Unmarshal(a.result, &c) == nil {
		c.Encoding = "UTF-8 with a byte order mark"
		return a.answer(c)
	}
	return n
}

func (a abi) Edit(asked string, edits []byte) int64 {
	name, err := a.enter("fs_edit", asked)
	if err != nil {
		return a.refuse(err)
	}
	f, err := a.regular(asked, name)
	if err != nil {
		return a.refuse(err)
	}
	var req struct{ Edits []Edit }
	if err := json.Unmarshal(edits, &req); err != nil {
		return a.refuse(guest.Fail(guest.InvalidArguments, err.Error()))
	}
	data, c, err := applyEdits(asked, string(f.Data), req.Edits)
	if err != nil {
		return a.refuse(err)
	}
	f.Data = []byte(data)
	full := change(name, f.Data)
	full.Replacements, full.Lines, full.CRLF = c.Replacements, c.Lines, c.CRLF
	return a.answer(full)
}

func applyEdits(asked, text string, edits []Edit) (string, Change, error) {
	type span struct {
		start, end int
		with       string
		crlf       bool
	}
	var spans []span
	for _, e := range edits {
		crlf := false
		if strings.Contains(text, "\r\n") && !strings.Contains(strings.ReplaceAll(text, "\r\n", ""), "\n") && !strings.Contains(e.Old, "\r\n") {
			lf := strings.NewReplacer("\r\n", "\n")
			ends := strings.NewReplacer("\n", "\r\n")
			with := ends.Replace(lf.Replace(e.New))
			e.Old, e.New, crlf = ends.Replace(e.Old), with, len(with) > len(e.New)
		}
		if e.Old == "" {
			return "", Change{}, guest.FailPath(guest.InvalidArguments, asked, "old is empty")
		}
		var at []int
		for i := 0; i+len(e.Old) <= len(text); {
			n := strings.Index(text[i:], e.Old)
			if n < 0 {
				break
			}
			at = append(at, i+n)
			i += n + 1
			if e.All {
				i += len(e.Old) - 1
			}
		}
		switch {
		case len(at) == 0:
			return "", Change{}, guest.FailPath(guest.NoMatch, asked, "old does not occur")
		case len(at) > 1 && !e.All:
			lines := make([]guest.Value, 0, len(at))
			for _, i := range at {
				lines = append(lines, guest.Int(int64(1+strings.Count(text[:i], "\n"))))
			}
			return "", Change{}, guest.FailPath(guest.NotUnique, asked, fmt.Sprintf("old occurs %d times", len(at))).
				With(guest.F("lines", lines))
		}
		for _, i := range at {
			spans = append(spans, span{i, i + len(e.Old), e.New, crlf})
		}
	}
	sort.Slice(spans, func(i, j int) bool { return spans[i].start < spans[j].start })
	var c Change
	var out strings.Builder
	last := 0
	for _, s := range spans {
		if s.start < last {
			return "", Change{}, guest.FailPath(guest.InvalidArguments, asked, "two edits overlap")
		}
		out.WriteString(text[last:s.start])
		first := 1 + strings.Count(out.String(), "\n")
		out.WriteString(s.with)
		c.Lines = append(c.Lines, LineRange{first, first + strings.Count(strings.TrimSuffix(s.with, "\n"), "\n")})
		c.Replacements++
		c.CRLF = c.CRLF || s.crlf
		last = s.end
	}
	out.WriteString(text[last:])
	if out.String() == text {
		return "", Change{}, guest.FailPath(guest.NoChange, asked, "old and new are the same")
	}
	return out.String(), c, nil
}

func (a abi) Remove(asked string, flags int) int64 {
	name, err := a.enter("fs_remove", asked)
	if err != nil {
		return a.refuse(err)
	}
	if name == "" {
		return a.refuse(guest.FailPath(guest.InvalidArguments, asked, "the workspace root cannot be removed"))
	}
	if _, ok := a.info(name); !ok {
		return a.refuse(guest.FailPath(guest.NotFound, asked, "nothing of this name exists"))
	}
	if a.isDir(name) && flags&guest.FlagRecursive == 0 {
		return a.refuse(guest.FailPath(guest.NotRegular, asked, "is a directory").WithNext("set recursive to remove it with everything in it"))
	}
	c := Change{Path: name}
	for other := range a.Files {
		if other == name || strings.HasPrefix(other, name+"/") {
			delete(a.Files, other)
			c.Removed++
		}
	}
	return a.answer(c)
}

func (a abi) Rename(askedFrom, askedTo string, flags int) int64 {
	from, err := a.enter("fs_rename", askedFrom)
	if err != nil {
		return a.refuse(err)
	}
	to, err := resolve(askedTo)
	if err != nil {
		return a.refuse(err)
	}
	if _, ok := a.info(from); !ok {
		return a.refuse(guest.FailPath(guest.NotFound, askedFrom, "nothing of this name exists"))
	}
	if from == to {
		return a.refuse(guest.FailPath(guest.NoChange, askedFrom, "both names are the same"))
	}
	if _, ok := a.info(to); ok && flags&guest.FlagOverwrite == 0 {
		return a.refuse(guest.FailPath(guest.Exists, askedTo, "the destination exists"))
	}
	for _, other := range slices.Collect(maps.Keys(a.Files)) {
		if rest, ok := strings.CutPrefix(other, from); ok && (rest == "" || rest[0] == '/') {
			a.Files[to+rest] = a.Files[other]
			delete(a.Files, other)
		}
	}
	c := Change{Path: to, From: from}
	if f := a.Files[to]; f != nil {
		c.Bytes = int64(len(f.Data))
	}
	return a.answer(c)
}

func (a abi) Mkdir(asked string) int64 {
	name, err := a.enter("fs_mkdir", asked)
	if err != nil {
		return a.refuse(err)
	}
	if a.Files[name] == nil {
		a.Files[name] = &File{Type: guest.TypeDir, Mode: 0o755}
	}
	return 0
}

func (a abi) Discard() int64 {
	a.Calls = append(a.Calls, "fs_discard")
	a.Files = a.before
	a.before = a.copy()
	return 0
}

func (a abi) Emit(stream int, data []byte) int64 {
	a.Emitted = append(a.Emitted, data...)
	return 0
}

func (a abi) Progress(done, total int64, note string) int64 {
	h := a.Host
	h.Progress = append(h.Progress, fmt.Sprintf("%d/%d %s", done, total, note))
	return 0
}

func (a abi) Log(level int, text string) int64 {
	a.Logged = append(a.Logged, text)
	return 0
}
