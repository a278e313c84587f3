package guest_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
	"github.com/wasmtools/wasmtools/guest-sdk/guesttest"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
)

const open = `{"type":"object"}`

// run is what the tool "t" does in the test at hand.
var run func(*guest.Call) (guest.Result, error)

func init() {
	guest.Describe(guest.Module{Name: "m", Version: "1.2.3", Description: "d", MemoryMiB: 1, TimeMS: 2, OutputKiB: 3, HostCalls: 4, Concurrency: 5, NoSnapshot: true})
	guest.Add(guest.Tool{
		Name: "t", Title: "T", Description: "Does.", Input: open, Output: `{"type": "object", "properties": {"x": {"type": "integer"}}}`,
		Mode: guest.Parallel, Effects: []guest.Effect{guest.Reads, guest.Writes, guest.Destroys, guest.Executes, guest.UsesNetwork, guest.AsksUser},
		Hidden: true, Guidelines: []string{"g"}, Packs: []string{"p"}, Read: []string{"**"}, Write: []string{"a/**"}, NoSnapshot: true,
		Call: func(c *guest.Call) (guest.Result, error) { return run(c) },
	})
	guest.Add(guest.Tool{Name: "numbers", Description: "Takes numbers.", Input: `{"type":"object","properties":{
		"n":{"type":"integer"},"f":{"type":"number"},"o":{"type":"object","properties":{"n":{"type":["integer","null"]}}},
		"l":{"type":"array","items":{"type":"integer"}},"b":{"type":["integer","number"]}}}`,
		Call: func(c *guest.Call) (guest.Result, error) { return guest.Text("ran"), nil }})
	guest.Add(guest.Tool{Name: "u", Description: "Does.", Input: open, Call: func(c *guest.Call) (guest.Result, error) { return guest.Text("u"), nil }})
}

func call(t *testing.T, h *guesttest.Host, f func(*guest.Call) (guest.Result, error)) guesttest.CallResult {
	t.Helper()
	run = f
	return h.Call("t", `{"a":1}`)
}

func TestManifest(t *testing.T) {
	m, err := manifest.Parse(guest.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	want := manifest.Tool{
		Name: "t", Title: "T", Description: "Does.", Input: json.RawMessage(open),
		Output: json.RawMessage(`{"type":"object","properties":{"x":{"type":"integer"}}}`), Mode: tool.Parallel,
		Effects:    tool.Reads | tool.Writes | tool.Destroys | tool.Executes | tool.UsesNetwork | tool.AsksUser,
		Visibility: tool.Hidden, Guidelines: []string{"g"}, Packs: []string{"p"}, Snapshot: manifest.SnapshotOff,
		Capabilities: manifest.Capabilities{Read: []string{"**"}, Write: []string{"a/**"}},
	}
	if m.Snapshot != manifest.SnapshotOff || m.Tools[1].Snapshot != "" {
		t.Errorf("snapshot %q, of the second tool %q; want off, and nothing", m.Snapshot, m.Tools[1].Snapshot)
	}
	if m.ABI != manifest.ABI || m.Name != "m" || m.Version != "1.2.3" || m.Description != "d" ||
		m.Limits != (manifest.Limits{MemoryMiB: 1, TimeMS: 2, OutputKiB: 3, HostCalls: 4, Concurrency: 5}) {
		t.Errorf("manifest %s", guest.Manifest())
	}
	if len(m.Tools) != 3 || !reflect.DeepEqual(m.Tools[0], want) {
		t.Errorf("tool %+v, want %+v", m.Tools[0], want)
	}
}

func TestAddPanics(t *testing.T) {
	f := func(*guest.Call) (guest.Result, error) { return guest.Result{}, nil }
	for name, bad := range map[string]guest.Tool{
		"name taken":         {Name: "t", Input: open, Call: f},
		"no schema":          {Name: "x", Call: f},
		"schema no JSON":     {Name: "x", Input: "{", Call: f},
		"schema no object":   {Name: "x", Input: "[]", Call: f},
		"output no object":   {Name: "x", Input: open, Output: "true", Call: f},
		"no implementation":  {Name: "x", Input: open},
		"output only schema": {Name: "x", Output: open, Call: f},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			guest.Add(bad)
		})
	}
}

// TestCodes compares the SDK's table of codes with the host's.
func TestCodes(t *testing.T) {
	for i, c := range tool.Codes {
		if n := guest.CodeNumber(guest.Code(c.Code)); n != i+1 {
			t.Errorf("CodeNumber(%s) = %d, want %d", c.Code, n, i+1)
		}
		for _, text := range []string{"", "fact"} {
			e := &guest.Error{Code: guest.Code(c.Code), Path: "a\nb", Text: text}
			if got, want := e.Error(), (&tool.Error{Code: c.Code, Path: "a\nb", Text: text}).Error(); got != want {
				t.Errorf("%s reads %q, want %q", c.Code, got, want)
			}
		}
	}
	if n := guest.CodeNumber("no such"); n != tool.Internal.Number() {
		t.Errorf("an unknown code has number %d", n)
	}
	if guest.CodeOf(nil) != "" || guest.CodeOf(errors.New("x")) != guest.Internal || guest.CodeOf(errors.Join(guest.Fail(guest.Stale, ""))) != guest.Stale {
		t.Error("CodeOf")
	}
}

func FuzzQuotePath(f *testing.F) {
	for _, s := range []string{"", "a/b.go", "a b", "a\nb", "\x1b[31m", "\u202e", "ä", "\xff", "\ufffd", "\u00a0", "\U0001f600"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := guest.QuotePath(s), tool.QuotePath(s); got != want {
			t.Fatalf("QuotePath(%q) = %s, want %s", s, got, want)
		}
	})
}

// FuzzServe: no request traps, and every response is JSON of the agreed shape.
func FuzzServe(f *testing.F) {
	good := guesttest.EncodeRequest(0, "id", -1, []byte(`{"a":1}`))
	f.Add(good)
	f.Add(guesttest.EncodeRequest(1, "", 0, []byte(`{}`)))
	f.Add(guesttest.EncodeRequest(9, "id", 0, []byte(`{}`)))
	f.Add(guesttest.EncodeRequest(0, "id", 0, []byte(`[]`)))
	f.Add(guesttest.EncodeRequest(0, strings.Repeat("x", 257), 0, []byte(`{}`)))
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0xff
		f.Add(bad)
		f.Add(good[:i])
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var got *guest.Call
		run = func(c *guest.Call) (guest.Result, error) { got = c; return guest.Text("t"), nil }
		var r guesttest.CallResult
		if err := json.Unmarshal(guest.Serve(nil, p), &r); err != nil {
			t.Fatal(err)
		}
		valid := len(p) >= 32 && binary.LittleEndian.Uint32(p) == 1 && binary.LittleEndian.Uint32(p[16:]) <= 256 &&
			uint64(len(p)) == 32+uint64(binary.LittleEndian.Uint32(p[16:]))+uint64(binary.LittleEndian.Uint32(p[20:])) &&
			binary.LittleEndian.Uint64(p[24:]) == 0 && binary.LittleEndian.Uint32(p[4:]) == 0
		if !valid {
			if got != nil {
				t.Fatalf("%x reached the tool", p)
			}
			return
		}
		idLen := binary.LittleEndian.Uint32(p[16:])
		args := string(p[32+idLen:])
		if (got != nil) != (r.Meta.Code == "") {
			t.Fatalf("%x: %+v", p, r)
		}
		if got != nil && (got.ID != string(p[32:32+idLen]) || string(got.RawArgs) != args || got.Deadline != int64(binary.LittleEndian.Uint64(p[8:]))) {
			t.Fatalf("%x gave %+v", p, got)
		}
	})
}

func TestServe(t *testing.T) {
	h := guesttest.New()
	for _, c := range []struct {
		name string
		f    func(*guest.Call) (guest.Result, error)
		want string
	}{
		{"text", func(*guest.Call) (guest.Result, error) { return guest.Text("a\x00"), nil }, `{"content":[{"type":"text","text":"a\u0000"}]}`},
		{"structure and details", func(*guest.Call) (guest.Result, error) {
			r := guest.Text("a").WithDetails(guest.F("n", 1))
			r.Structured = guest.Object(guest.F("x", true))
			return r, nil
		}, `{"content":[{"type":"text","text":"a"}],"structuredContent":{"x":true},"_meta":{"wasmtools/details":{"n":1}}}`},
		{"blocks", func(*guest.Call) (guest.Result, error) {
			return guest.Result{Content: []guest.Content{
				{Type: "image", Data: []byte("abcd"), MIMEType: "image/png"}, {Type: "audio", Data: []byte("ab"), MIMEType: "audio/wav"},
				{Type: "resource_link", URI: "artifact:x", Name: "x"}, {Type: "resource_link", URI: "u", Name: "n", MIMEType: "m"},
			}}, nil
		}, `{"content":[{"type":"image","data":"YWJjZA==","mimeType":"image/png"},{"type":"audio","data":"YWI=","mimeType":"audio/wav"},{"type":"resource_link","uri":"artifact:x","name":"x"},{"type":"resource_link","uri":"u","name":"n","mimeType":"m"}]}`},
		{"error", func(*guest.Call) (guest.Result, error) {
			return guest.Text("dropped"), guest.FailPath(guest.Stale, "p", "changed").WithNext("read").With(guest.F("a", 1)).With(guest.F("b", 2))
		}, `{"content":[{"type":"text","text":"stale: p: changed; read"}],"isError":true,"_meta":{"wasmtools/code":"stale","wasmtools/details":{"a":1,"b":2}}}`},
		{"panic with a text", func(*guest.Call) (guest.Result, error) { panic("boom") },
			`{"content":[{"type":"text","text":"trap: the tool panicked: boom; report it to the module's author"}],"isError":true,"_meta":{"wasmtools/code":"trap"}}`},
		{"panic with an error", func(*guest.Call) (guest.Result, error) { panic(errors.New("boom")) },
			`{"content":[{"type":"text","text":"trap: the tool panicked: boom; report it to the module's author"}],"isError":true,"_meta":{"wasmtools/code":"trap"}}`},
		{"panic of the runtime", func(c *guest.Call) (guest.Result, error) {
			var m map[string]int
			m["a"] = 1 //lint:ignore SA5000 the panic is what is tested
			return guest.Result{}, nil
		},
			`{"content":[{"type":"text","text":"trap: the tool panicked: assignment to entry in nil map; report it to the module's author"}],"isError":true,"_meta":{"wasmtools/code":"trap"}}`},
		{"panic with a number", func(c *guest.Call) (guest.Result, error) { panic(1) },
			`{"content":[{"type":"text","text":"trap: the tool panicked: with a value that is no text; report it to the module's author"}],"isError":true,"_meta":{"wasmtools/code":"trap"}}`},
	} {
		if r := call(t, h, c.f); string(r.Raw) != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, r.Raw, c.want)
		}
	}
}

func TestInvalid(t *testing.T) {
	run = func(c *guest.Call) (guest.Result, error) {
		return guest.Result{}, c.Invalid(guest.Fault{Path: "$.a", Text: "one"}, guest.Fault{Path: "$.b", Text: "two"})
	}
	r := guesttest.New().Call("t", `{"a":1}`)
	want := "schema_invalid: the arguments of t do not fit its schema\n- $.a: one\n- $.b: two\nschema: " + open + "\nreceived: {\"a\":1}\n; mend every fault listed, then call again"
	if r.Text() != want {
		t.Errorf("got\n%s\nwant\n%s", r.Text(), want)
	}
	r = guesttest.New().Call("t", `{"a":"`+strings.Repeat("ä", 5000)+`"}`)
	if n := len(r.Text()); n > 2500 || !strings.Contains(r.Text(), "(10008 bytes in all)") || strings.Contains(r.Text(), "\ufffd") {
		t.Errorf("long arguments: %d bytes, %s", n, r.Text())
	}
}

// TestFileFunctions goes once through every function and checks what arrives.
func TestFileFunctions(t *testing.T) {
	h := guesttest.New()
	h.Put("d/a", "0123456789")
	r := call(t, h, func(c *guest.Call) (guest.Result, error) {
		in, err := c.Stat("d/a")
		if want := (guest.Info{Path: "d/a", Name: "a", Type: "file", Size: 10, MTime: 1767323045000, Mode: 0o644, Links: 1}); err != nil || in != want {
			t.Errorf("Stat = %+v, %v; want %+v", in, err, want)
		}
		p, err := c.List("d", 1, "")
		if err != nil || len(p.Entries) != 1 || p.Entries[0].Path != "d/a" || p.Total != 1 || p.Next != "" {
			t.Errorf("List = %+v, %v", p, err)
		}
		buf := make([]byte, 4)
		if n, err := c.ReadAt("d/a", buf, 2); n != 4 || err != nil || string(buf) != "2345" {
			t.Errorf("ReadAt = %d, %v, %q", n, err, buf)
		}
		if n, err := c.ReadAt("d/a", buf, 8); n != 2 || err != io.EOF {
			t.Errorf("ReadAt at the end = %d, %v", n, err)
		}
		for _, limit := range []int{9, 10, 11} {
			all, err := c.ReadFile("d/a", limit)
			if limit < 10 && guest.CodeOf(err) != guest.TooLarge || limit >= 10 && (err != nil || string(all) != "0123456789") {
				t.Errorf("ReadFile up to %d = %q, %v", limit, all, err)
			}
		}
		w, err := c.WriteFile("n/b", []byte("x\ny\n"), false)
		if err != nil || !w.Created || w.Bytes != 4 || len(w.SHA256) != 64 || w.Path != "n/b" {
			t.Errorf("WriteFile = %+v, %v", w, err)
		}
		if _, err = c.WriteFile("n/b", nil, false); guest.CodeOf(err) != guest.Exists {
			t.Errorf("WriteFile again: %v", err)
		}
		e, err := c.Edit("n/b", guest.Edit{Old: "x", New: "z"}, guest.Edit{Old: "y", New: "z", All: true})
		if err != nil || e.Replacements != 2 || len(e.Lines) != 2 || e.Lines[1] != (guest.LineRange{Start: 2, End: 2}) {
			t.Errorf("Edit = %+v, %v", e, err)
		}
		_, err = c.Edit("n/b", guest.Edit{Old: "z", New: "q"})
		var ge *guest.Error
		if !errors.As(err, &ge) || ge.Code != guest.NotUnique || ge.Path != "n/b" || string(ge.Details.JSON()) != `{"lines":[1,2]}` {
			t.Errorf("Edit of two places: %+v", err)
		}
		if m, err := c.Rename("n/b", "n/c", false); err != nil || m.Path != "n/c" || m.From != "n/b" {
			t.Errorf("Rename = %+v, %v", m, err)
		}
		if err := c.Mkdir("e/f"); err != nil {
			t.Error(err)
		}
		if d, err := c.Diff(1000); err != nil || d != "--- /dev/null\n+++ b/e/f\n--- /dev/null\n+++ b/n/c\n+z\n+z\n" {
			t.Errorf("Diff = %q, %v", d, err)
		}
		if x, err := c.Remove("n", true); err != nil || x.Removed != 1 {
			t.Errorf("Remove = %+v, %v", x, err)
		}
		f, err := c.Search(guest.Query{Kind: "grep", Pattern: "3", Mode: "content"})
		if err != nil || f.Total != 1 || len(f.Lines) != 1 || f.Lines[0] != (guest.Line{Path: "d/a", Line: 1, Text: "0123456789"}) {
			t.Errorf("Search = %+v, %v", f, err)
		}
		if err := errors.Join(c.Discard(), c.Emit(guest.Stdout, []byte("out")), c.Progress(1, 2, "half"), c.Log(guest.Warning, "hm")); err != nil {
			t.Error(err)
		}
		return guest.Text("done"), nil
	})
	if r.IsError || len(h.Files) != 1 || string(h.Emitted) != "out" || len(h.Progress) != 1 || h.Progress[0] != "1/2 half" || h.Logged[0] != "hm" {
		t.Errorf("%s; files %v, emitted %q, progress %q, log %q", r.Text(), h.Files, h.Emitted, h.Progress, h.Logged)
	}
}

// liar is a host that answers against the rules.
type liar struct {
	guest.ABI
	ret    int64
	result int64
	fail   string
	asked  int
}

func (l *liar) Stat(string) int64                    { return l.ret }
func (l *liar) Read(string, int64, []byte) int64     { return l.ret }
func (l *liar) ResultRead(buf []byte, off int) int64 { return l.result }
func (l *liar) ErrorRead(buf []byte) int64           { l.asked++; return int64(copy(buf, l.fail)) }

// TestLyingHost: whatever a host answers is an error, not a panic or a loop.
func TestLyingHost(t *testing.T) {
	for name, l := range map[string]*liar{
		"result that never comes":  {ret: 10, result: 0},
		"more than asked for":      {ret: 10, result: 11},
		"a huge result":            {ret: 1 << 40},
		"a result that fails":      {ret: 10, result: -13},
		"no JSON":                  {ret: 10, result: 10},
		"an unknown number":        {ret: -1 << 60},
		"an error without text":    {ret: -12},
		"an error that is no JSON": {ret: -12, fail: "{"},
		"an endless error":         {ret: -12, fail: strings.Repeat("x", 1<<20)},
	} {
		run = func(c *guest.Call) (guest.Result, error) {
			_, err := c.Stat("x")
			if err == nil {
				t.Errorf("%s: no error", name)
			}
			return guest.Result{}, err
		}
		guest.Serve(l, guesttest.EncodeRequest(0, "", 0, []byte("{}")))
	}
	run = func(c *guest.Call) (guest.Result, error) {
		if n, err := c.ReadAt("x", make([]byte, 4), 0); n != 0 || guest.CodeOf(err) != guest.Internal {
			t.Errorf("ReadAt of too many bytes = %d, %v", n, err)
		}
		return guest.Result{}, nil
	}
	guest.Serve(&liar{ret: 5}, guesttest.EncodeRequest(0, "", 0, []byte("{}")))
	// A long error is fetched whole.
	l := &liar{ret: -12, fail: `{"code":"stale","text":"` + strings.Repeat("x", 10000) + `"}`}
	run = func(c *guest.Call) (guest.Result, error) { _, err := c.Stat("x"); return guest.Result{}, err }
	if r := guest.Serve(l, guesttest.EncodeRequest(0, "", 0, []byte("{}"))); len(r) < 10000 || !strings.Contains(string(r), `"stale"`) || l.asked != 2 {
		t.Errorf("a long error: %d bytes, fetched %d times", len(r), l.asked)
	}
}

func FuzzBase64(f *testing.F) {
	f.Add([]byte("abc"))
	f.Fuzz(func(t *testing.T, p []byte) {
		run = func(c *guest.Call) (guest.Result, error) {
			return guest.Result{Content: []guest.Content{{Type: "image", Data: p}}}, nil
		}
		r := guesttest.New().Call("t", "{}")
		if got, err := base64.StdEncoding.DecodeString(r.Content[0].Data); err != nil || string(got) != string(p) {
			t.Fatalf("%x is written as %s", p, r.Content[0].Data)
		}
	})
}

// TestIntegersOutOfRange: a tool that asks for an integer never sees one that no
// int64 holds, wherever it stands; a number that may be none is its own affair.
func TestIntegersOutOfRange(t *testing.T) {
	h := guesttest.New()
	for args, path := range map[string]string{
		`{"n":9223372036854775808}`:                "$.n is 9223372036854775808, past the end",
		`{"n":-9223372036854775809}`:               "$.n is -9223372036854775809, below",
		`{"n":1e300}`:                              "$.n is 1e300",
		`{"o":{"n":1e19}}`:                         "$.o.n is 1e19",
		`{"l":[1,2,99999999999999999999]}`:         "$.l[2] is 99999999999999999999",
		`{"n":1` + strings.Repeat("0", 9000) + `}`: "$.n is 1000",
	} {
		r := h.Call("numbers", args)
		if r.Meta.Code != string(guest.InvalidArguments) || !strings.Contains(r.Text(), path) || len(r.Text()) > 500 {
			t.Errorf("%.40s: code %q, text %.600q; want invalid_arguments with %q", args, r.Meta.Code, r.Text(), path)
		}
	}
	for _, args := range []string{`{"n":9223372036854775807}`, `{"n":1e18}`, `{"f":1e300}`, `{"b":1e300}`, `{"o":{"n":null}}`, `{"other":1e300}`, `{"l":[]}`} {
		if r := h.Call("numbers", args); r.Text() != "ran" {
			t.Errorf("%s: %s", args, r.Text())
		}
	}
}

// TestLongPaths: no function passes a path on that the host would only refuse by
// its size, in words that name the function and not the path.
func TestLongPaths(t *testing.T) {
	h := guesttest.New()
	p := strings.Repeat("d", 4097)
	for name, f := range map[string]func(*guest.Call) error{
		"Stat":       func(c *guest.Call) error { _, err := c.Stat(p); return err },
		"List":       func(c *guest.Call) error { _, err := c.List(p, 0, ""); return err },
		"ReadAt":     func(c *guest.Call) error { _, err := c.ReadAt(p, make([]byte, 1), 0); return err },
		"ReadFile":   func(c *guest.Call) error { _, err := c.ReadFile(p, 1); return err },
		"WriteText":  func(c *guest.Call) error { _, err := c.WriteText(p, "", false); return err },
		"Edit":       func(c *guest.Call) error { _, err := c.Edit(p, guest.Edit{Old: "a"}); return err },
		"Remove":     func(c *guest.Call) error { _, err := c.Remove(p, false); return err },
		"RenameFrom": func(c *guest.Call) error { _, err := c.Rename(p, "x", false); return err },
		"RenameTo":   func(c *guest.Call) error { _, err := c.Rename("x", p, false); return err },
		"Mkdir":      func(c *guest.Call) error { return c.Mkdir(p) },
	} {
		r := call(t, h, func(c *guest.Call) (guest.Result, error) { return guest.Text("ran"), f(c) })
		if r.Meta.Code != string(guest.InvalidArguments) || !strings.Contains(r.Text(), "4097 bytes; at most 4096") || len(h.Calls) != 0 {
			t.Errorf("%s: %s, calls %v", name, r.Text(), h.Calls)
		}
	}
}
