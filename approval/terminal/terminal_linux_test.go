package terminal

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/internal/ptytest"
	"github.com/wasmtools/wasmtools/tool"
)

// The program under test is this binary with TERMINAL_TEST set: a desk with an
// approver at the terminal. What its input says is asked, and what was decided
// goes to its output, which is not the terminal.
func TestMain(m *testing.M) {
	if os.Getenv("TERMINAL_TEST") != "" {
		os.Exit(program())
	}
	os.Exit(m.Run())
}

type order struct {
	Submit *tool.Preview  // asks this
	Offer  *approval.Rule // with this rule to save
	TTL    time.Duration  // of the desk, in the first order
	Decide int            // decides the ticket of this number, counted from 1, elsewhere
	Read   bool           // reads a line of the terminal as a tool would
}

type result struct {
	N        int
	Decision approval.Decision
	Err      string
	Line     string
}

func program() int {
	signal.Ignore(syscall.SIGHUP) // as a server does that outlives its terminal
	a, err := Open(Options{By: "ann"})
	out := json.NewEncoder(os.Stdout)
	if err != nil {
		_ = out.Encode(result{Err: err.Error()})
		return 1
	}
	defer a.Close()
	in := json.NewDecoder(os.Stdin)
	var desk *approval.Desk
	var tickets []*approval.Ticket
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			return 0
		}
		if desk == nil {
			desk = approval.NewDesk([]approval.Approver{a}, o.TTL)
		}
		switch {
		case o.Submit != nil:
			n := len(tickets) + 1
			tk, err := desk.Submit(approval.Request{Tool: "write_file", Session: "s", CallID: "c" + strconv.Itoa(n), Input: tool.Digest(strconv.Itoa(n)), Preview: *o.Submit, Offer: o.Offer})
			if err != nil {
				_ = out.Encode(result{N: n, Err: err.Error()})
				continue
			}
			tickets = append(tickets, tk)
			if !tk.Attended(context.Background()) {
				_ = out.Encode(result{N: n, Err: "nobody is there"})
				continue
			}
			go func() {
				d, err := tk.Wait(context.Background())
				r := result{N: n, Decision: d}
				if err != nil {
					r.Err = err.Error()
				}
				_ = out.Encode(r)
			}()
		case o.Decide > 0:
			_ = desk.Decide(tickets[o.Decide-1].Request().Ticket, approval.Decision{Verdict: approval.Deny, By: "bob"})
		case o.Read:
			tty, err := os.Open("/dev/tty")
			if err != nil {
				return 1
			}
			line, _ := bufio.NewReader(tty).ReadString('\n')
			_ = out.Encode(result{Line: line})
		}
	}
}

// desk drives the program.
type desk struct {
	*ptytest.Terminal
	t   *testing.T
	in  *json.Encoder
	out *json.Decoder
	raw io.Closer
}

func start(t *testing.T) *desk {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TERMINAL_TEST=1")
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = inR, outW
	tm := ptytest.Start(t, cmd)
	inR.Close()
	outW.Close()
	t.Cleanup(func() { inW.Close(); outR.Close() })
	return &desk{tm, t, json.NewEncoder(inW), json.NewDecoder(outR), inW}
}

func (d *desk) order(o order) {
	d.t.Helper()
	if err := d.in.Encode(o); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) submit(diff string) {
	d.t.Helper()
	d.order(order{Submit: &tool.Preview{Diff: diff, Binding: "b"}})
}

func (d *desk) result() result {
	d.t.Helper()
	var r result
	if err := d.out.Decode(&r); err != nil {
		d.t.Fatalf("no result: %v; the terminal shows:\n%s", err, d.Output())
	}
	return r
}

const prompt = `Allow this call once\? yes, no \[reason\], \? \[no\]: `

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name, typed string
		want        approval.Verdict
		reason      string
	}{
		{"yes", "yes\n", approval.Allow, ""},
		{"Yes with spaces", "  YES \n", approval.Allow, ""},
		{"no", "no\n", approval.Deny, ""},
		{"a reason", "no  not before the release\n", approval.Deny, "not before the release"},
		{"Enter", "\n", approval.Deny, ""},
		{"end of input", "\x04", approval.Deny, ""},
		{"one key is no yes", "y\nno it was y\n", approval.Deny, "it was y"},
		{"a sentence is no yes", "yes please\nno it was a sentence\n", approval.Deny, "it was a sentence"},
		{"something else", "yess\nok\n1\nno\n", approval.Deny, ""},
		{"help, then yes", "?\nyes\n", approval.Allow, ""},
		{"control characters in a reason", "no a\x1b[31mb\n", approval.Deny, "a[31mb"},
		{"nothing else waits", "all\nlist\nno\n", approval.Deny, ""},
		{"no rule", "save\nno\n", approval.Deny, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := start(t)
			d.submit("+x\n")
			d.Expect(prompt)
			d.Send(c.typed)
			r := d.result()
			if r.Err != "" || r.Decision.Verdict != c.want || r.Decision.Reason != c.reason || r.Decision.By != "ann" || r.Decision.Channel != "terminal" || r.Decision.Save != nil {
				t.Errorf("%q gives %+v", c.typed, r)
			}
			d.Expect(map[approval.Verdict]string{approval.Allow: "allowed", approval.Deny: "denied"}[c.want])
		})
	}
}

// TestShown: the whole text, and nothing that the terminal would obey.
func TestShown(t *testing.T) {
	d := start(t)
	d.submit("+a\x1b]0;owned\x07\u202eb\n+c\n")
	got := d.Expect(prompt)
	for _, want := range []string{"write_file", "  | +a⟨ESC⟩]0;owned⟨BEL⟩⟨RLO⟩b\r\n", "  | +c\r\n", "warning: the text holds invisible"} {
		if !strings.Contains(got, want) {
			t.Errorf("the terminal lacks %q:\n%s", want, got)
		}
	}
	if strings.ContainsAny(got, "\x1b\x07\u202e") {
		t.Errorf("the terminal got control characters: %q", got)
	}
	d.Send("no\n")
	d.result()
}

// TestPages: what is long comes in pages; nothing is left out, and a yes counts
// after the last one only.
func TestPages(t *testing.T) {
	var diff strings.Builder
	for i := range 300 {
		fmt.Fprintf(&diff, "+line %d.\n", i)
	}
	d := start(t)
	d.submit(diff.String())
	const more = `lines; Enter: more, rest: all of it, no \[reason\]: refuse -- `
	d.Expect(more)
	d.Send("yes\n")
	d.Expect("there is more to read")
	d.Expect(more)
	d.Send("\n")
	d.Expect(more)
	d.Send("rest\n")
	d.Expect(prompt)
	d.Send("\n")
	d.Expect("Enter once more refuses")
	d.Send("yes\n")
	if r := d.result(); r.Decision.Verdict != approval.Allow {
		t.Errorf("got %+v", r)
	}
	for i := range 300 {
		if !strings.Contains(d.Output(), fmt.Sprintf("+line %d.\r\n", i)) {
			t.Fatalf("line %d was never shown", i)
		}
	}
	d.submit(diff.String())
	d.Expect(more)
	d.Send("no too long\n")
	if r := d.result(); r.Decision.Verdict != approval.Deny || r.Decision.Reason != "too long" {
		t.Errorf("got %+v", r)
	}
}

func TestQueue(t *testing.T) {
	t.Run("one after another", func(t *testing.T) {
		d := start(t)
		d.submit("+first\n")
		d.submit("+second\n")
		d.Expect(`(?s)\+first.*` + prompt)
		d.Send("yes\n")
		if r := d.result(); r.N != 1 || r.Decision.Verdict != approval.Allow {
			t.Errorf("got %+v", r)
		}
		d.Expect(`(?s)\+second.*` + prompt)
		d.Send("no\n")
		if r := d.result(); r.N != 2 || r.Decision.Verdict != approval.Deny {
			t.Errorf("got %+v", r)
		}
	})
	all := func(t *testing.T, typed string, want approval.Verdict, reason string) {
		d := start(t)
		for i := range 3 {
			d.submit(fmt.Sprintf("+file %d\n", i))
		}
		d.Expect(prompt)
		for { // until all have arrived
			d.Send("list\n")
			if strings.Contains(d.Expect(`(?s)\* 1  .*`+prompt), "  3  ") {
				break
			}
		}
		d.Send(typed)
		for range 3 {
			if r := d.result(); r.Decision.Verdict != want || r.Decision.Reason != reason {
				t.Errorf("got %+v", r)
			}
		}
		d.Expect(map[approval.Verdict]string{approval.Allow: "allowed 3", approval.Deny: "denied 3"}[want])
	}
	t.Run("all yes", func(t *testing.T) { all(t, "all\nrest\nyes\n", approval.Allow, "") })
	t.Run("all no", func(t *testing.T) { all(t, "no all stop it\n", approval.Deny, "stop it") })
}

// TestWithdrawn: an answer from elsewhere takes the question back, and what was
// typed for it does not answer the next one.
func TestWithdrawn(t *testing.T) {
	d := start(t)
	d.submit("+first\n")
	d.Expect(prompt)
	d.submit("+second\n")
	d.Send("yes") // not finished yet
	d.Expect("yes")
	d.order(order{Decide: 1})
	if r := d.result(); r.N != 1 || r.Decision.By != "bob" {
		t.Errorf("got %+v", r)
	}
	d.Expect(`answered elsewhere, or too late`)
	d.Expect(`(?s)\+second.*` + prompt)
	d.Send("\n") // would have ended the yes
	if r := d.result(); r.N != 2 || r.Decision.Verdict != approval.Deny || r.Decision.By != "ann" {
		t.Errorf("got %+v", r)
	}
}

// TestTypedAhead: what was typed before a question is shown answers nothing,
// the first question no more than a later one.
func TestTypedAhead(t *testing.T) {
	d := start(t)
	d.Send("yes\n")
	d.Expect("yes\r\n") // the terminal has it
	d.submit("+first\n")
	d.Expect(`(?s)\+first.*` + prompt)
	d.Send("no\n")
	if r := d.result(); r.Decision.Verdict != approval.Deny {
		t.Errorf("got %+v", r)
	}
	d.Expect("denied")
	d.Send("yes\n")
	d.Expect("yes\r\n")
	d.submit("+second\n")
	d.Expect(`(?s)\+second.*` + prompt)
	d.Send("no\n")
	if r := d.result(); r.Decision.Verdict != approval.Deny {
		t.Errorf("got %+v", r)
	}
	// Control: the same word after the question is a yes.
	d.submit("+third\n")
	d.Expect(`(?s)\+third.*` + prompt)
	d.Send("yes\n")
	if r := d.result(); r.Decision.Verdict != approval.Allow {
		t.Errorf("got %+v", r)
	}
}

func TestTooLate(t *testing.T) {
	d := start(t)
	d.order(order{TTL: 300 * time.Millisecond, Submit: &tool.Preview{Binding: "b"}})
	d.Expect(prompt)
	d.Expect("too late")
	if r := d.result(); !strings.Contains(r.Err, "approval_expired") {
		t.Errorf("got %+v", r)
	}
}

// TestSave: the rule is saved only after it was shown as it is.
func TestSave(t *testing.T) {
	rule := &approval.Rule{ID: "r1", TOML: "[[rule]]\ntool = \"write_file\"\npath = \"a\u202eb\"\n"}
	d := start(t)
	submit := func() {
		d.order(order{Submit: &tool.Preview{Binding: "b"}, Offer: rule})
		d.Expect(prompt)
	}
	submit()
	d.Send("save\n")
	got := d.Expect("save exactly this rule[^:]*: ")
	if !strings.Contains(got, "  | [[rule]]\r\n  | tool = \"write_file\"\r\n  | path = \"a⟨RLO⟩b\"\r\n") {
		t.Errorf("the rule is shown as:\n%s", got)
	}
	d.Send("yes\n")
	d.Expect("nothing was saved")
	d.Expect(prompt)
	d.Send("yes\n")
	if r := d.result(); r.Decision.Verdict != approval.Allow || r.Decision.Save != nil {
		t.Errorf("got %+v", r)
	}
	submit()
	d.Send("save\n")
	d.Expect("save exactly this rule[^:]*: ")
	d.Send("save\n")
	if r := d.result(); r.Decision.Verdict != approval.Allow || r.Decision.Save == nil || *r.Decision.Save != *rule {
		t.Errorf("got %+v", r)
	}
}

// TestTerminalIsGivenBack: between questions the terminal belongs to others.
func TestTerminalIsGivenBack(t *testing.T) {
	d := start(t)
	d.submit("+x\n")
	d.Expect(prompt)
	d.Send("yes\n")
	d.result()
	d.Expect("allowed")
	for i := range 3 {
		d.order(order{Read: true})
		d.Send(fmt.Sprintf("for the tool %d\n", i))
		if r := d.result(); r.Line != fmt.Sprintf("for the tool %d\n", i) {
			t.Fatalf("the tool reads %q", r.Line)
		}
	}
}

// TestNobody: no terminal, one that is gone, or one whose foreground is
// another's: nothing is asked.
func TestNobody(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "TERMINAL_TEST=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, _ := cmd.Output()
		if !strings.Contains(string(out), "no controlling terminal") {
			t.Errorf("got %s", out)
		}
	})
	t.Run("background", func(t *testing.T) {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-mc", `echo '{"Submit":{"Binding":"b"}}' | "`+exe+`" >&3 & wait; echo over`)
		cmd.Env = append(os.Environ(), "TERMINAL_TEST=1")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		cmd.ExtraFiles = []*os.File{w}
		tm := ptytest.Start(t, cmd)
		w.Close()
		tm.Expect("over")
		var got result
		if err := json.NewDecoder(r).Decode(&got); err != nil || got.Err != "nobody is there" {
			t.Errorf("got %+v, %v", got, err)
		}
		if strings.Contains(tm.Output(), "Allow") {
			t.Errorf("the terminal shows a question:\n%s", tm.Output())
		}
	})
	t.Run("gone", func(t *testing.T) {
		d := start(t)
		d.submit("+x\n")
		d.Expect(prompt)
		d.Master().Close()
		d.submit("+y\n")
		if r := d.result(); r.N != 2 || r.Err != "nobody is there" {
			t.Errorf("got %+v", r)
		}
		d.order(order{Decide: 1}) // the end of the terminal was no answer
		if r := d.result(); r.N != 1 || r.Decision.By != "bob" {
			t.Errorf("got %+v", r)
		}
	})
}

func TestReason(t *testing.T) {
	for in, want := range map[string]string{
		"  a b ": "a b", "a\x00\x1bb\x7f": "ab", "a\xffb": "ab",
		strings.Repeat("ü", 2000): strings.Repeat("ü", maxReason/2),
	} {
		if got := reason(in); got != want {
			t.Errorf("reason(%.20q) = %.20q (%d bytes), want %.20q", in, got, len(got), want)
		}
	}
}
