package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/show"
)

// question is what stands on the terminal now: one request, or several that are
// answered together.
type question struct {
	a     *Approver
	group []*item

	paged bool // Enter was typed to read on; one more of them is no answer
}

const help = `  yes              allow this call once
  no [reason]      refuse; the model reads the reason
  save             allow, and save a rule (it is shown first)
  list             what else waits
  all              show everything that waits, to answer it together
  no all [reason]  refuse everything that waits
  Enter            no
`

// ask shows the question and takes an answer. An error means that the terminal
// is gone.
func (q *question) ask() error {
	typed, err := q.show()
	for ; ; typed, err = q.prompt() {
		if err == nil {
			var over bool
			if over, err = q.obey(typed); over && err == nil {
				return nil
			}
		}
		if err == errOver {
			q.a.tty.print("\n(answered elsewhere, or too late)\n")
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// show prints all of it, by pages, and returns what was typed at the end.
func (q *question) show() (string, error) {
	rows, columns := q.a.tty.size()
	var lines []string
	for i, it := range q.group {
		head := "\n== a call waits for you ==\n"
		if len(q.group) > 1 {
			head = fmt.Sprintf("\n== %d of %d ==\n", i+1, len(q.group))
		}
		lines = append(lines, strings.SplitAfter(head, "\n")...)
		for _, l := range show.Lines(it.request, show.Options{Width: columns, Now: time.Now()}) {
			lines = append(lines, l.Text+"\n")
		}
	}
	page := max(rows-2, 5)
	for at, whole := 0, false; ; {
		n := len(lines) - at
		if !whole {
			n = min(n, page)
		}
		q.a.tty.print(strings.Join(lines[at:at+n], ""))
		at += n
		if at == len(lines) {
			return q.prompt()
		}
		for again := true; again; {
			typed, err := q.line(fmt.Sprintf("-- %d of %d lines; Enter: more, rest: all of it, no [reason]: refuse -- ", at, len(lines)))
			if err != nil {
				return "", err
			}
			again = false
			switch word, _ := cut(typed); word {
			case "":
				q.paged = true
			case "rest":
				whole = true
			case "no":
				return typed, nil
			default:
				q.a.tty.print("there is more to read before an answer\n")
				again = true
			}
		}
	}
}

func (q *question) prompt() (string, error) {
	var b strings.Builder
	if queue, _ := q.a.state(); len(queue) > len(q.group) {
		fmt.Fprintf(&b, "(%d more wait: list, all) ", len(queue)-len(q.group))
	}
	what := "this call"
	if n := len(q.group); n > 1 {
		what = fmt.Sprintf("these %d calls", n)
	}
	fmt.Fprintf(&b, "Allow %s once? yes, no [reason], ? [no]: ", what)
	return q.line(b.String())
}

// line prints a prompt and reads what is typed after it. It ends with errOver
// when nothing of the group waits any more.
func (q *question) line(prompt string) (string, error) {
	q.a.tty.print(prompt)
	for {
		group := q.a.left(q.group)
		if len(group) == 0 {
			return "", errOver
		}
		until := group[0].request.Expires
		for _, it := range group {
			if it.request.Expires.Before(until) {
				until = it.request.Expires
			}
		}
		typed, err := q.a.tty.read(q.a.kick, until)
		if err != errInterrupted {
			return typed, err
		}
	}
}

// obey does what was typed; over ends the question.
func (q *question) obey(typed string) (over bool, err error) {
	word, rest := cut(typed)
	switch word {
	case "yes":
		if rest != "" {
			q.a.tty.print("yes stands alone\n")
			return false, nil
		}
		q.a.decide(q.group, approval.Decision{Verdict: approval.Allow})
		return true, nil
	case "", "no":
		if word == "" && q.paged {
			q.paged = false
			q.a.tty.print("this was the end; Enter once more refuses\n")
			return false, nil
		}
		group := q.group
		if first, more := cut(rest); word == "no" && first == "all" {
			group, _ = q.a.state()
			rest = more
		}
		q.a.decide(group, approval.Decision{Verdict: approval.Deny, Reason: reason(rest)})
		return true, nil
	case "save":
		return q.save()
	case "list":
		queue, _ := q.a.state()
		for i, it := range queue {
			mark := " "
			if slices.Contains(q.group, it) {
				mark = "*"
			}
			q.a.tty.print(fmt.Sprintf("%s %d  %s  %s\n", mark, i+1, show.Inline(it.request.Ticket), show.Summary(it.request)))
		}
		return false, nil
	case "all":
		queue, _ := q.a.state()
		if len(queue) < 2 {
			q.a.tty.print("nothing else waits\n")
			return false, nil
		}
		all := question{a: q.a, group: queue}
		return true, all.ask()
	case "?", "help":
		q.a.tty.print(help)
		return false, nil
	case "y", "n":
		q.a.tty.print("type the whole word\n")
		return false, nil
	}
	q.a.tty.print("that is neither yes nor no; ? explains\n")
	return false, nil
}

// save shows the rule that would be saved, to the byte but for what could not be
// seen, and asks again.
func (q *question) save() (over bool, err error) {
	offer := q.group[0].request.Offer
	if len(q.group) > 1 || offer == nil {
		q.a.tty.print("no rule can be saved for this\n")
		return false, nil
	}
	var b strings.Builder
	b.WriteString("\nThis rule would be saved, and allow without asking from then on:\n")
	_, columns := q.a.tty.size()
	b.WriteString(show.Text(show.Rule(*offer, columns)))
	q.a.tty.print(b.String())
	q.a.tty.flush()
	typed, err := q.line("Allow the call and save exactly this rule? save, or anything else to go back: ")
	if err != nil {
		return false, err
	}
	if word, rest := cut(typed); word != "save" || rest != "" {
		q.a.tty.print("nothing was saved\n")
		return false, nil
	}
	q.a.decide(q.group, approval.Decision{Verdict: approval.Allow, Save: offer})
	return true, nil
}

// cut takes the first word of a line, in lower case, and the rest.
func cut(s string) (word, rest string) {
	word, rest, _ = strings.Cut(strings.TrimSpace(s), " ")
	return strings.ToLower(word), strings.TrimSpace(rest)
}
