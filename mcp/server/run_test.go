package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wasmtools/wasmtools/tool"
)

var eras = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// dial connects the SDK's client to a server over pipes. The returned function
// closes the client and gives what Run said.
func dial(t *testing.T, b Backend, era string, opts *mcpsdk.ClientOptions) (*mcpsdk.ClientSession, func() error) {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	s := New(b, Options{})
	go func() {
		done <- s.Run(context.Background(), in, out)
		out.Close()
	}()
	c := mcpsdk.NewClient(&mcpsdk.Implementation{Name: "t", Version: "1"}, opts)
	cs, err := c.Connect(context.Background(), &mcpsdk.IOTransport{Reader: fromServer, Writer: toServer}, &mcpsdk.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		t.Fatal(err)
	}
	return cs, func() error {
		cs.Close()
		return <-done
	}
}

// TestSDKClient: the SDK's own client, which checks what it reads, is content
// in every protocol version.
func TestSDKClient(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			var notes atomic.Int64
			cs, end := dial(t, &fake{}, era, &mcpsdk.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcpsdk.ProgressNotificationClientRequest) {
					if r.Params.ProgressToken == "tok" {
						notes.Add(1)
					}
				},
			})
			ctx := context.Background()
			l, err := cs.ListTools(ctx, nil)
			if err != nil || len(l.Tools) != 4 || l.Tools[1].Name != "edit_file" || l.Tools[1].Annotations.ReadOnlyHint || !*l.Tools[1].Annotations.DestructiveHint {
				t.Fatalf("ListTools: %+v, %v", l, err)
			}
			r, err := cs.CallTool(ctx, &mcpsdk.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "é<"}})
			if err != nil || r.IsError || r.Content[0].(*mcpsdk.TextContent).Text != `{"text":"é<"}` {
				t.Fatalf("echo: %+v, %v", r, err)
			}
			r, err = cs.CallTool(ctx, &mcpsdk.CallToolParams{Name: "edit_file"})
			if err != nil || !r.IsError || r.Meta["wasmtools/code"] != "approval_required" {
				t.Fatalf("edit_file: %+v, %v", r, err)
			}
			if _, err = cs.CallTool(ctx, &mcpsdk.CallToolParams{Name: "nowhere"}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
				t.Fatalf("nowhere: %v", err)
			}
			p := &mcpsdk.CallToolParams{Name: "steps"}
			p.SetProgressToken("tok")
			if r, err = cs.CallTool(ctx, p); err != nil || r.IsError || notes.Load() < 2 {
				t.Fatalf("steps: %+v, %v, %d notifications", r, err, notes.Load())
			}
			if err := end(); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// TestSDKClientCancels: the client's context reaches the call, in both eras.
func TestSDKClientCancels(t *testing.T) {
	for _, era := range eras[:2] {
		t.Run(era, func(t *testing.T) {
			f := &fake{}
			cs, end := dial(t, f, era, nil)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() {
				_, err := cs.CallTool(ctx, &mcpsdk.CallToolParams{Name: "slow"})
				done <- err
			}()
			eventually(t, func() bool { return f.running.Load() == 1 })
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("CallTool: %v", err)
			}
			eventually(t, func() bool { return f.stopped.Load() == 1 && f.running.Load() == 0 })
			// The client waits for no answer to what it cancelled, and may be gone before it.
			if err := end(); err != nil && !strings.HasPrefix(err.Error(), "mcp: 1 requests were not answered") {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// eventually waits, for at most ten seconds, until something outside is true.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("did not happen within ten seconds")
		}
	}
}

type changing struct {
	fake
	changed chan struct{}
	mu      sync.Mutex
	defs    []tool.Definition
}

func (c *changing) Changed() <-chan struct{} { return c.changed }

func (c *changing) Tools() []tool.Definition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.defs
}

func (c *changing) add(name string) {
	c.mu.Lock()
	c.defs = append(c.defs[:len(c.defs):len(c.defs)], tool.Definition{Name: name, Input: object})
	c.mu.Unlock()
	c.changed <- struct{}{}
}

// TestListChanges: a changed list is announced and served, in both eras; a
// signal without a change is not.
func TestListChanges(t *testing.T) {
	for _, era := range eras[:2] {
		t.Run(era, func(t *testing.T) {
			b := &changing{changed: make(chan struct{})}
			told := make(chan struct{}, 10)
			cs, end := dial(t, b, era, &mcpsdk.ClientOptions{
				ToolListChangedHandler: func(context.Context, *mcpsdk.ToolListChangedRequest) { told <- struct{}{} },
			})
			ctx := context.Background()
			if l, err := cs.ListTools(ctx, nil); err != nil || len(l.Tools) != 0 {
				t.Fatalf("ListTools: %v, %v", l, err)
			}
			b.changed <- struct{}{}
			b.add("first")
			select {
			case <-told:
			case <-time.After(10 * time.Second):
				t.Fatal("the client was not told")
			}
			l, err := cs.ListTools(ctx, nil)
			if err != nil || len(l.Tools) != 1 || l.Tools[0].Name != "first" {
				t.Fatalf("ListTools after the change: %+v, %v", l, err)
			}
			if err := end(); err != nil {
				t.Errorf("Run: %v", err)
			}
			if len(told) != 0 {
				t.Error("told more than once")
			}
		})
	}
}

// TestStorm: a thousand calls at once, none lost, none answered twice, and no
// more in the backend than allowed.
func TestStorm(t *testing.T) {
	const n = 1000
	f := &fake{}
	in, client := io.Pipe()
	server, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- New(f, Options{}).Run(context.Background(), in, out)
		out.Close()
	}()
	go func() {
		fmt.Fprintln(client, initText)
		for i := range n {
			tail := ""
			if i%2 == 0 {
				tail = "," + metaText
			}
			fmt.Fprintf(client, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%d"}%s}}`+"\n", i, i, tail)
		}
		client.Close()
	}()
	got := map[string]int{}
	for sc := bufio.NewScanner(server); sc.Scan(); {
		var r struct {
			ID     json.RawMessage
			Error  json.RawMessage
			Result struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil || r.Error != nil {
			t.Fatalf("%s: %v", sc.Text(), err)
		}
		if len(r.Result.Content) == 1 && r.Result.Content[0].Text != fmt.Sprintf(`{"text":"%s"}`, r.ID) {
			t.Fatalf("%s: the answer to another call", sc.Text())
		}
		got[string(r.ID)]++
	}
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	for id, k := range got {
		if k != 1 {
			t.Errorf("%d answers to %s", k, id)
		}
	}
	if len(got) != n+1 || f.calls.Load() != n || f.peak.Load() > maxRunning {
		t.Errorf("%d answers, %d calls, %d at once; want %d, %d, at most %d", len(got), f.calls.Load(), f.peak.Load(), n+1, n, maxRunning)
	}
}

// session is a server in a synctest bubble whose client does as it likes. A
// goroutine that is left behind fails the bubble.
type session struct {
	f      *fake
	client *io.PipeWriter // to the server
	reader *io.PipeReader // from it
	out    *io.PipeWriter
	cancel context.CancelFunc
	done   chan error
}

func hostile(t *testing.T, test func(t *testing.T, s *session)) {
	synctest.Test(t, func(t *testing.T) {
		in, client := io.Pipe()
		reader, out := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		s := &session{f: newFake(), client: client, reader: reader, out: out, cancel: cancel, done: make(chan error, 1)}
		go func() { s.done <- New(s.f, Options{}).Run(ctx, in, out) }()
		test(t, s)
		cancel()
		reader.Close() // the process that never read has died
		client.Close()
	})
}

// send sends lines for as long as the server takes them.
func (s *session) send(lines func(i int) string, n int) {
	go func() {
		for i := range n {
			if _, err := io.WriteString(s.client, lines(i)); err != nil {
				return
			}
		}
	}()
}

func (s *session) ends(t *testing.T, within time.Duration) error {
	t.Helper()
	begin := time.Now()
	err := <-s.done
	if d := time.Since(begin); d > within {
		t.Errorf("Run took %v to end; want at most %v", d, within)
	}
	return err
}

func TestClientThatNeverReads(t *testing.T) {
	floods := map[string]func(i int) string{
		"malformed lines": func(int) string { return "x\n" },
		"calls": func(i int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo",%s}}`+"\n", i, metaText)
		},
		"pings": func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i) },
	}
	for name, line := range floods {
		t.Run(name+", context ends", func(t *testing.T) {
			hostile(t, func(t *testing.T, s *session) {
				s.send(line, 5000)
				synctest.Wait()
				s.cancel()
				if err := s.ends(t, 3*time.Second); !errors.Is(err, context.Canceled) {
					t.Errorf("Run: %v", err)
				}
			})
		})
		t.Run(name+", nothing else", func(t *testing.T) {
			hostile(t, func(t *testing.T, s *session) {
				s.send(line, 5000)
				if err := s.ends(t, 12*time.Minute); !errors.Is(err, errStalled) {
					t.Errorf("Run: %v; want %v", err, errStalled)
				}
			})
		})
	}
}

// TestFloodOfCalls: what waits is bounded, and all of it is served in the end.
func TestFloodOfCalls(t *testing.T) {
	hostile(t, func(t *testing.T, s *session) {
		var out lockedBuffer
		go io.Copy(&out, s.reader)
		var sent atomic.Int64
		s.send(func(i int) string {
			sent.Store(int64(i))
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"gate",%s}}`+"\n", i, metaText)
		}, 5000)
		synctest.Wait()
		const buffered = 64<<10/200 + 2 // lines in the reader's buffer
		if n := sent.Load(); n < maxAccepted || n > maxAccepted+buffered {
			t.Errorf("%d lines were taken; want about %d", n, maxAccepted)
		}
		if n := s.f.running.Load(); n != maxRunning {
			t.Errorf("%d calls run; want %d", n, maxRunning)
		}
		close(s.f.release)
		synctest.Wait()
		if n := strings.Count(out.take(), "released"); n != 5000 {
			t.Errorf("%d calls were answered; want 5000", n)
		}
	})
}

// TestFloodOfBytes: large arguments of calls that wait are bounded too.
func TestFloodOfBytes(t *testing.T) {
	hostile(t, func(t *testing.T, s *session) {
		go io.Copy(io.Discard, s.reader)
		big := strings.Repeat("x", 8<<20)
		var sent atomic.Int64
		s.send(func(i int) string {
			sent.Store(int64(i))
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"gate","arguments":{"t":"%s"},%s}}`+"\n", i, big, metaText)
		}, 12)
		synctest.Wait()
		if n := sent.Load(); n < 7 || n > 9 {
			t.Errorf("%d lines of 8 MiB were taken; want about %d", n, maxHeld/(8<<20))
		}
		close(s.f.release)
		synctest.Wait()
		if n := s.f.calls.Load(); n != 12 {
			t.Errorf("%d calls were served; want 12", n)
		}
	})
}

// TestNotificationsStayOutside: none of these reaches the SDK, whose queue has
// no bound, so a flood of them is not held. The first initialized does.
func TestNotificationsStayOutside(t *testing.T) {
	lines := []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`,
		`{"jsonrpc":"2.0","method":"wasmtools/lane"}`,
	}
	c := newConn(context.Background(), strings.NewReader(""), io.Discard, grace)
	passed := 0
	for range 3 {
		for _, line := range lines {
			m, f := decode([]byte(line))
			if f != nil {
				t.Fatalf("%s: %s", line, f.text)
			}
			msg, f := c.accept(m, len(line))
			if f != nil {
				t.Errorf("%s: is answered with %s", line, f.text)
			}
			if msg != nil {
				passed++
			}
		}
	}
	if passed != 1 || len(c.accepted) != 0 || c.held != 0 {
		t.Errorf("%d reached the SDK, %d are held; want 1 and 0", passed, len(c.accepted))
	}
}

// TestCancelReachesListenOnce: the SDK must hear of the one cancellation that
// only it can serve, and not of its repetitions.
func TestCancelReachesListenOnce(t *testing.T) {
	c := newConn(context.Background(), strings.NewReader(""), io.Discard, grace)
	passed := 0
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"l"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"l"}}`,
	} {
		m, _ := decode([]byte(line))
		if msg, _ := c.accept(m, len(line)); msg != nil {
			passed++
		}
	}
	if passed != 2 {
		t.Errorf("%d messages reached the SDK; want the request and one cancellation", passed)
	}
}

// TestDeadClient: a broken output ends the session and the calls in it.
func TestDeadClient(t *testing.T) {
	hostile(t, func(t *testing.T, s *session) {
		for i := range 3 {
			fmt.Fprintf(s.client, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"slow",%s}}`+"\n", i, metaText)
		}
		synctest.Wait()
		s.reader.CloseWithError(errors.New("broken pipe"))
		fmt.Fprintln(s.client, "x") // is answered, and that fails
		if err := s.ends(t, 3*time.Second); err == nil || !strings.Contains(err.Error(), "broken pipe") {
			t.Errorf("Run: %v; want the broken pipe", err)
		}
		if n := s.f.stopped.Load(); n != 3 {
			t.Errorf("%d calls were stopped; want 3", n)
		}
	})
}

// TestBackendThatIgnoresItsContext: Run returns all the same.
func TestBackendThatIgnoresItsContext(t *testing.T) {
	hostile(t, func(t *testing.T, s *session) {
		go io.Copy(io.Discard, s.reader)
		fmt.Fprintf(s.client, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gate",%s}}`+"\n", metaText)
		synctest.Wait()
		s.client.Close()
		if err := s.ends(t, grace+3*time.Second); err == nil || !strings.Contains(err.Error(), "1 requests were not answered") {
			t.Errorf("Run: %v; want the count of what was not answered", err)
		}
		close(s.f.release)
	})
}

// TestContextEnds: running calls are cancelled and still answered.
func TestContextEnds(t *testing.T) {
	hostile(t, func(t *testing.T, s *session) {
		var out lockedBuffer
		go io.Copy(&out, s.reader)
		fmt.Fprintf(s.client, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow",%s}}`+"\n", metaText)
		synctest.Wait()
		s.cancel()
		if err := s.ends(t, 2*time.Second); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		if got := out.take(); !strings.Contains(got, `"wasmtools/code":"cancelled"`) {
			t.Errorf("the call was answered with %q", got)
		}
	})
}

// TestListenEndsWithInput: the SDK's endless request does not hold Run up.
func TestListenEndsWithInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, client := io.Pipe()
		var out lockedBuffer
		done := make(chan error, 1)
		b := &changing{changed: make(chan struct{})}
		go func() { done <- New(b, Options{}).Run(context.Background(), in, &out) }()
		fmt.Fprintf(client, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},%s}}`+"\n", metaText)
		fmt.Fprintf(client, `{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},%s}}`+"\n", metaText)
		synctest.Wait()
		fmt.Fprintln(client, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		synctest.Wait()
		if got := out.take(); strings.Count(got, "acknowledged") != 2 || strings.Count(got, `"id":1,`) != 1 || strings.Contains(got, `"id":2,`) {
			t.Errorf("%s: want two acknowledgements and an end of the first", got)
		}
		begin := time.Now()
		client.Close()
		if err := <-done; err != nil || time.Since(begin) > time.Second {
			t.Errorf("Run: %v after %v", err, time.Since(begin))
		}
	})
}

// TestStockTransport is the control: with the SDK's own transport the lines
// that we answer end the session.
func TestStockTransport(t *testing.T) {
	for _, line := range []string{
		"not json",
		`{"id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1.5e400,"method":"ping"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]x`,
	} {
		in, client := io.Pipe()
		var out lockedBuffer
		s := mcpsdk.NewServer(&mcpsdk.Implementation{Name: "stock", Version: "1"}, nil)
		done := make(chan error, 1)
		go func() {
			done <- s.Run(context.Background(), &mcpsdk.IOTransport{Reader: in, Writer: nopCloser{&out}})
			in.Close()
		}()
		fmt.Fprintln(client, initText)
		fmt.Fprintln(client, line)
		_, err := fmt.Fprintln(client, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		if runErr := <-done; runErr == nil {
			t.Errorf("%s: the stock transport goes on (write: %v); then our own needs another reason", line, err)
		}
		client.Close()
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
