package channel

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/tool"
)

func sample() approval.Request {
	return approval.Request{
		Ticket: "t1", CallID: "c1", Session: "s1", Tool: "write_file", Source: tool.Builtin, Module: "sha256:m", Input: "sha256:i",
		Effects: tool.Writes | tool.Destroys, Expires: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Workspace: "default", Root: "/r\xff", InPerson: true,
		Arguments: json.RawMessage(`{"path":"a"}`), Asked: approval.RuleRef{ID: "r", File: "/f", Line: 3, Why: "w"},
		Offer: &approval.Rule{ID: "o", TOML: "[[rule]]\n"},
		Preview: tool.Preview{
			Writes: &tool.WriteSet{Entries: []tool.Write{{Op: tool.OpMove, Path: "p\xfe", From: "f", Identity: tool.Identity{Dev: 1, Ino: 2},
				Replaced: tool.Identity{Dev: 3, Ino: 4}, Before: "b", Stamp: "s", Permanent: true, After: "a", Mode: 0o755, Size: 9}}},
			Diff: "+x\xff\n", Command: "rm \x80", Cwd: "/c", Profile: "none", Shell: "zs\xff", Changed: true, Into: "sudo\xff", Timeout: 7 * time.Millisecond, Env: map[string]string{"A\xff": "v"}, Hosts: []string{"h\xfd"}, Binding: "sha256:b",
			Protected: []tool.ProtectedPath{{Path: ".git/\xffhooks", Rule: "git", Where: "f:1"}},
		},
	}
}

// TestRequestCrosses: nothing of what a person decides about is lost or changed
// on the way, also where it is not UTF-8.
func TestRequestCrosses(t *testing.T) {
	for _, r := range []approval.Request{sample(), {}} {
		body, err := json.Marshal(toWire(r))
		if err != nil {
			t.Fatal(err)
		}
		var w wireRequest
		if err := json.Unmarshal(body, &w); err != nil {
			t.Fatal(err)
		}
		if got := w.request(); !reflect.DeepEqual(got, r) {
			t.Errorf("got  %+v\nwant %+v", got, r)
		}
	}
}

// TestEveryFieldCrosses: a field that is added to the request must cross too, or
// be named here.
func TestEveryFieldCrosses(t *testing.T) {
	stay := map[string]bool{"Request.Frozen": true, "Preview.Result": true, "Write.Blob": true}
	for _, s := range []string{"Runs", "Effects", "InPerson"} { // for the gate; the request says what came of them
		stay["Preview."+s] = true
	}
	look := func(path string, v reflect.Value) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || stay[path+"."+f.Name] || f.Type.Kind() == reflect.Func {
				continue
			}
			if v.Field(i).IsZero() {
				t.Errorf("sample sets no %s.%s, so that nobody knows whether it crosses", path, f.Name)
			}
		}
	}
	r := sample()
	look("Request", reflect.ValueOf(r))
	look("Preview", reflect.ValueOf(r.Preview))
	look("Write", reflect.ValueOf(r.Preview.Writes.Entries[0]))
	look("ProtectedPath", reflect.ValueOf(r.Preview.Protected[0]))
}

func TestErrorsCross(t *testing.T) {
	for _, c := range codes {
		if got := failed(c.err).err(); got != c.err {
			t.Errorf("%v arrives as %v", c.err, got)
		}
		more := &detailed{c.err.Error() + ": because", c.err}
		if got := failed(more).err(); !errors.Is(got, c.err) || got.Error() != more.Error() {
			t.Errorf("%v arrives as %v", more, got)
		}
	}
	if got := failed(io.EOF).err(); got == nil || got.Error() != "EOF" {
		t.Errorf("another error arrives as %v", got)
	}
}

func TestParseMessage(t *testing.T) {
	for _, good := range []string{`{"v":1,"op":"list"}`, " {\"v\":1,\"op\":\"list\"} \r\n"} {
		if m, err := parseMessage([]byte(good)); err != nil || m.Op != "list" {
			t.Errorf("parseMessage(%s) = %v, %v", good, m, err)
		}
	}
	for _, bad := range []string{
		``, `null`, `[]`, `{"op":"list"}`, `{"v":2,"op":"list"}`, `{"v":1,"op":"list","x":1}`, `{"v":1} {"v":1}`, `{"v":1}x`,
		`{"v":1,"op":7}`, `{"v":1,"reason":"` + strings.Repeat("x", MaxReason+1) + `"}`, `{"v":1,"save":{"id":"","toml":"` + strings.Repeat("x", maxRule+1) + `"}}`,
	} {
		if m, err := parseMessage([]byte(bad)); !errors.Is(err, errBad) {
			t.Errorf("parseMessage(%.60s) = %v, %v; want a refusal", bad, m, err)
		}
	}
}

// bare is a server without a socket.
func bare() *Server {
	s := &Server{o: Options{Sessions: NoSessions{}, Join: newRoom().join, Joinable: func() []Session { return []Session{{ID: "s"}} }}, waiting: map[string]*pending{}, visits: map[*visit]struct{}{}}
	r := sample()
	r.Expires = time.Time{} // never
	s.Offer(r, func(approval.Decision) error { return nil })
	return s
}

func (s *Server) visitor(conn net.Conn) *visit {
	v := &visit{server: s, conn: conn, peer: proc{tty: 1}, user: "ann", changed: make(chan struct{}, 1), since: time.Now()}
	s.admit(v)
	return v
}

// script is a connection whose other end says all it has to say, and leaves.
type script struct {
	net.Conn
	in  io.Reader
	mu  sync.Mutex
	out bytes.Buffer
}

func (c *script) Read(p []byte) (int, error) { return c.in.Read(p) }
func (c *script) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p)
}
func (c *script) Close() error                     { return nil }
func (c *script) SetReadDeadline(time.Time) error  { return nil }
func (c *script) SetWriteDeadline(time.Time) error { return nil }

// FuzzVisit sends a server anything: every line that comes back is one of the
// protocol, and the visit ends.
func FuzzVisit(f *testing.F) {
	f.Add([]byte("{\"v\":1,\"op\":\"list\"}\n"))
	f.Add([]byte("{\"v\":1,\"op\":\"show\",\"ticket\":\"t1\"}\n{\"v\":1,\"op\":\"watch\"}\nx"))
	f.Add([]byte("{\"v\":1,\"op\":\"answer\",\"ticket\":\"t1\",\"verdict\":\"allow\",\"binding\":\"sha256:b\"}\n{\"v\":1,\"op\":\"answer\"}\n"))
	f.Add([]byte("\n\n{}\n"))
	f.Add([]byte("{\"v\":1,\"op\":\"attach\",\"session\":\"s\"}\n{\"v\":1,\"op\":\"resize\",\"cols\":80,\"rows\":-1}\n{\"v\":1,\"op\":\"type\",\"data\":\"bHMK\"}\n"))
	f.Add([]byte("{\"v\":1,\"op\":\"attach\",\"session\":\"s\",\"read_only\":true}\n{\"v\":1,\"op\":\"type\",\"data\":\"bHMK\"}\n"))
	f.Add([]byte("{\"v\":1,\"op\":\"attach\",\"session\":\"none\"}\n{\"v\":1,\"op\":\"type\",\"data\":\"not base64\"}\n"))
	f.Add([]byte("{\"v\":1,\"op\":\"type\",\"data\":\"bHMK\"}\n{\"v\":1,\"op\":\"resize\",\"cols\":80,\"rows\":24}\n"))
	f.Add(bytes.Repeat([]byte("x"), maxMessage+10))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := bare()
		c := &script{in: bytes.NewReader(in)}
		s.visitor(c).serve()
		n := 0
		for line := range bytes.Lines(c.out.Bytes()) {
			d := json.NewDecoder(bytes.NewReader(line))
			d.DisallowUnknownFields()
			var into any = &reply{}
			if n == 0 {
				into = &greeting{}
			}
			n++
			if err := d.Decode(into); err != nil || len(line) > maxReply || line[len(line)-1] != '\n' {
				t.Fatalf("the server sent %q: %v", line, err)
			}
		}
		if n > 1+bytes.Count(in, []byte("\n"))+1 {
			t.Fatalf("%d lines came back for %q", n, in)
		}
		if len(s.list()) != 1 {
			t.Fatal("the list changed") // only the desk takes a request off it
		}
		if len(s.visits) != 0 || s.Attended() {
			t.Fatal("the visit has not ended")
		}
	})
}

// FuzzClient lets a client read anything.
func FuzzClient(f *testing.F) {
	hello := `{"wasmtools":"approvals","v":1,"about":{"pid":1,"start":1}}` + "\n"
	f.Add([]byte(hello + `{"ok":true,"waiting":[{"ticket":"t","summary":"a\u001b[31m"}]}` + "\n" + `{"ok":true,"part":"e30=","more":true}` + "\n" + `{"ok":true}` + "\n"))
	f.Add([]byte(hello + `{"ok":false,"error":{"code":"expired","text":"x"}}` + "\n{}\n"))
	f.Add([]byte(`{"wasmtools":"approvals","v":1,"error":{"code":"refused","text":"no"}}` + "\n"))
	f.Add([]byte(hello + strings.Repeat("{\"ok\":true}\n", 4) + `{"ok":true,"part":"G1szMW0=","anew":true}` + "\n" + `{"ok":false,"error":{"code":"over","text":"x"}}` + "\n"))
	f.Add([]byte(hello + `{"ok":true,"part":"eyJlbnYiOlt7Im5hbWUiOnsiYmFzZTY0IjoiLyJ9fV19"}` + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		here, there := net.Pipe()
		go func() {
			_, _ = there.Write(in)
			there.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		c, err := newClient(here, time.Now().Add(10*time.Second))
		if err != nil {
			return
		}
		defer c.Close()
		list, _ := c.List()
		for _, w := range list {
			if strings.ContainsAny(w.Summary, "\x1b\n\u202e") {
				t.Fatalf("a summary holds %q", w.Summary)
			}
		}
		_, _ = c.Show("t")
		_ = c.Answer(Reply{Ticket: "t"})
		if a, err := c.Attach("s", false); err == nil {
			for range bytes.Count(in, []byte("\n")) {
				if _, _, err = a.Next(); err != nil {
					break
				}
			}
			if err == nil {
				t.Fatal("more parts arrive than were sent")
			}
		}
	})
}
