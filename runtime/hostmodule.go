package runtime

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"unicode/utf8"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime/rewrite"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
	"github.com/wasmtools/wasmtools/workspace/search"
)

// hostFunc is one function that guests can import. call gets the lease of the
// running call, the guest's arguments, and returns the function's result.
type hostFunc struct {
	sig  string // see signature
	kind hostfuncs.Kind
	call func(l *lease, mem guestMemory, arg []uint64) uint64
}

const (
	abiModule  = "wasmtools_v1"
	wasiModule = "wasi_snapshot_preview1"
	offered    = abiModule + " and " + wasiModule
)

// hostModules is everything that a guest can import.
var hostModules = map[string]map[string]hostFunc{}

func init() {
	hostModules[abiModule] = abiFunctions
	hostModules[wasiModule] = wasiFunctions
}

// Bounds on what one host function takes and gives.
const (
	maxPath   = 4_096
	maxText   = 256 << 10 // of a log line or progress note; the quota of all of them
	maxJSON   = 1 << 20   // of options and search requests
	maxEdits  = 16 << 20  // of the edits' JSON
	maxEdit   = 10_000    // edits
	maxLabel  = 256       // of the name of an encoding
	maxResult = 8 << 20   // of a result that waits to be read
)

// instantiateHost makes the host functions that the module imports, and no
// others, available in r.
func instantiateHost(ctx context.Context, r wazero.Runtime, imports []rewrite.ImportName) error {
	for name, set := range hostModules {
		b := r.NewHostModuleBuilder(name)
		used := map[string]bool{}
		for _, im := range imports {
			if im.Module != name || used[im.Field] {
				continue
			}
			used[im.Field] = true
			f := set[im.Field]
			t := signature(f.sig)
			b.NewFunctionBuilder().WithGoModuleFunction(f.bind(im.Field), apiTypes(t.Params), apiTypes(t.Results)).Export(im.Field)
		}
		if len(used) == 0 {
			continue
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// instantiateYield makes the function available that the countdown calls. No
// module can import it: its name is reserved.
func instantiateYield(ctx context.Context, r wazero.Runtime) error {
	_, err := r.NewHostModuleBuilder(rewrite.Yield.Module).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(yield), nil, []api.ValueType{api.ValueTypeI32}).Export(rewrite.Yield.Field).
		Instantiate(ctx)
	return err
}

func apiTypes(vs []manifest.ValType) []api.ValueType {
	out := make([]api.ValueType, len(vs))
	for i, v := range vs {
		out[i] = api.ValueType(v)
	}
	return out
}

// bind is the boundary between the engine and a host function. It finds the
// call, counts, stops a call whose time is over, and turns a panic of ours into
// the end of this call.
func (f hostFunc) bind(name string) api.GoModuleFunc {
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		l := leaseOf(ctx)
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if s, ok := p.(*stop); ok {
				panic(s)
			}
			err := fmt.Errorf("host function %s: %v\n%s", name, p, debug.Stack())
			panic(&stop{err: tool.Errorf(tool.Internal, "the host function %s failed", name).Because(err)})
		}()
		if err := l.enter(name, f.kind); err != nil {
			l.refuse(err, f.kind)
			if f.kind == hostfuncs.Work {
				stack[0] = l.fail(err)
				return
			}
		}
		v := f.call(l, guestMemory{mod.Memory(), name}, stack)
		if len(stack) > 0 {
			stack[0] = v
		}
	}
}

// enter begins a host function. It ends the guest if its time is over.
func (l *lease) enter(name string, k hostfuncs.Kind) error {
	if l.term.over() != nil {
		panic(l.timeUp())
	}
	if l.outset != nil && k == hostfuncs.Work {
		panic(&stop{err: tool.Errorf(tool.NotAvailable, "it calls %s before it has a call to answer", name)})
	}
	return l.call.Enter(context.Background(), k)
}

// timeUp is the end of a guest whose time is over.
func (l *lease) timeUp() *stop { return &stop{err: l.term.ended()} }

// refuse ends a guest that goes on after it was told that it is over a quota.
func (l *lease) refuse(err error, k hostfuncs.Kind) {
	if l.toldQuota || k == hostfuncs.Support {
		panic(&stop{err: tool.AsError(err)})
	}
	l.toldQuota = true
}

// guestMemory reads and writes the guest's memory for one host function.
// Pointers outside it end the guest: whoever passes them has lost its way.
type guestMemory struct {
	api.Memory
	function string
}

// view gives n bytes at ptr. It is valid until the host function returns.
func (g guestMemory) view(ptr, n uint64) []byte {
	p, ok := g.Read(uint32(ptr), uint32(n))
	if !ok {
		panic(&stop{err: tool.Errorf(tool.Trap, "the module passed %s memory that it does not have (%d bytes at %d)", g.function, uint32(n), uint32(ptr))})
	}
	return p
}

// text copies a string of at most limit bytes.
func (g guestMemory) text(ptr, n uint64, limit uint32) (string, error) {
	if uint32(n) > limit {
		return "", tool.Errorf(tool.TooLarge, "%s was given %d bytes where %d are allowed", g.function, uint32(n), limit)
	}
	return string(g.view(ptr, n)), nil
}

// decode reads JSON of at most limit bytes into v. No bytes at all leave v as
// it is.
func (g guestMemory) decode(ptr, n uint64, limit uint32, v any) error {
	s, err := g.text(ptr, n, limit)
	if err != nil || s == "" {
		return err
	}
	if err := json.Unmarshal([]byte(s), v); err != nil {
		return tool.Errorf(tool.InvalidArguments, "%s was given options that are not JSON of the right shape", g.function)
	}
	return nil
}

// fail keeps err for error_read and gives its number.
func (l *lease) fail(err error) uint64 {
	if l.term.over() != nil || l.term.waiting != nil && l.term.waiting.Err() != nil {
		panic(l.timeUp())
	}
	l.lastError = tool.AsError(err)
	return uint64(-int64(l.lastError.Code.Number()))
}

// give keeps v as the result that result_read copies, and gives its length.
func (l *lease) give(v any, err error) uint64 {
	if err != nil {
		return l.fail(err)
	}
	var b bytes.Buffer
	if s, ok := v.(string); ok {
		b.WriteString(s)
	} else {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			return l.fail(err)
		}
		b.Truncate(b.Len() - 1) // the line end
	}
	if b.Len() > maxResult {
		return l.fail(tool.Errorf(tool.TooLarge, "the result has %d bytes; at most %d are given", b.Len(), maxResult))
	}
	l.result = b.Bytes()
	return uint64(b.Len())
}

// done gives 0 or the error's number.
func (l *lease) done(err error) uint64 {
	if err != nil {
		return l.fail(err)
	}
	return 0
}

// abiFunctions is docs/abi.md in code.
var abiFunctions = map[string]hostFunc{
	"result_read": {"iii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		buf := mem.view(a[0], a[1])
		off := min(uint64(uint32(a[2])), uint64(len(l.result)))
		return uint64(copy(buf, l.result[off:]))
	}},
	"error_read": {"ii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		return uint64(copy(mem.view(a[0], a[1]), encodeError(l.lastError)))
	}},
	"fs_stat": {"ii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		path, err := mem.text(a[0], a[1], maxPath)
		if err != nil {
			return l.fail(err)
		}
		info, err := l.call.Stat(l.term.context(), path)
		return l.give(info, err)
	}},
	"fs_list": {"iiii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		path, err := mem.text(a[0], a[1], maxPath)
		if err != nil {
			return l.fail(err)
		}
		var opts workspace.ListOptions
		if err := mem.decode(a[2], a[3], maxJSON, &opts); err != nil {
			return l.fail(err)
		}
		page, err := l.call.List(l.term.context(), path, opts)
		return l.give(page, err)
	}},
	"fs_read": {"iiIii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		path, err := mem.text(a[0], a[1], maxPath)
		if err != nil {
			return l.fail(err)
		}
		// The file's bytes go straight into the guest's memory: this goroutine
		// runs the guest, so nothing moves the memory before ReadAt returns.
		n, err := l.call.ReadAt(l.term.context(), path, mem.view(a[3], a[4]), int64(a[2]))
		if err != nil {
			return l.fail(err)
		}
		return uint64(n)
	}},
	"fs_write": {"iiiii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		path, err := mem.text(a[0], a[1], maxPath)
		if err != nil {
			return l.fail(err)
		}
		data := bytes.Clone(mem.view(a[2], a[3]))
		change, err := l.call.Write(l.term.context(), path, data, a[4]&1 != 0)
		return l.give(change, err)
	}},
	"fs_edit": {"iiii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		path, err := mem.text(a[0], a[1], maxPath)
		if err != nil {
			return l.fail(err)
		}
		raw, err := mem.text(a[2], a[3], maxEdits)
		if err != nil {
			return l.fail(err)
		}
		edits, encoding, err := decodeEdits([]byte(raw))
		if err != nil {
			return l.fail(err)
		}
		change, err := l.call.EditText(l.term.context(), path, edits, encoding)
		return l.give(change, err)
	}},
	"fs_read_text": {"iiii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		path, err := mem.text(a[0], a[1], maxPath)
		if err != nil {
			return l.fail(err)
		}
		encoding, err := mem.text(a[2], a[3], maxLabel)
		if err != nil {
			return l.fail(err)
		}
		t, err := l.call.ReadText(l.term.context(), path, encoding)
		if err != nil {
			return l.fail(err)
		}
		head, err := json.Marshal(struct {
			Encoding string `json:"encoding"`
			Exact    bool   `json:"exact"`
			Size     int64  `json:"size"`
		}{t.Encoding.String(), t.Exact, t.Size})
		if err != nil {
			return l.fail(err)
		}
		out := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(head)+len(t.Text)), uint32(len(head)))
		return l.give(string(append(append(out, head...), t.Text...)), nil)
	}},
	"fs_write_text": {"iiiiiii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		path, err := mem.text(a[0], a[1], maxPath)
		if err != nil {
			return l.fail(err)
		}
		text := string(mem.view(a[2], a[3]))
		encoding, err := mem.text(a[4], a[5], maxLabel)
		if err != nil {
			return l.fail(err)
		}
		if !utf8.ValidString(text) {
			return l.fail(tool.PathErrorf(tool.Encoding, path, "the text is not UTF-8"))
		}
		change, err := l.call.WriteText(l.term.context(), path, text, encoding, a[6]&1 != 0)
		return l.give(change, err)
	}},
	"fs_remove": {"iii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		path, err := mem.text(a[0], a[1], maxPath)
		if err != nil {
			return l.fail(err)
		}
		remove := l.call.Remove
		if a[2]&2 != 0 {
			remove = l.call.RemovePermanently
		}
		change, err := remove(l.term.context(), path, a[2]&1 != 0)
		return l.give(change, err)
	}},
	"fs_rename": {"iiiii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		from, err := mem.text(a[0], a[1], maxPath)
		if err != nil {
			return l.fail(err)
		}
		to, err := mem.text(a[2], a[3], maxPath)
		if err != nil {
			return l.fail(err)
		}
		change, err := l.call.Rename(l.term.context(), from, to, a[4]&1 != 0)
		return l.give(change, err)
	}},
	"fs_mkdir": {"ii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		path, err := mem.text(a[0], a[1], maxPath)
		if err != nil {
			return l.fail(err)
		}
		return l.done(l.call.Mkdir(l.term.context(), path))
	}},
	"fs_diff": {"i>I", hostfuncs.Work, func(l *lease, _ guestMemory, a []uint64) uint64 {
		diff, err := l.call.Diff(int(int32(a[0])))
		return l.give(diff, err)
	}},
	"fs_discard": {">I", hostfuncs.Work, func(l *lease, _ guestMemory, _ []uint64) uint64 {
		return l.done(l.call.Discard())
	}},
	"search": {"ii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		var req search.Request
		if err := mem.decode(a[0], a[1], maxJSON, &req); err != nil {
			return l.fail(err)
		}
		resp, err := l.call.Search(l.term.context(), req)
		return l.give(resp, err)
	}},
	"emit": {"iii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		return l.done(l.call.Emit(uint32(a[0]), mem.view(a[1], a[2])))
	}},
	"progress": {"IIii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		note, err := mem.text(a[2], a[3], maxText)
		if err != nil {
			return l.fail(err)
		}
		return l.done(l.call.Progress(int64(a[0]), int64(a[1]), note))
	}},
	"log": {"iii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		text, err := mem.text(a[1], a[2], maxText)
		if err != nil {
			return l.fail(err)
		}
		return l.done(l.call.Log(uint32(a[0]), text))
	}},
}

// encodeError is what error_read gives for an error; {} if there was none.
func encodeError(e *tool.Error) []byte {
	if e == nil {
		return []byte("{}")
	}
	out, err := json.Marshal(struct {
		Code    tool.Code      `json:"code"`
		Path    string         `json:"path,omitempty"`
		Text    string         `json:"text,omitempty"`
		Next    string         `json:"next,omitempty"`
		Details map[string]any `json:"details,omitempty"`
	}{e.Code, e.Path, or2(e.Text, e.Code.Info().Meaning), or2(e.Next, e.Code.Info().Next), e.Details})
	if err != nil {
		return []byte(`{"code":"internal"}`)
	}
	return out
}

func or2(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// decodeEdits reads {"edits":[{"old","new","all"}],"encoding":"..."} one by one,
// because a megabyte of empty objects would be forty megabytes of edits.
func decodeEdits(raw []byte) (edits []workspace.Edit, encoding string, err error) {
	bad := tool.Errorf(tool.InvalidArguments, `the edits are not JSON of the form {"edits":[{"old","new","all"}],"encoding":"..."}`)
	d := json.NewDecoder(bytes.NewReader(raw))
	for _, want := range []json.Token{json.Delim('{'), "edits", json.Delim('[')} {
		if t, err := d.Token(); err != nil || t != want {
			return nil, "", bad
		}
	}
	for d.More() {
		if len(edits) == maxEdit {
			return nil, "", tool.Errorf(tool.TooLarge, "more than %d edits", maxEdit)
		}
		var e workspace.Edit
		if err := d.Decode(&e); err != nil {
			return nil, "", bad
		}
		edits = append(edits, e)
	}
	if _, err := d.Token(); err != nil { // the end of the list
		return nil, "", bad
	}
	t, err := d.Token()
	if t == "encoding" && err == nil {
		if d.Decode(&encoding) != nil {
			return nil, "", bad
		}
		t, err = d.Token()
	}
	if err != nil || t != json.Delim('}') {
		return nil, "", bad
	}
	return edits, encoding, nil
}
