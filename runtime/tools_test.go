package runtime

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/testdata/hostile"
	"github.com/wasmtools/wasmtools/tool"
	toolswasm "github.com/wasmtools/wasmtools/tools-wasm"
	"github.com/wasmtools/wasmtools/workspace"
)

func fuzzSpace(t testing.TB) *workspace.Workspace {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\ntwo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Open(dir, workspace.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// core is the built-in module in an engine that the whole test binary shares,
// because compiling it takes a second.
var core = sync.OnceValues(func() (Module, error) {
	e, err := New(context.Background(), Options{})
	if err != nil {
		return nil, err
	}
	return e.Load(context.Background(), toolswasm.Core(), LoadOptions{Trusted: true})
})

// coreTool returns a built-in tool over w with everything that it asks for.
func coreTool(t testing.TB, w *workspace.Workspace, name string) tool.Tool {
	t.Helper()
	m, err := core()
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]hostfuncs.Grant{}
	for _, a := range m.Manifest().Tools {
		asked[a.Name] = a.Capabilities
	}
	for _, x := range Tools(m, ToolOptions{Source: tool.Builtin, Workspace: w,
		Grant: func(name string) hostfuncs.Grant { return asked[name] }}) {
		if x.Definition().Name == name {
			return x
		}
	}
	t.Fatalf("there is no tool %s", name)
	return nil
}

func inv(name, args string) tool.Invocation {
	return tool.Invocation{CallID: "c", Tool: name, Arguments: json.RawMessage(args), Input: tool.DigestOf([]byte(args))}
}

func TestToolReads(t *testing.T) {
	x := coreTool(t, fuzzSpace(t), "read_open")
	if _, previews := x.(tool.Previewer); previews {
		t.Error("a tool that only reads has a preview")
	}
	if o := x.Origin(); o.Source != tool.Builtin || !o.Trusted || o.Module != tool.DigestOf(toolswasm.Core()) {
		t.Errorf("Origin() = %+v", o)
	}
	r, err := x.Call(context.Background(), inv("read_open", `{"path":"a.txt"}`), nil)
	if err != nil || r.IsError || !strings.Contains(r.PlainText(), "two") {
		t.Errorf("read_open = %+v, %v", r, err)
	}
	u := r.Usage
	if u == nil {
		t.Fatal("the result does not say what the call took")
	}
	if len(u.Paths) != 1 || u.Paths[0] != "a.txt" || u.MorePaths != 0 {
		t.Errorf("the call read %q and %d more; want a.txt", u.Paths, u.MorePaths)
	}
	if u.BytesRead < 8 || u.HostCalls == 0 || u.MemoryPeak == 0 || u.OutputBytes == 0 || u.Duration <= 0 {
		t.Errorf("Usage = %+v", u)
	}
}

func TestToolPreviews(t *testing.T) {
	w := fuzzSpace(t)
	x := coreTool(t, w, "write_file").(tool.Previewer)
	ctx := context.Background()
	p, err := x.Preview(ctx, inv("write_file", `{"path":"new.txt","content":"hello\n"}`), nil)
	if err != nil || p.Result.IsError || len(p.Writes.Entries) != 1 || !strings.Contains(p.Diff, "+hello") || p.Binding == "" {
		t.Fatalf("Preview = %+v, %v", p, err)
	}
	if _, err := os.Lstat(filepath.Join(w.RealPath(), "new.txt")); err == nil {
		t.Error("a preview wrote to the disk")
	}
	same, _ := x.Preview(ctx, inv("write_file", `{"path":"new.txt","content":"hello\n"}`), nil)
	other, _ := x.Preview(ctx, inv("write_file", `{"path":"new.txt","content":"Hello\n"}`), nil)
	if same.Binding != p.Binding || other.Binding == p.Binding {
		t.Errorf("bindings %s, %s, %s; want the first two equal", p.Binding, same.Binding, other.Binding)
	}
	// Call changes nothing by itself, and says so.
	r, err := x.(tool.Tool).Call(ctx, inv("write_file", `{"path":"new.txt","content":"hello\n"}`), nil)
	if err != nil || r.Code != tool.ApprovalRequired {
		t.Errorf("Call = %+v, %v; want approval_required", r, err)
	}
	// An error drops what the call had changed before.
	p, err = x.Preview(ctx, inv("write_file", `{"path":"a.txt","content":"x"}`), nil)
	if err != nil || p.Result.Code != tool.Exists || !p.Writes.Empty() {
		t.Errorf("Preview over an existing file = %+v, %v; want exists and no write set", p, err)
	}
	if err := w.Commit(ctx, same.Writes); err != nil {
		t.Errorf("Commit = %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(w.RealPath(), "new.txt")); string(got) != "hello\n" {
		t.Errorf("the file has %q, %v", got, err)
	}
}

// TestToolWithoutGrant takes the grants away, one by one.
func TestToolWithoutGrant(t *testing.T) {
	m, err := core()
	if err != nil {
		t.Fatal(err)
	}
	w := fuzzSpace(t)
	for _, g := range []hostfuncs.Grant{{}, {Read: []string{"other/**"}}, {Write: []string{"**"}}} {
		for _, x := range Tools(m, ToolOptions{Workspace: w, Grant: func(string) hostfuncs.Grant { return g }}) {
			if x.Definition().Name != "read_open" {
				continue
			}
			r, err := x.Call(context.Background(), inv("read_open", `{"path":"a.txt"}`), nil)
			if err != nil || r.Code != tool.GrantMissing {
				t.Errorf("read_open with %v = %+v, %v; want grant_missing", g, r, err)
			}
		}
	}
}

// TestConcurrentCalls runs many calls at once; each sees its own arguments.
func TestConcurrentCalls(t *testing.T) {
	x := coreTool(t, fuzzSpace(t), "write_file").(tool.Previewer)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			name := "f" + string(rune('a'+i))
			p, err := x.Preview(context.Background(), inv("write_file", `{"path":"`+name+`","content":"`+name+`"}`), nil)
			if err != nil || p.Writes.Empty() || p.Writes.Entries[0].Path != name || string(p.Writes.Entries[0].Blob) != name {
				t.Errorf("Preview of %s = %+v, %v", name, p, err)
			}
		})
	}
	wg.Wait()
}

func TestLimitsOfModules(t *testing.T) {
	e := newEngine(t, Options{Limits: Limits{Time: time.Minute}})
	big := hostile.WithLimits(hostile.Good(), `"memory_mib":512,"output_kib":6144`)
	if _, err := e.Load(context.Background(), big, LoadOptions{}); tool.CodeOf(err) != tool.InvalidModule {
		t.Errorf("a stranger's module with 512 MiB = %v; want invalid_module", err)
	}
	m, err := e.Load(context.Background(), big, LoadOptions{Trusted: true})
	if err != nil {
		t.Fatalf("a built-in module with 512 MiB = %v", err)
	}
	if l := m.(*module).limits; l.MemoryBytes != 512<<20 || l.OutputBytes != 6<<20 || l.Time != time.Minute {
		t.Errorf("limits = %+v", l)
	}
	if _, err := e.Load(context.Background(), hostile.WithLimits(hostile.Good(), `"memory_mib":4096`), LoadOptions{Trusted: true}); err == nil {
		t.Error("a built-in module with 4 GiB is taken")
	}
	if _, err := New(context.Background(), Options{Limits: Limits{Limits: hostfuncs.Limits{MemoryBytes: 1 << 40}}}); err == nil {
		t.Error("an engine with a limit of 1 TiB is made")
	}
}

// TestCallerStops cancels a call, and gives one a deadline in the past.
func TestCallerStops(t *testing.T) {
	e := newEngine(t, Options{})
	m := load(t, e, hostile.WithLimits(find(t, "endless-loop"), ""))
	if err := m.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		waitFor(t, func() bool {
			e.admit.mu.Lock()
			defer e.admit.mu.Unlock()
			return e.admit.running == 1
		})
		cancel()
	}()
	r, _, err := m.Run(ctx, &hostfuncs.Call{Invocation: tool.Invocation{Arguments: []byte("{}")}})
	if err != nil || r.Code != tool.Cancelled {
		t.Errorf("a cancelled call = %+v, %v; want cancelled", r, err)
	}
	r, _, err = m.Run(context.Background(), &hostfuncs.Call{Invocation: tool.Invocation{Deadline: time.Unix(1, 0), Arguments: []byte("{}")}})
	if err != nil || r.Code != tool.Timeout {
		t.Errorf("a call with a deadline in the past = %+v, %v; want timeout", r, err)
	}
	if _, _, err := m.Run(context.Background(), &hostfuncs.Call{Tool: 7}); err == nil {
		t.Error("a tool that the module does not have is no error")
	}
}

// TestBusy fills the engine and wants busy beyond.
func TestBusy(t *testing.T) {
	e := newEngine(t, Options{Limits: Limits{Total: 1, Queue: 1, Time: time.Minute}})
	m := load(t, e, hostile.WithLimits(find(t, "endless-loop"), ""))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { m.Run(ctx, &hostfuncs.Call{Invocation: tool.Invocation{Arguments: []byte("{}")}}) })
	}
	waitFor(t, func() bool {
		e.admit.mu.Lock()
		defer e.admit.mu.Unlock()
		return e.admit.running == 1 && len(e.admit.waiting) == 1
	})
	if code, _, _ := callOnce(m, 0); code != tool.Busy {
		t.Errorf("the third call = %q; want busy", code)
	}
	cancel()
	wg.Wait()
}

func TestDescribe(t *testing.T) {
	m, err := core()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Describe(context.Background(), toolswasm.Core())
	if err != nil {
		t.Fatal(err)
	}
	var about struct {
		Name  string
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal(got, &about); err != nil || about.Name != m.Manifest().Name || len(about.Tools) != len(m.Manifest().Tools) {
		t.Errorf("Describe = %.200s, %v", got, err)
	}
	if _, err := Describe(context.Background(), hostile.Good()); tool.CodeOf(err) != tool.InvalidModule {
		t.Errorf("Describe of a module without wt_describe = %v; want invalid_module", err)
	}
}

// TestNothingIsCompiledBeforeTheFirstCall counts on the engine's own record.
func TestNothingIsCompiledBeforeTheFirstCall(t *testing.T) {
	e := newEngine(t, Options{})
	m := load(t, e, hostile.Good()).(*module)
	if m.build != nil {
		t.Error("Load compiled the module")
	}
	if got := m.Manifest().Tools[0].Name; got != "attack" {
		t.Errorf("the manifest has %q", got)
	}
	if code, text, err := callOnce(m, 0); code != "" || err != nil {
		t.Errorf("the first call = %q %s %v", code, text, err)
	}
	if m.build == nil || m.code != nil {
		t.Error("the first call did not compile the module")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if code, _, _ := callOnce(m, 0); code != tool.NotAvailable {
		t.Errorf("a call after Close = %q; want not_available", code)
	}
}
