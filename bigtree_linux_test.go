package wasmtools_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// bigTree is a tree that is large and strange in every way that a file system
// takes: many files, one directory with very many, a huge file (sparse), deep
// directories, and names that are no text.
func bigTree(t *testing.T, dir string, files, flat int, huge int64) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	touch := func(path, text string) {
		fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_WRONLY|syscall.O_CLOEXEC, 0o644)
		must(err)
		if text != "" {
			_, err = syscall.Write(fd, []byte(text))
			must(err)
		}
		must(syscall.Close(fd))
	}
	for d := range files / 1000 {
		at := fmt.Sprintf("%s/many/%04d", dir, d)
		must(os.MkdirAll(at, 0o755))
		for i := range 1000 {
			touch(fmt.Sprintf("%s/f%04d.txt", at, i), "")
		}
	}
	touch(fmt.Sprintf("%s/many/%04d/needle.txt", dir, files/2000), "here is the needle\n")
	must(os.MkdirAll(dir+"/flat", 0o755))
	for i := range flat {
		touch(fmt.Sprintf("%s/flat/%06d", dir, i), "")
	}
	must(os.WriteFile(dir+"/huge", []byte("first\nsecond\n"), 0o644))
	must(os.Truncate(dir+"/huge", huge))
	deep := dir + "/deep"
	for range 80 {
		deep += "/" + strings.Repeat("d", 40)
	}
	must(os.MkdirAll(deep, 0o755))
	touch(deep+"/end.txt", "the end\n")
	must(os.MkdirAll(dir+"/odd", 0o755))
	for _, name := range []string{"new\nline", "bad\xff\xfeutf8", "rtl\u202egpj.exe", "e\u0301", "\u00e9", " ", "-rf", "a'b\"c", "\x1b[31mred", "tab\t"} {
		touch(dir+"/odd/"+name, "odd needle\n")
	}
}

func TestBigTree(t *testing.T) {
	files, flat, huge := 2000, 1200, int64(300<<20) // above what is digested
	if os.Getenv("WASMTOOLS_LONG") != "" {
		files, flat, huge = 1_000_000, 100_000, 4<<30
	}
	dir := t.TempDir()
	bigTree(t, dir, files, flat, huge)
	rt, turn := openRules(t, dir, policy.Policy{Mode: policy.ModeAllowEdits}, nil)
	var peak uint64
	call := func(name string, args map[string]any) tool.Result {
		t.Helper()
		began := time.Now()
		r := turn.Call(t.Context(), []wasmtools.Request{dryReq(name, args)})[0].Result
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse)
		b, _ := json.Marshal(args)
		t.Logf("%s %.80s: %s, %d bytes, %s", name, b, time.Since(began).Round(time.Millisecond), len(r.PlainText()), r.Code)
		if n := len(r.PlainText()); n > 64<<10 {
			t.Errorf("%s answers %d bytes", name, n)
		}
		return r
	}
	ok := func(name string, args map[string]any, says ...string) tool.Result {
		t.Helper()
		r := call(name, args)
		for _, s := range says {
			if !strings.Contains(r.PlainText(), s) {
				t.Errorf("%s: %.600s\nwant %q in it", name, r.PlainText(), s)
			}
		}
		if r.IsError {
			t.Errorf("%s: %.300s", name, r.PlainText())
		}
		return r
	}
	fails := func(name string, args map[string]any, code tool.Code) {
		t.Helper()
		if r := call(name, args); r.Code != code {
			t.Errorf("%s: %s (%.300s); want %s", name, r.Code, r.PlainText(), code)
		}
	}

	// A page of a directory, and all pages.
	ok("read_discover", map[string]any{"mode": "list", "path": "flat"}, fmt.Sprintf("%d", flat))
	seen := 0
	for cursor := ""; ; {
		args := map[string]any{"mode": "list", "path": "flat", "max_results": 150}
		if cursor != "" {
			args["cursor"] = cursor
		}
		r := turn.Call(t.Context(), []wasmtools.Request{dryReq("read_discover", args)})[0].Result
		var page struct {
			Entries []json.RawMessage `json:"entries"`
			Next    string            `json:"next"`
		}
		if err := json.Unmarshal(r.Structured, &page); r.IsError || err != nil {
			t.Fatalf("%v %.300s", err, r.PlainText())
		}
		seen += len(page.Entries)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if seen != flat {
		t.Errorf("%d of %d names were listed", seen, flat)
	}

	// Searches over everything; a partial one says so.
	r := ok("read_discover", map[string]any{"mode": "locate", "query": "**/needle.txt"}, "needle.txt")
	t.Logf("%.300s", r.PlainText())
	r = ok("grep", map[string]any{"pattern": "needle"}, "odd")
	if !strings.Contains(r.PlainText(), "needle.txt") && !strings.Contains(strings.ToLower(r.PlainText()), "searched") && !strings.Contains(r.PlainText(), "not") {
		t.Errorf("the search found nothing and does not say that it is partial: %.600s", r.PlainText())
	}
	t.Logf("%.400s", r.PlainText())
	ok("read_discover", map[string]any{"mode": "list", "path": "odd"}, `new\nline`, `bad\xff\xfeutf8`)

	// A huge file, which is no text.
	fails("read_open", map[string]any{"path": "huge", "selection": map[string]any{"range": map[string]any{"offset": huge - 20, "length": 20}}}, tool.Encoding)
	fails("replace_block", map[string]any{"path": "huge", "old": "first", "new": "1st"}, tool.TooLarge)

	// The end of a deep path, and a tree that is too large to be removed at once.
	ok("read_discover", map[string]any{"mode": "locate", "query": "end.txt", "root": "deep"}, "end.txt")
	before := countNames(t, dir)
	if files > 100_000 {
		fails("delete_path", map[string]any{"path": "many", "recursive": true}, tool.TooLarge)
	} else {
		ok("delete_path", map[string]any{"path": "many", "recursive": true})
	}
	ok("delete_path", map[string]any{"path": "huge"})
	ok("move_path", map[string]any{"from": "flat", "to": "round"})
	if flat < 100_000 { // the directory itself is a name, too
		ok("delete_path", map[string]any{"path": "round", "recursive": true})
	}
	w, err := rt.Files("")
	if err != nil {
		t.Fatal(err)
	}
	for {
		began := time.Now()
		u, err := w.Undo(t.Context(), workspace.UndoOptions{})
		if tool.CodeOf(err) == tool.NotFound {
			break
		}
		if err != nil || len(u.Conflicts) > 0 {
			t.Fatalf("undo: %v %+v", err, u.Conflicts)
		}
		t.Logf("undo of %d changes: %s", len(u.Writes.Entries), time.Since(began).Round(time.Millisecond))
	}
	if after := countNames(t, dir); after != before {
		t.Errorf("after the undos there are %d names; there were %d", after, before)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(dir+"/huge", &st); err != nil || st.Size != huge || st.Blocks*512 > 64<<20 {
		t.Errorf("huge came back with %d bytes, %d of them on the disk: %v", st.Size, st.Blocks*512, err)
	}
	t.Logf("heap at most %d MiB", peak>>20)
	if peak > 1<<30 {
		t.Errorf("the heap had %d MiB", peak>>20)
	}
}

func countNames(t *testing.T, dir string) (n int) {
	t.Helper()
	filepath.WalkDir(dir, func(string, os.DirEntry, error) error { n++; return nil })
	return n
}

// A directory that goes away under calls is told as what it is: no call hangs,
// panics or says what is not so.
func TestTreeRemovedUnderCalls(t *testing.T) {
	dir := t.TempDir()
	_, turn := openRules(t, dir, policy.Policy{Mode: policy.ModeAllowEdits}, nil)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for i := range 40 {
				at := fmt.Sprintf("%s/d/%d", dir, i)
				_ = os.MkdirAll(at, 0o755) // the calls remove it, too
				_ = os.WriteFile(at+"/f", []byte("text\n"), 0o644)
			}
			os.RemoveAll(dir + "/d")
		}
	}()
	defer func() { close(stop); <-done }()
	good := 0
	for i := range 150 {
		for _, q := range []wasmtools.Request{
			dryReq("read_discover", map[string]any{"mode": "list", "path": "d"}),
			dryReq("read_discover", map[string]any{"mode": "locate", "query": "**/f"}),
			dryReq("grep", map[string]any{"pattern": "text"}),
			dryReq("read_open", map[string]any{"path": fmt.Sprintf("d/%d/f", i%40)}),
			dryReq("replace_block", map[string]any{"path": fmt.Sprintf("d/%d/f", i%40), "old": "text", "new": "TEXT"}),
			dryReq("delete_path", map[string]any{"path": "d", "recursive": true}),
		} {
			r := turn.Call(t.Context(), []wasmtools.Request{q})[0].Result
			switch r.Code {
			case "":
				good++
			case tool.NotFound, tool.NoMatch, tool.ApprovalMismatch, tool.Busy, tool.Stale, tool.NotRegular:
			default:
				t.Fatalf("%s %s: %s", q.Tool, q.Arguments, r.PlainText())
			}
		}
	}
	if good == 0 {
		t.Error("no call did anything")
	}
}
