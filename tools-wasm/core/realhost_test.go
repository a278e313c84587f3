package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
	"github.com/wasmtools/wasmtools/guest-sdk/guesttest"
	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
	"github.com/wasmtools/wasmtools/workspace/charset"
	"github.com/wasmtools/wasmtools/workspace/search"
)

// realHost is the ABI over the host's own functions, without an engine between:
// the tools as they work on a disk.
type realHost struct {
	call   *hostfuncs.Call
	result []byte
	fail   []byte
}

func (h *realHost) give(v any, err error) int64 {
	if err != nil {
		return h.refuse(err)
	}
	h.result, _ = json.Marshal(v)
	return int64(len(h.result))
}

func (h *realHost) refuse(err error) int64 {
	e := tool.AsError(err)
	h.fail, _ = json.Marshal(map[string]any{"code": e.Code, "path": e.Path, "text": e.Text, "next": e.Next, "details": e.Details})
	return -int64(e.Code.Number())
}

func (h *realHost) done(err error) int64 {
	if err != nil {
		return h.refuse(err)
	}
	return 0
}

func (h *realHost) ResultRead(buf []byte, off int) int64 { return int64(copy(buf, h.result[off:])) }
func (h *realHost) ErrorRead(buf []byte) int64           { return int64(copy(buf, h.fail)) }
func (h *realHost) Stat(path string) int64               { return h.give(h.call.Stat(context.Background(), path)) }
func (h *realHost) List(path string, opts []byte) int64 {
	var o workspace.ListOptions
	if err := json.Unmarshal(opts, &o); err != nil {
		return h.refuse(err)
	}
	return h.give(h.call.List(context.Background(), path, o))
}
func (h *realHost) Read(path string, off int64, buf []byte) int64 {
	n, err := h.call.ReadAt(context.Background(), path, buf, off)
	if err != nil {
		return h.refuse(err)
	}
	return int64(n)
}
func (h *realHost) Write(path string, data []byte, flags int) int64 {
	return h.give(h.call.Write(context.Background(), path, data, flags&guest.FlagOverwrite != 0))
}
func (h *realHost) Edit(path string, edits []byte) int64 {
	var req struct {
		Edits    []workspace.Edit
		Encoding string
	}
	if err := json.Unmarshal(edits, &req); err != nil {
		return h.refuse(err)
	}
	return h.give(h.call.EditText(context.Background(), path, req.Edits, req.Encoding))
}
func (h *realHost) ReadText(path, encoding string) int64 {
	t, err := h.call.ReadText(context.Background(), path, encoding)
	if err != nil {
		return h.refuse(err)
	}
	head, _ := json.Marshal(map[string]any{"encoding": t.Encoding.String(), "exact": t.Exact, "size": t.Size})
	h.result = append(binary.LittleEndian.AppendUint32(nil, uint32(len(head))), head...)
	h.result = append(h.result, t.Text...)
	return int64(len(h.result))
}
func (h *realHost) WriteText(path string, text []byte, encoding string, flags int) int64 {
	return h.give(h.call.WriteText(context.Background(), path, string(text), encoding, flags&guest.FlagOverwrite != 0))
}
func (h *realHost) Remove(path string, flags int) int64 {
	return h.give(h.call.Remove(context.Background(), path, flags&guest.FlagRecursive != 0))
}
func (h *realHost) Rename(from, to string, flags int) int64 {
	return h.give(h.call.Rename(context.Background(), from, to, flags&guest.FlagOverwrite != 0))
}
func (h *realHost) Mkdir(path string) int64 { return h.done(h.call.Mkdir(context.Background(), path)) }
func (h *realHost) Diff(limit int) int64 {
	d, err := h.call.Diff(limit)
	if err != nil {
		return h.refuse(err)
	}
	h.result = []byte(d)
	return int64(len(d))
}
func (h *realHost) Discard() int64 { return h.done(h.call.Discard()) }
func (h *realHost) Search(req []byte) int64 {
	var q search.Request
	d := json.NewDecoder(bytes.NewReader(req))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return h.refuse(err)
	}
	return h.give(h.call.Search(context.Background(), q))
}
func (h *realHost) Emit(int, []byte) int64              { return 0 }
func (h *realHost) Progress(int64, int64, string) int64 { return 0 }
func (h *realHost) Log(int, string) int64               { return 0 }

// disk is a workspace in a temporary folder.
type disk struct {
	t    *testing.T
	root string
	w    *workspace.Workspace
}

func newDisk(t *testing.T) *disk {
	root := t.TempDir()
	w, err := workspace.Open(root, workspace.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return &disk{t, root, w}
}

func (d *disk) put(name, text string) {
	d.t.Helper()
	p := filepath.Join(d.root, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) text(name string) string {
	p, err := os.ReadFile(filepath.Join(d.root, name))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(p)
}

// run makes one call with everything granted, and commits what it changed.
func (d *disk) run(name, args string) guesttest.CallResult {
	d.t.Helper()
	grant := manifest.Capabilities{Read: everything, Write: everything}
	o := hostfuncs.NewOverlay(d.w, grant, nil, nil)
	defer o.Close()
	host := &realHost{call: &hostfuncs.Call{Grant: grant, Files: o, Sink: tool.Discard{}}}
	index := slices.IndexFunc(guest.Tools(), func(t guest.Tool) bool { return t.Name == name })
	var r guesttest.CallResult
	r.Raw = guest.Serve(host, guesttest.EncodeRequest(uint32(index), "c", 0, []byte(args)))
	if err := json.Unmarshal(r.Raw, &r); err != nil {
		d.t.Fatal(err)
	}
	if !r.IsError {
		if err := d.w.Commit(context.Background(), o.WriteSet()); err != nil {
			d.t.Fatalf("%s(%s): commit: %v", name, args, err)
		}
	}
	return r
}

func TestOnDiskEdits(t *testing.T) {
	for _, c := range []struct {
		name, before string
		tool, args   string
		after        string
		code         guest.Code
	}{
		{"CRLF", "a\r\nb\r\nc\r\n", "replace_block", args("path", "f", "old", "a\nb", "new", "x\ny"), "x\r\ny\r\nc\r\n", ""},
		{"CRLF, pasted with numbers", "a\r\nb\r\n", "replace_block", args("path", "f", "old", "1\ta\n2\tb\n", "new", "1\tx\n"), "x\r\n", ""},
		{"lone CR stays", "old mac\rline\nx=1\n", "replace_block", args("path", "f", "old", "x=1", "new", "x=2"), "old mac\rline\nx=2\n", ""},
		{"byte order mark stays", "\xef\xbb\xbfa\n", "replace_block", args("path", "f", "old", "a", "new", "b"), "\xef\xbb\xbfb\n", ""},
		{"no last line end stays away", "a\nb", "replace_block", args("path", "f", "old", "a", "new", "c"), "c\nb", ""},
		{"invalid UTF-8 elsewhere stays", "// \xa9\nint x = 1;\n", "replace_block", args("path", "f", "old", "int x = 1;", "new", "int x = 2;"), "// \xa9\nint x = 2;\n", ""},
		{"edits match the original", "a\nb\n", "replace_block", args("path", "f", "edits", []obj{{"old": "a", "new": "b"}, {"old": "b", "new": "c"}}), "b\nc\n", ""},
		{"overlap counts", "ababab\n", "replace_block", args("path", "f", "old", "abab", "new", "Z"), "", guest.NotUnique},
		{"twice", "x\ny\nx\n", "replace_block", args("path", "f", "old", "x", "new", "z"), "", guest.NotUnique},
		{"not there", "x\n", "replace_block", args("path", "f", "old", "q", "new", "z"), "", guest.NoMatch},
		{"same", "x\n", "replace_block", args("path", "f", "old", "x", "new", "x"), "", guest.NoChange},
		{"all", "x x\n", "replace_block", args("path", "f", "old", "x", "new", "y", "replace_all", true), "y y\n", ""},
		{"overwrite keeps the mark", "\xef\xbb\xbfa", "write_file", args("path", "f", "content", "b", "overwrite", true), "\xef\xbb\xbfb", ""},
		{"overwrite keeps UTF-16", "\xff\xfea\x00", "write_file", args("path", "f", "content", "b", "overwrite", true), "\xff\xfeb\x00", ""},
		{"overwrite keeps what the text can be written in", "caf\xe9", "write_file", args("path", "f", "content", "thé", "overwrite", true), "th\xe9", ""},
		{"a character that the file's encoding lacks", "caf\xe9", "write_file", args("path", "f", "content", "日", "overwrite", true), "", guest.Encoding},
		{"another encoding", "caf\xe9", "write_file", args("path", "f", "content", "日", "overwrite", true, "encoding", "shift_jis"), "\x93\xfa", ""},
		{"no such encoding", "a", "write_file", args("path", "f", "content", "b", "overwrite", true, "encoding", "utf-7"), "", guest.Encoding},
		{"edit in UTF-16", "\xff\xfea\x00", "replace_block", args("path", "f", "old", "a", "new", "日"), "\xff\xfe\xe5\x65", ""},
		{"edit in Latin-1", "// caf\xe9\nx\n", "replace_block", args("path", "f", "old", "café\nx", "new", "thé\ny"), "// th\xe9\ny\n", ""},
		{"edit in doubt", "// \xd7\xa2\xd2\xe2\n", "replace_block", args("path", "f", "old", "注意", "new", "意"), "", guest.Encoding},
		{"edit in doubt, named", "// \xd7\xa2\xd2\xe2\n", "replace_block", args("path", "f", "old", "注意", "new", "意", "encoding", "gbk"), "// \xd2\xe2\n", ""},
		{"edit in doubt, pasted with numbers", "a\n// \xd7\xa2\xd2\xe2\n", "replace_block", args("path", "f", "old", "2\t// 注意\n", "new", "2\t// 意\n", "encoding", "gbk"), "a\n// \xd2\xe2\n", ""},
		{"exists", "a", "write_file", args("path", "f", "content", "b"), "", guest.Exists},
		{"stale", "a", "write_file", args("path", "f", "content", "b", "overwrite", true, "expected_sha256", sum("z")), "", guest.Stale},
		{"dry run", "a", "write_file", args("path", "f", "content", "b", "overwrite", true, "dry_run", true), "a", ""},
		{"NUL in the path", "a", "write_file", args("path", "f\x00x", "content", "b"), "", "-"},
		{"the root", "a", "delete_path", args("path", ".", "recursive", true), "", "-"},
		{"onto itself", "a", "move_path", args("from", "f", "to", "./f"), "", guest.NoChange},
		{"outside", "a", "move_path", args("from", "f", "to", "../f"), "", guest.OutsideRoot},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk(t)
			d.put("f", c.before)
			r := d.run(c.tool, c.args)
			if c.code == "-" && r.IsError {
				return
			}
			if string(c.code) != r.Meta.Code {
				t.Fatalf("code %q, want %q: %s", r.Meta.Code, c.code, r.Text())
			}
			want := c.after
			if c.code != "" {
				want = c.before
			}
			if got := d.text("f"); got != want {
				t.Errorf("the file holds %q, want %q\n%s", got, want, r.Text())
			}
		})
	}
}

// TestOnDiskEncodings: read_open shows what a file says, in every form of
// selection, and where its bytes do not tell it says what may help.
func TestOnDiskEncodings(t *testing.T) {
	d := newDisk(t)
	enc := func(name, text string) string {
		e, err := charset.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Encode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	japanese := "# この関数は現在の時刻を返す。表示用\r\n"
	d.put("sj.md", enc("shift_jis", japanese+"x\r\n# 次\r\ny\r\n"))
	d.put("late", strings.Repeat("plain line\n", 2000)+enc("latin1", "// Größe prüfen, Übergänge zählen\n"))
	d.put("u16", enc("utf-16le", "plain enough\nné\n"))
	d.put("doubt", "// \xd7\xa2\xd2\xe2\n")
	d.put("bin", "a\x00b\x00\x01\xff")
	for _, c := range []struct{ args, want string }{
		{args("path", "sj.md"), "1\t# この関数は現在の時刻を返す。表示用\n2\tx\n3\t# 次\n4\ty\n[the file is Shift_JIS]\n[lines end in CRLF]\n"},
		{args("path", "sj.md", "selection", obj{"lines": obj{"start": 3, "end": 3}}), "3\t# 次\n"},
		{args("path", "sj.md", "selection", obj{"section": obj{"heading": "次"}}), "3\t# 次\n4\ty\n"},
		{args("path", "sj.md", "selection", obj{"range": obj{"offset": 3, "length": 7}}), "の関\n[bytes 5-10 of 68]\n[the file is Shift_JIS]\n[bytes are counted in its text as UTF-8]\n"},
		{args("path", "late", "selection", obj{"lines": obj{"start": 2001}}), "2001\t// Größe prüfen, Übergänge zählen\n[lines 2001-2001 of 2001]\n[the file is windows-1252]\n"},
		{args("path", "u16"), "1\tplain enough\n2\tné\n[the file is UTF-16LE]\n"},
		{args("path", "doubt"), "[2 bytes that are no UTF-8 are shown as U+FFFD; its encoding is not certain; set encoding to read it as "},
		{args("path", "doubt"), "gb18030 or "},
		{args("path", "doubt", "encoding", "gbk"), "1\t// 注意\n[the file is GBK]\n"},
		{args("path", "doubt", "encoding", "utf-8"), "[it is not that throughout: what does not fit is shown as U+FFFD]\n"},
	} {
		if r := d.run("read_open", c.args); r.IsError || !strings.Contains(r.Text(), c.want) {
			t.Errorf("read_open(%s) = %q; want %q", c.args, r.Text(), c.want)
		}
	}
	wantError(t, d.run("read_open", args("path", "bin")), guest.Encoding, "binary data")
	wantError(t, d.run("read_open", args("path", "doubt", "encoding", "klingon")), guest.Encoding, "klingon")
	if r := d.run("grep", args("pattern", "時刻|Größe|né", "mode", "content")); !strings.Contains(r.Text(), "late:2001: // Größe") ||
		!strings.Contains(r.Text(), "sj.md:1: # この") || !strings.Contains(r.Text(), "u16:2: né") {
		t.Errorf("grep = %q", r.Text())
	}
}

// TestOnDiskReads: grep and read_open agree about lines, results feed the next
// call, and names that are no text forge nothing.
func TestOnDiskReads(t *testing.T) {
	d := newDisk(t)
	d.put("ff", "l1\n\x0cx\nl3\nneedle\n")
	d.put("cr", "l1\rneedle\r")
	d.put("u16", "\xff\xfen\x00e\x00e\x00d\x00l\x00e\x00\n\x00")
	d.put("sub/deep/x.go", "// needle\n")
	d.put("long", strings.Repeat("x", 100000)+"needle"+strings.Repeat("y", 100000))
	d.put("a\nb", "needle\n")
	d.put("skip", "needle\n")
	d.put(".gitignore", "skip\n")

	r := d.run("grep", args("pattern", "needle", "mode", "content"))
	for _, want := range []string{"ff:4: needle\n", "cr:2: needle\n", "u16:1: needle\n", "sub/deep/x.go:1: // needle\n", `"a\nb":1: needle` + "\n", "xneedley", " [line cut]\n", "[skipped: 1 ignored by git]"} {
		if !strings.Contains(r.Text(), want) {
			t.Errorf("grep lacks %q:\n%.3000s", want, r.Text())
		}
	}
	for name, line := range map[string]string{"ff": "4\tneedle\n", "cr": "2\tneedle\n", "u16": "1\tneedle\n", "sub/deep/x.go": "1\t// needle\n"} {
		if r := d.run("read_open", args("path", name)); !strings.Contains(r.Text(), line) {
			t.Errorf("read_open of %s: %q", name, r.Text())
		}
	}
	r = d.run("grep", args("pattern", "needle", "path", "skip"))
	wantText(t, r, "1 file\nskip\n")
	wantError(t, d.run("grep", args("pattern", "foo(")), guest.InvalidArguments, "literal")
	wantError(t, d.run("read_open", args("path", "sub")), guest.NotRegular, "read_discover")
	wantError(t, d.run("read_open", args("path", "ff", "selection", lines(5, 6))), guest.InvalidArguments, "4 lines")

	r = d.run("read_discover", args("mode", "list", "path", "/"))
	for _, want := range []string{".: 8 names\n", `"a\nb"` + "\tfile\t7\t", "sub/\tdir\t", "skip\tfile\t7\t"} {
		if !strings.Contains(r.Text(), want) {
			t.Errorf("list lacks %q:\n%s", want, r.Text())
		}
	}
	r = d.run("read_discover", args("mode", "locate", "query", "**/*.go"))
	if !strings.HasPrefix(r.Text(), "1 match\nsub/deep/x.go\tfile\t10\t") {
		t.Errorf("locate: %s", r.Text())
	}
	// What a page names as the next one is taken.
	seen := 0
	for cursor := ""; ; {
		a := obj{"mode": "list", "max_results": 3}
		if cursor != "" {
			a["cursor"] = cursor
		}
		p, _ := json.Marshal(a)
		var s struct {
			Entries []any
			Next    string
		}
		r := d.run("read_discover", string(p))
		if json.Unmarshal(r.Structured, &s) != nil || r.IsError {
			t.Fatal(r.Text())
		}
		seen += len(s.Entries)
		if cursor = s.Next; cursor == "" || seen > 20 {
			break
		}
	}
	if seen != 8 {
		t.Errorf("the pages hold %d names, want 8", seen)
	}
}

// TestOnDiskGrepPages: pages of content mode with context are disjoint and
// complete on the real search.
func TestOnDiskGrepPages(t *testing.T) {
	d := newDisk(t)
	var text strings.Builder
	for i := range 300 {
		text.WriteString(strings.Repeat("-", 60) + "\nneedle " + itoa(i) + "\n")
	}
	d.put("f", text.String())
	got, offset := 0, 0
	for range 100 {
		r := d.run("grep", args("pattern", "needle", "mode", "content", "context", 1, "limit", 10000, "offset", offset))
		if r.IsError {
			t.Fatal(r.Text())
		}
		if n := guest.TextLen(r.Text()); n > grepBytes {
			t.Errorf("a page takes %d bytes", n)
		}
		for l := range strings.Lines(r.Text()) {
			if strings.Contains(l, ": needle") {
				if !strings.HasSuffix(l, "needle "+itoa(got)+"\n") {
					t.Fatalf("match %d is %q", got, l)
				}
				got++
			}
		}
		next, ok := r.Details()["next_offset"].(float64)
		if !ok {
			break
		}
		offset = int(next)
	}
	if got != 300 {
		t.Errorf("the pages hold %d matches, want 300", got)
	}
}

// TestOnDiskHugeMatch: one match that is longer than any window is the same in
// all modes of grep.
func TestOnDiskHugeMatch(t *testing.T) {
	d := newDisk(t)
	d.put("f", strings.Repeat("q", 1_500_000)+"foo\n")
	wantText(t, d.run("grep", args("pattern", "q+foo")), "1 file\nf\n")
	wantText(t, d.run("grep", args("pattern", "q+foo", "mode", "count")), "1 match in 1 file\nf: 1\n")
	r := d.run("grep", args("pattern", "q+foo", "mode", "content"))
	if !strings.HasPrefix(r.Text(), "1 match in 1 file\nf:1: qqq") || !strings.HasSuffix(r.Text(), "qqq [line cut]\n") || r.Details()["shown"] != 1.0 {
		t.Errorf("content: %.60q, details %v", r.Text(), r.Details())
	}
}

// TestHandles: artifact: and skill: are handles wherever they stand; a real file
// of such a name is shown, and opened by every tool, with ./ before it.
func TestHandles(t *testing.T) {
	id := "artifact:" + strings.Repeat("a", 26)
	for _, handle := range []string{id, "skill:x/y"} {
		d := newDisk(t)
		d.put(handle, "needle\n")
		if err := os.Symlink(handle, filepath.Join(d.root, "link")); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ tool, args string }{
			{"read_open", args("path", handle)}, {"grep", args("pattern", "needle", "path", handle)},
		} {
			wantError(t, d.run(c.tool, c.args), guest.NotFound, "in this session", "./")
		}
		for _, c := range []struct{ tool, args string }{
			{"read_discover", args("mode", "list", "path", handle)},
			{"read_discover", args("mode", "locate", "query", "x", "root", handle)},
			{"write_file", args("path", handle, "content", "x", "overwrite", true)},
			{"replace_block", args("path", handle, "old", "needle", "new", "x")},
			{"delete_path", args("path", handle)},
			{"move_path", args("from", handle, "to", "x")},
			{"move_path", args("from", "link", "to", handle)},
		} {
			wantError(t, d.run(c.tool, c.args), guest.InvalidArguments, "handle")
		}
		shown := "./" + handle
		for _, c := range []struct{ tool, args, says string }{
			{"read_discover", args("mode", "list", "path", filepath.Dir(shown)), shown + "\tfile"},
			{"read_discover", args("mode", "list"), "link -> " + shown + "\t"},
			{"read_discover", args("mode", "locate", "query", filepath.Base(handle)), shown + "\tfile"},
			{"grep", args("pattern", "needle"), "1 file\n" + shown + "\n"},
			{"grep", args("pattern", "needle", "mode", "count"), "\n" + shown + ": 1\n"},
			{"grep", args("pattern", "needle", "mode", "content", "path", shown), "\n" + shown + ":1: needle\n"},
			{"read_open", args("path", shown), "1\tneedle\n"},
			{"replace_block", args("path", shown, "old", "needle", "new", "pin"), "in " + shown + ","},
			{"write_file", args("path", shown, "content", "x", "overwrite", true), "overwrote " + shown + ":"},
			{"move_path", args("from", shown, "to", "plain"), "moved " + shown + " to plain"},
			{"move_path", args("from", "plain", "to", shown), "moved plain to " + shown},
			{"delete_path", args("path", shown), "deleted " + shown},
		} {
			r := d.run(c.tool, c.args)
			if r.IsError || !strings.Contains(r.Text(), c.says) {
				t.Errorf("%s(%s) says %q; want %q", c.tool, c.args, r.Text(), c.says)
			}
			// What a program reads is what the next call takes.
			if path, ok := r.Details()["path"].(string); ok && path != shown && path != "plain" {
				t.Errorf("%s(%s): details name %q", c.tool, c.args, path)
			}
			if strings.Contains(string(r.Structured), `"path":"`+handle) || strings.Contains(string(r.Structured), `"target":"`+handle) {
				t.Errorf("%s(%s): structure %s", c.tool, c.args, r.Structured)
			}
		}
	}
	d := newDisk(t)
	d.put("artifact:x", "needle\n")
	d.put("skill:", "needle\n")
	wantText(t, d.run("read_open", args("path", "artifact:x")), "1\tneedle\n")
	wantText(t, d.run("grep", args("pattern", "needle", "path", "skill:")), "1 file\nskill:\n")
}

// TestLongArguments: what is too long for the host is told by its own name.
func TestLongArguments(t *testing.T) {
	d := newDisk(t)
	d.put("f", "x\n")
	for _, n := range []int{5000, 2 << 20} {
		p := strings.Repeat("d/", n/2)
		for _, c := range []struct{ tool, args, names string }{
			{"read_open", args("path", p), "path has"},
			{"grep", args("pattern", "x", "path", p), "path has"},
			{"read_discover", args("mode", "list", "path", p), "path has"},
			{"read_discover", args("mode", "locate", "query", "x", "root", p), "root has"},
			{"write_file", args("path", p, "content", ""), "path has"},
			{"replace_block", args("path", p, "old", "x", "new", "y"), "path has"},
			{"delete_path", args("path", p), "path has"},
			{"move_path", args("from", p, "to", "x"), "from has"},
			{"move_path", args("from", "f", "to", p), "to has"},
			{"grep", args("pattern", p+p), "pattern has"},
			{"grep", args("pattern", "x", "glob", p+p), "glob has"},
			{"read_discover", args("mode", "locate", "query", p+p), "query has"},
			{"read_discover", args("mode", "list", "cursor", p+p), "cursor has"},
		} {
			r := d.run(c.tool, c.args)
			wantError(t, r, guest.InvalidArguments, c.names, "allowed")
			if len(r.Text()) > 300 {
				t.Errorf("%s: the error has %d bytes", c.tool, len(r.Text()))
			}
		}
	}
}

// TestLocateSaysWhereItEnded: a limit that ended a search is told in the text and
// in the structure, also where nothing was found.
func TestLocateSaysWhereItEnded(t *testing.T) {
	h := guesttest.New()
	for _, total := range []int{0, 1} {
		h.Search = func(guesttest.Request) (guesttest.Response, error) {
			r := guesttest.Response{Total: total, AtLeast: true}
			if total > 0 {
				r.Entries = []guesttest.Info{{Path: "a", Name: "a", Type: guest.TypeFile}}
			}
			return r, nil
		}
		for _, query := range []string{"deepf", "*.go"} {
			r := h.Call("read_discover", args("mode", "locate", "query", query))
			var s struct {
				Notice  string
				AtLeast bool `json:"at_least"`
			}
			if json.Unmarshal(r.Structured, &s) != nil || !s.AtLeast || !strings.Contains(s.Notice, "limit ended") || !strings.Contains(r.Text(), s.Notice) {
				t.Errorf("%d names: %s\n%s", total, r.Text(), r.Structured)
			}
		}
	}
}

// TestDescriptionsHold tries what the descriptions say that a reader would not
// expect of itself.
func TestDescriptionsHold(t *testing.T) {
	d := newDisk(t)
	d.put("empty/x", "")
	d.put("f", "needle\n")
	d.put("g", "other\n")
	d.put("seen.log", "needle\n")
	d.put(".gitignore", "*.log\n")
	d.put(".git/config", "needle\n")
	if r := d.run("delete_path", args("path", "empty/x")); r.IsError || !strings.HasPrefix(r.Text(), "deleted empty/x\n") {
		t.Error(r.Text())
	}
	for _, c := range []struct {
		says       string
		tool, args string
		code       guest.Code
		text       string
	}{
		{"with `recursive` a directory", "delete_path", args("path", "empty"), guest.InvalidArguments, "recursive"},
		{"with `recursive` a directory", "delete_path", args("path", "empty", "recursive", true, "dry_run", true), "", "deleted empty"},
		{"only by a file", "move_path", args("from", "empty", "to", "f", "overwrite", true), guest.Exists, "regular files"},
		{"not a directory to move into", "move_path", args("from", "f", "to", "empty"), guest.Exists, ""},
		{"replaced only with `overwrite`", "move_path", args("from", "f", "to", "g"), guest.Exists, "overwrite"},
		{"replaced only with `overwrite`", "move_path", args("from", "f", "to", "g", "overwrite", true, "dry_run", true), "", "would have moved f to g"},
		{"`.git` is not", "grep", args("pattern", "needle"), "", "1 file\nf\n"},
		{"or `glob` matches the file", "grep", args("pattern", "needle", "glob", "*.log"), "", "1 file\nseen.log\n"},
		{"replaced only with `overwrite`", "write_file", args("path", "g", "content", "x"), guest.Exists, "overwrite"},
		{"`dry_run` shows what would change", "write_file", args("path", "g", "content", "x", "overwrite", true, "dry_run", true), "", "would have overwritten g:"},
		{"`dry_run` shows what would change", "write_file", args("path", "h", "content", "x", "dry_run", true), "", "would have created h:"},
		{"`dry_run` shows the diff", "replace_block", args("path", "g", "old", "other", "new", "x", "dry_run", true), "", "would have replaced 1 place in g"},
	} {
		i := slices.IndexFunc(guest.Tools(), func(t guest.Tool) bool { return t.Name == c.tool })
		if !strings.Contains(guest.Tools()[i].Description, c.says) {
			t.Errorf("the description of %s does not say %q", c.tool, c.says)
		}
		r := d.run(c.tool, c.args)
		if c.code != "" {
			wantError(t, r, c.code, c.text)
		} else if r.IsError || !strings.Contains(r.Text(), c.text) {
			t.Errorf("%s(%s): %s", c.tool, c.args, r.Text())
		}
	}
}

// TestSecretsAreMarked: a listing names secrets and says that they are, a search
// says how many it left out.
func TestSecretsAreMarked(t *testing.T) {
	d := newDisk(t)
	d.put(".env", "needle\n")
	d.put(".ssh/config", "needle\n")
	d.put("f", "needle\n")
	r := d.run("read_discover", args("mode", "list"))
	if want := ".env\tfile\tprotected: a secret (env)\n.ssh/\tdir\tprotected: a secret (key)\nf\tfile\t7"; !strings.Contains(r.Text(), want) {
		t.Errorf("list = %q, want %q in it", r.Text(), want)
	}
	if got := string(r.Structured); !strings.Contains(got, `{"path":".env","name":".env","type":"file","secret":"env"}`) {
		t.Errorf("list = %s", got)
	}
	for _, r := range []guesttest.CallResult{d.run("grep", args("pattern", "needle")), d.run("read_discover", args("mode", "locate", "query", "*"))} {
		if text := r.Text(); !strings.Contains(text, "[skipped: 2 protected]") || strings.Contains(text, ".env") {
			t.Errorf("a search = %q", text)
		}
	}
	wantError(t, d.run("read_open", args("path", ".env")), guest.Protected, "secret")
}
