package channel

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/approval"
)

// raw connects without saying anything.
func raw(t *testing.T, s *Server) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", s.folder.address(s.name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestVisitorsWhoHoldTheirPlaces: a crowd that says nothing keeps nobody out.
func TestVisitorsWhoHoldTheirPlaces(t *testing.T) {
	s, _, dial := here(t)
	for range 3 * maxVisits {
		raw(t, s)
	}
	for range 3 {
		if _, err := dial().List(); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.visits) > maxVisits {
		t.Errorf("%d visitors are served, want at most %d", len(s.visits), maxVisits)
	}
}

// TestVisitorWhoNeverReads: the desk does not wait for it, and others are served
// meanwhile.
func TestVisitorWhoNeverReads(t *testing.T) {
	s, d, dial := here(t)
	r := sample()
	r.Preview.Diff = strings.Repeat("+123456\n", 1<<17)
	tk, err := d.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		c := raw(t, s)
		_, err := c.Write([]byte(`{"v":1,"op":"show","ticket":"` + tk.Request().Ticket + `"}` + "\n"))
		if err != nil {
			t.Fatal(err)
		}
	}
	watcher := raw(t, s)
	if _, err := watcher.Write([]byte(`{"v":1,"op":"watch"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	until(t, "the list is attended", s.Attended)
	for i := range 200 { // more events than any buffer of lines holds
		r.Session, r.Preview.Diff = strings.Repeat("s", i+1), ""
		tk, err := d.Submit(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Decide(tk.Request().Ticket, approval.Decision{Verdict: approval.Deny}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := dial().List()
	if err != nil || len(list) != 1 {
		t.Fatalf("List = %v, %v", list, err)
	}
}

// TestCrowdOfRefused: a session that connects without end keeps no person out.
func TestCrowdOfRefused(t *testing.T) {
	dir := runFolder(t)
	rt := startRuntime(t, dir)
	rt.in("offer 1")
	for range 2 {
		crowd := self("crowd", dir)
		stdout, err := crowd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdin, err := crowd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := crowd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = crowd.Process.Kill(); _ = crowd.Wait() })
		rt.in("leader " + strconv.Itoa(crowd.Process.Pid))
		stdin.Close() // go
		if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || !strings.Contains(line, "started by a runtime") {
			t.Fatalf("the crowd is told %q, %v", line, err)
		}
	}
	for range 5 {
		if got := outcome(t, "person", dir); got != "lists 1" {
			t.Errorf("beside the crowd a person gets %q", got)
		}
	}
}

// TestLinesWithoutEnd: a line that never ends is given up at its limit.
func TestLinesWithoutEnd(t *testing.T) {
	s, _, _ := here(t)
	c := raw(t, s)
	go func() { _, _ = c.Write(bytes.Repeat([]byte("x"), 10*maxMessage)) }()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	got, err := io.ReadAll(bufio.NewReader(c))
	if err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("the connection stays open: %v", err)
	}
	if !strings.Contains(string(got), "longer than") && err == nil {
		t.Errorf("got %q", got)
	}
}

// TestCloseEndsVisits: a runtime that ends waits for no visitor.
func TestCloseEndsVisits(t *testing.T) {
	s, _, _ := here(t)
	c := raw(t, s)
	if _, err := bufio.NewReader(c).ReadBytes('\n'); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close = %v", err)
	}
	found, problems, err := Find(t.Context(), s.dir)
	if len(found)+len(problems) > 0 || err != nil {
		t.Errorf("after Close, Find = %v, %v, %v", found, problems, err)
	}
	if s.Offer(sample(), func(approval.Decision) error { return nil }) != nil {
		t.Error("a closed list takes part")
	}
}
