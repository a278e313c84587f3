package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/tool"
)

// runtimeBackend serves a real turn, as cmd/wasmtools does.
type runtimeBackend struct {
	rt   *wasmtools.Runtime
	turn *wasmtools.Turn
}

func (b *runtimeBackend) Tools() []tool.Definition { return b.turn.Tools() }
func (b *runtimeBackend) Call(ctx context.Context, c Call, sink tool.Sink) tool.Result {
	return b.turn.Call(ctx, []wasmtools.Request{{Tool: c.Tool, Arguments: c.Arguments, Sink: sink, Approver: c.Approver, Patience: c.Patience, Ceiling: Ceiling()}})[0].Result
}
func (b *runtimeBackend) OpenArtifact(handle string) (*artifact.File, error) {
	return b.turn.OpenArtifact(handle)
}
func (b *runtimeBackend) Decide(ticket string, d approval.Decision) error {
	return b.rt.Decide(ticket, d)
}

var compiled struct {
	once sync.Once
	dir  string
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(compiled.dir)
	os.Exit(code)
}

// workspace is a runtime on a folder that holds a.txt, with the word old in it.
func workspace(t *testing.T, approvers ...approval.Approver) (b *runtimeBackend, read func() string) {
	t.Helper()
	compiled.once.Do(func() { compiled.dir, _ = os.MkdirTemp("", "wasmtools-server-test-") })
	dir := t.TempDir()
	file := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(file, []byte("one\nold\ntwo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	rt, err := wasmtools.Open(t.Context(), wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: dir}}, Approvers: approvers,
		StateDir: filepath.Join(compiled.dir, "state"), CacheDir: filepath.Join(compiled.dir, "cache"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	turn, err := rt.Begin(t.Context(), wasmtools.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	return &runtimeBackend{rt, turn}, func() string {
		p, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		return string(p)
	}
}

const (
	before = "one\nold\ntwo\n"
	after  = "one\nnew\ntwo\n"
)

// elicits are options of a client whose person answers so.
func elicits(answer func(context.Context, *mcpsdk.ElicitRequest) (*mcpsdk.ElicitResult, error)) *mcpsdk.ClientOptions {
	return &mcpsdk.ClientOptions{ElicitationHandler: answer}
}

// edit makes the one call of these tests.
func edit(ctx context.Context, t *testing.T, cs *mcpsdk.ClientSession) *mcpsdk.CallToolResult {
	t.Helper()
	r, err := cs.CallTool(ctx, &mcpsdk.CallToolParams{Name: "replace_block", Arguments: map[string]any{"path": "a.txt", "old": "old", "new": "new"}})
	if err != nil {
		t.Fatalf("CallTool: %v", err)
	}
	return r
}

func codeOf(r *mcpsdk.CallToolResult) string {
	code, _ := r.Meta["wasmtools/code"].(string)
	return code
}

func ticketOf(t *testing.T, r *mcpsdk.CallToolResult) string {
	t.Helper()
	details, _ := r.Meta["wasmtools/details"].(map[string]any)
	ticket, _ := details["ticket"].(string)
	if codeOf(r) != "approval_required" || ticket == "" {
		t.Fatalf("got %q with ticket %q; want approval_required with one", codeOf(r), ticket)
	}
	return ticket
}

var elicitEras = []string{"2026-07-28", "2025-11-25", "2025-06-18"}

// TestClientApprovesAnEdit: the person behind the SDK's client sees the diff
// before anything is on the disk, and a yes commits exactly that.
func TestClientApprovesAnEdit(t *testing.T) {
	for _, era := range elicitEras {
		t.Run(era, func(t *testing.T) {
			b, file := workspace(t)
			var seen string
			cs, end := dial(t, b, era, elicits(func(_ context.Context, r *mcpsdk.ElicitRequest) (*mcpsdk.ElicitResult, error) {
				seen = r.Params.Message
				if now := file(); now != before {
					t.Errorf("the disk holds %q before the yes", now)
				}
				return &mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{askKey: true}}, nil
			}))
			r := edit(t.Context(), t, cs)
			if r.IsError || file() != after {
				t.Errorf("got %+v, and the file holds %q", r.Content[0], file())
			}
			for _, want := range []string{"replace_block", "a.txt", "| -old\n", "| +new\n"} {
				if !strings.Contains(seen, want) {
					t.Errorf("the person does not see %q in\n%s", want, seen)
				}
			}
			if err := end(); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// TestClientsThatSayNothing: whatever is no clear yes allows nothing and closes
// nothing. The call answers with its ticket, the client is not asked again, and
// a person elsewhere can still say yes.
func TestClientsThatSayNothing(t *testing.T) {
	type result = *mcpsdk.ElicitResult
	for name, answer := range map[string]result{
		"declines":            {Action: "decline"},
		"cancels":             {Action: "cancel"},
		"accepts unticked":    {Action: "accept", Content: map[string]any{askKey: false}},
		"accepts nothing":     {Action: "accept"},
		"declines with a yes": {Action: "decline", Content: map[string]any{askKey: true}},
		"invents an action":   {Action: "yes", Content: map[string]any{askKey: true}},
		"fails":               nil,
	} {
		for _, era := range elicitEras[:2] {
			if answer == nil && era == "2026-07-28" {
				continue // the SDK's client then gives up the call itself
			}
			t.Run(name+" "+era, func(t *testing.T) {
				b, file := workspace(t)
				var asked atomic.Int32
				cs, end := dial(t, b, era, elicits(func(context.Context, *mcpsdk.ElicitRequest) (*mcpsdk.ElicitResult, error) {
					asked.Add(1)
					if answer == nil {
						return nil, errors.New("no window")
					}
					return answer, nil
				}))
				ticket := ticketOf(t, edit(t.Context(), t, cs))
				if again := ticketOf(t, edit(t.Context(), t, cs)); again != ticket || asked.Load() != 1 || file() != before {
					t.Errorf("again: ticket %s after %s, asked %d times, file %q", again, ticket, asked.Load(), file())
				}
				if err := b.rt.Decide(ticket, approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
					t.Fatal(err)
				}
				if r := edit(t.Context(), t, cs); r.IsError || file() != after {
					t.Errorf("after the yes elsewhere: %+v, file %q", r.Content[0], file())
				}
				if err := end(); err != nil {
					t.Errorf("Run: %v", err)
				}
			})
		}
	}
}

// TestClientWithoutElicitation: the ticket is the answer, at once where nobody
// else is there.
func TestClientWithoutElicitation(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			b, file := workspace(t)
			cs, end := dial(t, b, era, nil)
			ticket := ticketOf(t, edit(t.Context(), t, cs))
			if file() != before {
				t.Errorf("the file holds %q", file())
			}
			if err := b.rt.Decide(ticket, approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
				t.Fatal(err)
			}
			if r := edit(t.Context(), t, cs); r.IsError || file() != after {
				t.Errorf("after the yes: %+v, file %q", r.Content[0], file())
			}
			if err := end(); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// TestClientGivesUp: the client's own time is over while its person looks at
// the question. The question goes away, the ticket does not: somebody else says
// yes, and the call made again completes.
func TestClientGivesUp(t *testing.T) {
	q := queue{make(chan string, 1)}
	b, file := workspace(t, q)
	asked, gone := make(chan struct{}), make(chan struct{})
	cs, end := dial(t, b, "2025-11-25", elicits(func(ctx context.Context, _ *mcpsdk.ElicitRequest) (*mcpsdk.ElicitResult, error) {
		close(asked) // a second question would panic here
		<-ctx.Done()
		close(gone)
		return nil, ctx.Err()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := cs.CallTool(ctx, &mcpsdk.CallToolParams{Name: "replace_block", Arguments: map[string]any{"path": "a.txt", "old": "old", "new": "new"}})
		done <- err
	}()
	<-asked
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("CallTool: %v", err)
	}
	<-gone
	if file() != before {
		t.Errorf("the file holds %q", file())
	}
	if err := b.rt.Decide(<-q.tickets, approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if r := edit(t.Context(), t, cs); r.IsError || file() != after {
		t.Errorf("made again: %+v, file %q", r.Content[0], file())
	}
	_ = end() // the answer to the first call may still be on its way
}

// queue stands for another channel, at which somebody is there.
type queue struct{ tickets chan string }

func (q queue) Offer(r approval.Request, _ approval.Answer) func() {
	q.tickets <- r.Ticket
	return func() {}
}

// TestFirstAnswerWins: the client's person and another channel answer at the
// same moment, one with yes and one with no. One of them counts, the file tells
// which, and a question that is not needed any more is withdrawn.
func TestFirstAnswerWins(t *testing.T) {
	for _, era := range elicitEras[:2] {
		allowed := 0
		for i := range 10 {
			q := queue{make(chan string, 1)}
			b, file := workspace(t, q)
			now := make(chan struct{})
			cs, end := dial(t, b, era, elicits(func(ctx context.Context, _ *mcpsdk.ElicitRequest) (*mcpsdk.ElicitResult, error) {
				close(now)
				if i == 0 && era != "2026-07-28" {
					<-ctx.Done() // this one only has to be withdrawn
					return nil, ctx.Err()
				}
				return &mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{askKey: true}}, nil
			}))
			go func() {
				ticket := <-q.tickets
				<-now
				for range i * i { // so that either may win
					goruntime.Gosched()
				}
				_ = b.rt.Decide(ticket, approval.Decision{Verdict: approval.Deny, By: "bob", Reason: "no"})
			}()
			r := edit(t.Context(), t, cs)
			switch code := codeOf(r); {
			case !r.IsError && file() == after && (i > 0 || era == "2026-07-28"):
				allowed++
			case code == "denied" && file() == before:
			default:
				t.Errorf("%s %d: %q, and the file holds %q", era, i, code, file())
			}
			if err := end(); err != nil {
				t.Errorf("Run: %v", err)
			}
		}
		t.Logf("%s: the client was first %d times of 10", era, allowed)
	}
}

// TestElicitationOption: what is set decides who is asked, in both eras.
func TestElicitationOption(t *testing.T) {
	file := approval.Request{Effects: tool.Reads | tool.Writes, Preview: tool.Preview{Writes: &tool.WriteSet{Entries: make([]tool.Write, 1)}}}
	removal := file
	removal.Effects |= tool.Destroys
	command := approval.Request{Effects: tool.Executes, Preview: tool.Preview{Command: "make"}}
	fetch := approval.Request{Effects: tool.UsesNetwork, Preview: tool.Preview{Hosts: []string{"x"}}}
	both := file
	both.Effects |= tool.UsesNetwork
	unknown := approval.Request{Effects: tool.Writes}
	guarded := file
	guarded.InPerson = true
	for _, c := range []struct {
		name            string
		req             approval.Request
		all, edits, off bool
	}{
		{"file", file, true, true, false},
		{"removal", removal, true, true, false},
		{"command", command, true, false, false},
		{"fetch", fetch, true, false, false},
		{"file and network", both, true, false, false},
		{"effects nobody previewed", unknown, true, false, false},
		{"in person", guarded, false, false, false},
	} {
		for e, want := range map[Elicitation]bool{ElicitAll: c.all, ElicitEdits: c.edits, ElicitOff: c.off, "": false, "perhaps": false} {
			if got := e.covers(c.req); got != want {
				t.Errorf("%s: %q covers it: %v; want %v", c.name, e, got, want)
			}
		}
	}
}

// TestElicitationChanges: it is looked at for each question, in both eras.
func TestElicitationChanges(t *testing.T) {
	for _, era := range elicitEras[:2] {
		var mode atomic.Value
		f := newFake()
		var asked atomic.Int32
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		s := New(f, Options{Elicitation: func() Elicitation { return mode.Load().(Elicitation) }})
		go func() { _ = s.Run(t.Context(), in, out) }()
		c := mcpsdk.NewClient(&mcpsdk.Implementation{Name: "t", Version: "1"}, elicits(func(context.Context, *mcpsdk.ElicitRequest) (*mcpsdk.ElicitResult, error) {
			asked.Add(1)
			return &mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{askKey: true}}, nil
		}))
		cs, err := c.Connect(t.Context(), &mcpsdk.IOTransport{Reader: fromServer, Writer: toServer}, &mcpsdk.ClientSessionOptions{ProtocolVersion: era})
		if err != nil {
			t.Fatal(err)
		}
		for i, step := range []struct {
			mode Elicitation
			tool string
			want int32
		}{{ElicitAll, "write_command", 1}, {ElicitEdits, "write_command", 1}, {ElicitEdits, "write", 2}, {ElicitOff, "write", 2}, {ElicitAll, "write", 3}} {
			mode.Store(step.mode)
			r, err := cs.CallTool(t.Context(), &mcpsdk.CallToolParams{Name: step.tool, Arguments: map[string]any{"n": i}})
			if err != nil || asked.Load() != step.want {
				t.Errorf("%s, step %d: asked %d times, %v, %+v; want %d", era, i, asked.Load(), err, r, step.want)
			}
		}
		if n := f.wrote.Load(); n != 3 {
			t.Errorf("%s: written %d times; want 3", era, n)
		}
		cs.Close()
	}
}

// TestAskingHoldsNobodyUp: more questions than calls may run, from a client
// that answers none of them, and other calls are still served.
func TestAskingHoldsNobodyUp(t *testing.T) {
	hostile(t, func(t *testing.T, s *session) {
		var out lockedBuffer
		go io.Copy(&out, s.reader)
		fmt.Fprintln(s.client, initAsk)
		for i := range 3 * maxRunning {
			fmt.Fprintf(s.client, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"write","arguments":{"n":%d}}}`+"\n", i, i)
		}
		fmt.Fprintln(s.client, `{"jsonrpc":"2.0","id":"echo","method":"tools/call","params":{"name":"echo"}}`)
		synctest.Wait()
		got := out.take()
		if n := strings.Count(got, "elicitation/create"); n != 3*maxRunning || !strings.Contains(got, `"id":"echo","result"`) {
			t.Errorf("%d questions, and then %q", n, got[max(0, len(got)-200):])
		}
		time.Sleep(askFor + time.Second) // fake time
		synctest.Wait()
		if n := strings.Count(out.take(), "approval_required"); n != 2*3*maxRunning {
			t.Errorf("%d mentions of approval_required; want two in each of %d answers", n, 3*maxRunning)
		}
	})
}

// FuzzReply: only accept with a true box is a yes, as a slow reader of the same
// JSON sees it; everything else that is a reply passes.
func FuzzReply(f *testing.F) {
	for _, s := range []string{
		`{"approve":{"action":"accept","content":{"approve":true}}}`,
		`{"approve":{"action":"accept","content":{"approve":"true"}}}`,
		`{"approve":{"action":"accept","content":{"Approve":true}}}`,
		`{"approve":{"ACTION":"accept","content":{"approve":true}}}`,
		`{"approve":{"action":"accept","action":"decline","content":{"approve":true}}}`,
		`{"approve":{"action":"decline","content":{"approve":true}}}`,
		`{"approve":{"action":"accept","content":[{"approve":true}]}}`,
		`{"approve":true}`, `{"approve":null}`, `[]`, `null`, `7`, `{`, ``,
		`{"\u0061pprove":{"act\u0069on":"acc\u0065pt","content":{"approve": true }}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := &request{message: message{inputResponses: raw}}
		dec, ok := r.reply()
		var slow map[string]any
		_ = json.Unmarshal(raw, &slow)
		reply, there := slow[askKey]
		there = there && reply != nil
		object, _ := reply.(map[string]any)
		content, _ := object["content"].(map[string]any)
		yes := object["action"] == "accept" && content[askKey] == true
		if ok != there || (dec.Verdict == approval.Allow) != yes {
			t.Fatalf("reply of %q = %+v, %v; want a yes: %v, a reply: %v", raw, dec, ok, yes, there)
		}
		if ok && !yes && (dec.Verdict != approval.Pass || !strings.HasPrefix(dec.Reason, noAnswer)) {
			t.Fatalf("reply of %q = %+v; want a pass", raw, dec)
		}
	})
}

// TestStateOfAnotherConnection: one server, two clients; what one was given is
// worth nothing to the other. Control: to the first it is.
func TestStateOfAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := New(f, Options{})
		var out [2]lockedBuffer
		var clients [2]*io.PipeWriter
		var ended sync.WaitGroup
		for i := range clients {
			var in *io.PipeReader
			in, clients[i] = io.Pipe()
			ended.Go(func() {
				if err := s.Run(context.Background(), in, &out[i]); err != nil {
					t.Errorf("Run: %v", err)
				}
			})
		}
		call := func(client int, extra string) string {
			fmt.Fprintf(clients[client], `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{"n":1}%s,%s}}`+"\n", extra, askText)
			synctest.Wait()
			return out[client].take()
		}
		m := statePattern.FindStringSubmatch(call(0, ""))
		if m == nil {
			t.Fatal("no state came")
		}
		reply := `,"inputResponses":{"approve":{"action":"accept","content":{"approve":true}}},"requestState":"` + m[1] + `"`
		if got := call(1, reply); !strings.Contains(got, `"wasmtools/code":"approval_mismatch"`) || f.wrote.Load() != 0 {
			t.Errorf("the other client got %s", got)
		}
		if got := call(0, reply); !strings.Contains(got, "written") || f.wrote.Load() != 1 {
			t.Errorf("the first got %s", got)
		}
		for _, c := range clients {
			c.Close()
		}
		ended.Wait()
	})
}
