package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/approval"
)

// until waits for something that no event tells of.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("this never comes true: %s", what)
		}
	}
}

// here serves in this process, for what does not depend on who connects.
func here(t *testing.T) (*Server, *approval.Desk, func() *Client) {
	t.Helper()
	// This process is a runtime itself, which is no human; here it passes for one.
	s, err := listen(runFolder(t), Options{About: About{Program: "test"}}, func(pid int) (proc, error) {
		p, err := readProc(pid)
		p.Start++
		p.tty = 1
		return p, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	d := approval.NewDesk([]approval.Approver{s}, 0)
	return s, d, func() *Client {
		t.Helper()
		found, problems, err := Find(t.Context(), s.dir)
		if err != nil || len(problems) > 0 || len(found) != 1 {
			t.Fatalf("Find = %v, %v, %v", found, problems, err)
		}
		t.Cleanup(func() { found[0].Close() })
		return found[0]
	}
}

func TestClient(t *testing.T) {
	_, d, dial := here(t)
	c := dial()
	if a := c.About(); a.Program != "test" || a.PID != os.Getpid() || a.Start == 0 {
		t.Errorf("About = %+v", a)
	}
	r := sample()
	r.Preview.Diff = strings.Repeat("+12345\xff\n", 100_000) // several parts
	tk, err := d.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.List()
	if err != nil || len(list) != 1 || list[0].Ticket != tk.Request().Ticket || list[0].Binding != r.Preview.Binding || !list[0].MaySave {
		t.Fatalf("List = %+v, %v", list, err)
	}
	got, err := c.Show(list[0].Ticket)
	if err != nil || got.Preview.Diff != r.Preview.Diff || got.Root != r.Root || got.Expires.UnixNano() != tk.Request().Expires.UnixNano() {
		t.Fatalf("Show = %.200v, %v", got, err)
	}
	if _, err := c.Show("none"); !errors.Is(err, ErrNoSuch) {
		t.Errorf("Show of no ticket = %v", err)
	}
	a := Reply{Ticket: list[0].Ticket, Binding: r.Preview.Binding, Verdict: approval.Allow, Watch: true}
	for _, x := range []struct {
		change func(*Reply)
		want   error
	}{
		{func(a *Reply) { a.Ticket = "none" }, ErrNoSuch},
		{func(a *Reply) { a.Binding = "" }, ErrChanged},
		{func(a *Reply) { a.Binding = "sha256:other" }, ErrChanged},
		{func(a *Reply) { a.Verdict = "" }, errBad},
		{func(a *Reply) { a.Save = &approval.Rule{ID: "o", TOML: "[[rule]]\nwider = true\n"} }, approval.ErrNotOffered},
		{func(a *Reply) { a.Save, a.Verdict = r.Offer, approval.Deny }, approval.ErrNotOffered},
		{func(a *Reply) { a.Save = r.Offer }, nil},
		{func(a *Reply) {}, ErrNoSuch}, // it is off the list now
	} {
		b := a
		x.change(&b)
		if err := c.Answer(b); !errors.Is(err, x.want) {
			t.Errorf("Answer(%+v) = %v, want %v", b, err, x.want)
		}
	}
	dec, ok := tk.Decision()
	if !ok || dec.Verdict != approval.Allow || dec.By != User() || dec.Channel != "watch" || dec.Save == nil || *dec.Save != *r.Offer || dec.Standing {
		t.Errorf("the decision is %+v, %v", dec, ok)
	}
}

// TestWatch: a change is heard of, and who watches makes the list attended.
func TestWatch(t *testing.T) {
	s, d, dial := here(t)
	if s.Attended() {
		t.Error("an empty list is attended")
	}
	ctx, stop := context.WithCancel(t.Context())
	heard := make(chan struct{})
	ended := make(chan error, 1)
	c := dial()
	go func() { ended <- c.Watch(ctx, func() { heard <- struct{}{} }) }()
	until(t, "the list is attended", s.Attended)
	tk, err := d.Submit(sample())
	if err != nil {
		t.Fatal(err)
	}
	<-heard
	if err := d.Decide(tk.Request().Ticket, approval.Decision{Verdict: approval.Deny}); err != nil {
		t.Fatal(err)
	}
	<-heard
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch = %v", err)
	}
	until(t, "nobody watches any more", func() bool { return !s.Attended() })
}

// TestExpired: what has expired is on no list, although nobody asked the desk.
func TestExpired(t *testing.T) {
	s, _, dial := here(t)
	r := sample()
	r.Expires = time.Now().Add(1500 * time.Millisecond)
	s.Offer(r, func(approval.Decision) error { return nil })
	if list, err := dial().List(); err != nil || len(list) != 1 {
		t.Fatalf("List = %v, %v", list, err)
	}
	gone := make(chan struct{}, 1)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	_ = dial().Watch(ctx, func() { gone <- struct{}{}; stop() })
	<-gone
	if list, err := dial().List(); err != nil || len(list) != 0 {
		t.Fatalf("after its end List = %v, %v", list, err)
	}
}

// TestStaleSockets: what a killed runtime left is removed, what is no socket of
// ours stays.
func TestStaleSockets(t *testing.T) {
	dir := runFolder(t)
	rt := startRuntime(t, dir)
	if err := rt.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = rt.cmd.Process.Wait()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	found, problems, err := Find(t.Context(), dir)
	if len(found)+len(problems) > 0 || err != nil {
		t.Fatalf("Find = %v, %v, %v", found, problems, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "notes.txt" {
		t.Errorf("left are %v, %v", left, err)
	}
	if found, problems, err := Find(t.Context(), filepath.Join(dir, "none", "approvals")); len(found)+len(problems) > 0 || err != nil {
		t.Errorf("without a folder Find = %v, %v, %v", found, problems, err)
	}
}

// TestStartWhileOthersLook: clients that clean up behind killed runtimes do not
// take a new runtime's socket for theirs.
func TestStartWhileOthersLook(t *testing.T) {
	dir := runFolder(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	for range 2 {
		looking.Go(func() {
			for ctx.Err() == nil {
				found, _, _ := Find(ctx, dir)
				for _, c := range found {
					c.Close()
				}
			}
		})
	}
	for range 300 {
		s, err := Listen(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, s.name)); err != nil {
			t.Errorf("the socket of a runtime that lives is gone: %v", err)
		}
		s.Close()
	}
	stop()
	looking.Wait()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestLongFolder: a socket's name may be longer than the system's addresses.
func TestLongFolder(t *testing.T) {
	dir := Folder(filepath.Join(t.TempDir(), strings.Repeat("long/", 60)))
	startRuntime(t, dir)
	if got := outcome(t, "person", dir); got != "lists 0" {
		t.Errorf("got %q", got)
	}
}

// TestAnswerEndsTheRuntime: whoever gives the answer after which the runtime
// ends is told that it was taken, not that the connection was lost.
func TestAnswerEndsTheRuntime(t *testing.T) {
	s, _, dial := here(t)
	r := sample()
	r.Expires = time.Time{}
	closed := make(chan error, 1)
	s.Offer(r, func(approval.Decision) error {
		go func() { closed <- s.Close() }()
		until(t, "the server is closed", s.isClosed)
		return nil
	})
	if err := dial().Answer(Reply{Ticket: r.Ticket, Binding: r.Preview.Binding, Verdict: approval.Deny}); err != nil {
		t.Errorf("Answer = %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close = %v", err)
	}
}

// TestCloseWaitsForNobody: a visitor that is idle, one that watches and one
// that takes nothing of a long reply do not hold the end of a runtime up.
func TestCloseWaitsForNobody(t *testing.T) {
	s, _, dial := here(t)
	r := sample()
	r.Expires = time.Time{}
	r.Preview.Diff = strings.Repeat("+12345\n", 1_000_000)
	s.Offer(r, func(approval.Decision) error { return nil })
	dial()
	watched := make(chan error, 1)
	watcher, began := dial(), make(chan struct{}, 100)
	go func() { watched <- watcher.Watch(t.Context(), func() { began <- struct{}{} }) }()
	until(t, "somebody watches", s.Attended)
	stalled := raw(t, s)
	if _, err := fmt.Fprintf(stalled, `{"v":%d,"op":"show","ticket":%q}`+"\n", version, r.Ticket); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stalled, make([]byte, 1<<10)); err != nil { // the greeting and the beginning of the reply
		t.Fatal(err)
	}
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if took := time.Since(start); took >= writeTime {
		t.Errorf("Close took %v", took)
	}
	if err := <-watched; !errors.Is(err, errEnded) {
		t.Errorf("Watch = %v", err)
	}
}

// TestNothingIsTakenAfterClose: a visitor that sent several answers at once gets
// the one that was at work when the runtime ended, and no more.
func TestNothingIsTakenAfterClose(t *testing.T) {
	s, _, _ := here(t)
	var taken atomic.Int32
	closed := make(chan error, 1)
	var lines strings.Builder
	for i := range 5 {
		r := sample()
		r.Ticket, r.Expires = fmt.Sprint("t", i), time.Time{}
		s.Offer(r, func(approval.Decision) error {
			if taken.Add(1) == 1 {
				go func() { closed <- s.Close() }()
				until(t, "the server is closed", s.isClosed)
			}
			return nil
		})
		fmt.Fprintf(&lines, `{"v":%d,"op":"answer","ticket":%q,"binding":%q,"verdict":"allow"}`+"\n", version, r.Ticket, r.Preview.Binding)
	}
	c := raw(t, s)
	if _, err := io.WriteString(c, lines.String()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	if err := <-closed; err != nil || taken.Load() != 1 {
		t.Errorf("Close = %v; %d answers were taken", err, taken.Load())
	}
}

// A runtime that ends while somebody asks who runs is none: nobody is refused
// by it.
func TestEndsWhileAsked(t *testing.T) {
	for range 20 {
		var s *Server
		asked, open := make(chan struct{}, 1), make(chan struct{})
		s, err := listen(runFolder(t), Options{}, func(pid int) (proc, error) {
			select {
			case asked <- struct{}{}:
			default:
			}
			<-open
			for !s.isClosed() { // the visitor is admitted after Close has begun
				runtime.Gosched()
			}
			p, err := readProc(pid)
			p.Start++
			p.tty = 1
			return p, err
		})
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() {
			<-asked
			go func() { closed <- s.Close() }()
			close(open)
		}()
		found, problems, err := Find(t.Context(), s.dir)
		if len(found) > 0 || len(problems) > 0 || err != nil {
			t.Errorf("Find = %v, %v, %v", found, problems, err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
}
