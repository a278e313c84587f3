package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/channel"
	"github.com/wasmtools/wasmtools/internal/ptytest"
	"github.com/wasmtools/wasmtools/tool"
)

// TestWatchScreen: the whole screen, with real keys at a real terminal.
func TestWatchScreen(t *testing.T) {
	home, ws := home(t), t.TempDir()
	c := connect(t, command(t, home, ws, "mcp", "-q"))
	const first, second = `{"path":"first","content":"one\u001b[31m\n"}`, `{"path":"second","content":"two\n"}`
	c.asked("write_file", first)

	tm := ptytest.Start(t, command(t, home, ws, "approvals", "watch"))
	tm.Expect(`create first`)
	tm.Expect(`end of \d+ lines`)
	if strings.Contains(tm.Output(), "one\x1b[31m") || !strings.Contains(tm.Output(), "one⟨ESC⟩[31m") {
		t.Errorf("the file's control characters reach the terminal: %q", tm.Output())
	}
	tm.Send("a")
	tm.Expect("Type yes")
	tm.Send("y\r")
	tm.Expect("the word is yes")
	tm.Send("a")
	tm.Expect("Type yes")
	tm.Send("yes\r")
	tm.Expect("allowed 1")
	if r := c.call("write_file", first); r.IsError {
		t.Errorf("the repeated call answers %+v", r)
	}
	if _, err := os.Stat(filepath.Join(ws, "first")); err != nil {
		t.Error(err)
	}

	// While somebody watches, the call waits for the answer.
	answer := make(chan toolResult, 1)
	go func() { answer <- c.call("write_file", second) }()
	tm.Expect(`create second`)
	tm.Expect(`end of \d+ lines`)
	tm.Send("d")
	tm.Expect("Reason for the model")
	tm.Send("no second one\r")
	if r := <-answer; r.Meta.Code != "denied" || !strings.Contains(r.text(), "no second one") {
		t.Errorf("the call answers %+v", r)
	}
	tm.Expect("denied 1")
	tm.Send("q")
	if code := tm.Wait(); code != 0 {
		t.Errorf("it exits with %d", code)
	}

	// Without a person there is no screen.
	if out, code := outcome(t, command(t, home, ws, "approvals", "watch", "--no-input", "--nonsense")); code != exitUsage {
		t.Errorf("it exits with %d and prints %s", code, out)
	}
}

// TestWatchLines: plain lines, also of runtimes that start later, until an
// interrupt.
func TestWatchLines(t *testing.T) {
	home, ws := home(t), t.TempDir()
	for _, flag := range []string{"--plain", "--jsonl"} {
		cmd := command(t, home, ws, "approvals", "watch", flag)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		cmd.Stdout, cmd.Stderr = w, w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		next := func() string {
			late := time.AfterFunc(time.Minute, func() { r.Close() }) // a pipe would wait for ever
			defer late.Stop()
			if !lines.Scan() {
				out, _ := outcome(t, command(t, home, ws, "approvals", "list"))
				t.Fatalf("the watching has ended: %v; waiting are:\n%s", lines.Err(), out)
			}
			return lines.Text()
		}
		c := connect(t, command(t, home, ws, "mcp", "-q"))
		done := make(chan toolResult, 1)
		go func() { done <- c.call("write_file", `{"path":"new","content":"x"}`) }()
		var ticket string
		if got := next(); flag == "--plain" {
			if _, err := fmt.Sscanf(got, "waiting %s", &ticket); err != nil || !strings.Contains(got, "write_file: create new (until ") {
				t.Errorf("the line is %q", got)
			}
		} else {
			var e event
			if err := json.Unmarshal([]byte(got), &e); err != nil || e.Event != "waiting" || e.Call == nil || e.Call.Summary != "write_file: create new" {
				t.Errorf("the line is %q (%v)", got, err)
			}
			ticket = e.Ticket
		}
		if out, code := person(t, command(t, home, ws, "approvals", "deny", ticket)); code != 0 {
			t.Fatalf("deny exits with %d and prints %s", code, out)
		}
		// It waited if the runtime was watched already, and else was told to come
		// again.
		if r := <-done; r.Meta.Code != "denied" && r.Meta.Code != "approval_required" {
			t.Errorf("the call answers %+v", r)
		}
		if got, want := next(), map[string]string{"--plain": "gone    " + ticket, "--jsonl": `{"event":"gone","ticket":"` + ticket + `"}`}[flag]; got != want {
			t.Errorf("the line is %q, want %q", got, want)
		}
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
			t.Errorf("it exits with %d", code)
		}
	}
}

// keys feeds the screen what a person types; names of keys stand in < >.
func keys(s *screen, typed string) tea.Cmd {
	var cmd tea.Cmd
	for typed != "" {
		k := tea.KeyPressMsg{Text: typed[:1], Code: rune(typed[0])}
		n := 1
		for name, code := range map[string]rune{"<enter>": tea.KeyEnter, "<esc>": tea.KeyEscape, "<end>": tea.KeyEnd, "<down>": tea.KeyDown, "<up>": tea.KeyUp, "<back>": tea.KeyBackspace} {
			if strings.HasPrefix(typed, name) {
				k, n = tea.KeyPressMsg{Code: code}, len(name)
			}
		}
		typed = typed[n:]
		_, cmd = s.Update(k)
	}
	return cmd
}

// onTheScreen is a screen of 80 by 24 with n requests that all have been fetched.
func onTheScreen(n int, diff string) *screen {
	s := &screen{ctx: context.Background(), requests: map[string]approval.Request{}, read: map[string]bool{}, marked: map[string]bool{}}
	s.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	var all []waiting
	for i := range n {
		ticket := fmt.Sprintf("ticket%d", i)
		all = append(all, waiting{Waiting: channel.Waiting{Ticket: ticket, Summary: "write_file: create f" + ticket, Expires: time.Unix(int64(1000+i), 0)}})
		s.requests[ticket] = approval.Request{Ticket: ticket, Tool: "write_file", Preview: tool.Preview{Diff: diff}}
	}
	s.Update(listMsg(all))
	return s
}

// TestScreenNeedsWordAndEnd: no key answers, and no yes counts before the end
// of the request was on the screen.
func TestScreenNeedsWordAndEnd(t *testing.T) {
	long := strings.Repeat("+x\n", 100)
	s := onTheScreen(1, long)
	for key := rune(' '); key <= '~'; key++ {
		s.Update(tea.KeyPressMsg{Text: string(key), Code: key})
		if s.asking != nil && s.asking.kind != "no" {
			t.Fatalf("%q asks for a yes before the request was read", key)
		}
		s.asking, s.top = nil, 0
		clear(s.read)
	}
	keys(s, "a")
	if s.asking != nil || !strings.Contains(s.status, "read it to the end") {
		t.Errorf("before the end: %+v, %q", s.asking, s.status)
	}
	if cmd := keys(s, "<end>ayes"); cmd != nil || s.asking == nil {
		t.Error("the word counts without Enter")
	}
	for _, typed := range []string{"<enter>", "y<enter>", "yess<enter>", "YES<enter>", "yes<esc>"} {
		s.asking = nil
		if cmd := keys(s, "a"+typed); cmd != nil || s.asking != nil {
			t.Errorf("%s is taken for an answer", typed)
		}
	}
	if cmd := keys(s, "ayex<back>s<enter>"); cmd == nil {
		t.Error("yes is not taken for an answer")
	}
	s.Update(tea.PasteMsg{Content: "yes\r"})
	keys(s, "a")
	s.Update(tea.PasteMsg{Content: "yes\r"})
	if s.asking == nil || len(s.asking.typed) > 0 {
		t.Error("what was pasted counts as typed")
	}
}

// TestScreenLosesCalls: a call that goes while an answer is typed takes the
// question with it, and the cursor stays in the list.
func TestScreenLosesCalls(t *testing.T) {
	s := onTheScreen(3, "+x\n")
	keys(s, "<down>ay")
	all := s.list
	if s.asking == nil || s.asking.tickets[0] != "ticket1" {
		t.Fatalf("asking %+v", s.asking)
	}
	s.Update(listMsg([]waiting{all[0], all[2]}))
	if s.asking != nil || s.at != "ticket2" || !strings.Contains(s.status, "answered elsewhere") {
		t.Errorf("asking %+v at %s, %q", s.asking, s.at, s.status)
	}
	s.Update(listMsg(nil))
	if cmd := keys(s, "ad<down><up><end>ms"); s.at != "" || s.asking != nil || cmd != nil || s.marked[""] {
		t.Errorf("with nothing there: at %q, %+v", s.at, s.asking)
	}
	if v := s.View(); !strings.Contains(v.Content, "0 calls wait") {
		t.Errorf("the screen shows %q", v.Content)
	}
}

// TestScreenMarks: several calls are answered together, each after it was read.
func TestScreenMarks(t *testing.T) {
	s := onTheScreen(3, "+x\n")
	keys(s, "Ma")
	if s.asking != nil || s.at == "ticket0" {
		t.Errorf("calls that were not read can be allowed: %+v", s.asking)
	}
	keys(s, "<down><down><up><up><down>")
	keys(s, "a")
	if s.asking == nil || len(s.asking.tickets) != 3 {
		t.Errorf("asking %+v", s.asking)
	}
	keys(s, "<esc>s")
	if s.asking != nil || s.status != "no rule can be saved for this" {
		t.Errorf("asking %+v, %q", s.asking, s.status)
	}
}

// TestScreenFits: at any size, the rows and columns of the terminal are kept.
func TestScreenFits(t *testing.T) {
	for _, n := range []int{0, 1, 40} {
		s := onTheScreen(n, strings.Repeat("+"+strings.Repeat("wide 日本 ", 40)+"\n", 30))
		for height := 1; height < 40; height += 3 {
			for _, width := range []int{1, 10, 24, 80, 200} {
				s.Update(tea.WindowSizeMsg{Width: width, Height: height})
				rows := strings.Split(s.View().Content, "\n")
				if len(rows) > max(height, 6) {
					t.Errorf("%d calls at %dx%d take %d rows", n, width, height, len(rows))
				}
			}
		}
	}
}
