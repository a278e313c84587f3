package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/channel"
	"github.com/wasmtools/wasmtools/approval/show"
)

// watchScreen shows what waits on the whole terminal, to read and to answer.
func watchScreen(ctx context.Context, dir string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := &screen{ctx: ctx, requests: map[string]approval.Request{}, read: map[string]bool{}, marked: map[string]bool{}, now: time.Now()}
	p := tea.NewProgram(m, tea.WithContext(ctx))
	followed := make(chan error, 1)
	go func() {
		f := follower{dir: dir, update: func(all []waiting) { p.Send(listMsg(all)) }, notice: func(s string) { p.Send(noticeMsg(show.Inline(s))) }}
		err := f.run(ctx)
		followed <- err
		if ctx.Err() == nil {
			p.Send(noticeMsg(show.Inline(err.Error())))
		}
	}()
	_, err := p.Run()
	stop()
	<-followed
	if errors.Is(err, tea.ErrInterrupted) || errors.Is(err, context.Canceled) || errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	return err
}

// screen is the state of the watching terminal. Everything in it is changed by
// Update alone.
type screen struct {
	ctx           context.Context
	width, height int
	now           time.Time

	list   []waiting
	at     string          // ticket under the cursor
	marked map[string]bool // tickets that are answered together

	requests map[string]approval.Request // those that were fetched
	read     map[string]bool             // those that were shown to the end
	top      int                         // first row of the request that is shown

	asking *asking // what is being typed; nil: keys are commands
	status string
}

// asking is a question at the bottom of the screen.
type asking struct {
	kind    string // "yes", "save" or "no"
	tickets []string
	typed   []rune
}

type (
	listMsg   []waiting
	noticeMsg string
	tickMsg   time.Time
	shownMsg  struct {
		ticket  string
		request approval.Request
		err     error
	}
	answeredMsg struct {
		verdict approval.Verdict
		done    int
		err     error
	}
)

func tick() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) })
}

func (s *screen) Init() tea.Cmd { return tick() }

func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
		s.look()
	case tickMsg:
		s.now = time.Time(msg)
		return s, tick()
	case noticeMsg:
		s.status = string(msg)
	case listMsg:
		return s, s.setList(msg)
	case shownMsg:
		if msg.err != nil {
			s.status = show.Inline(msg.err.Error())
			return s, nil
		}
		s.requests[msg.ticket] = msg.request
		s.look()
	case answeredMsg:
		word := map[approval.Verdict]string{approval.Allow: "allowed", approval.Deny: "denied"}[msg.verdict]
		s.status = fmt.Sprintf("%s %d", word, msg.done)
		if msg.err != nil {
			s.status += "; " + show.Inline(msg.err.Error())
		}
		clear(s.marked)
	case tea.KeyPressMsg:
		if s.asking != nil {
			return s, s.typeKey(msg)
		}
		return s, s.command(msg.String())
	}
	return s, nil
}

// setList takes what waits now, and keeps the cursor where it was.
func (s *screen) setList(all []waiting) tea.Cmd {
	was := s.index()
	s.list = all
	here := func(ticket string) bool {
		return slices.ContainsFunc(all, func(w waiting) bool { return w.Ticket == ticket })
	}
	for _, known := range []map[string]bool{s.read, s.marked} {
		for ticket := range known {
			if !here(ticket) {
				delete(known, ticket)
			}
		}
	}
	for ticket := range s.requests {
		if !here(ticket) {
			delete(s.requests, ticket)
		}
	}
	if s.asking != nil && slices.ContainsFunc(s.asking.tickets, func(t string) bool { return !here(t) }) {
		s.asking, s.status = nil, "a call was answered elsewhere, or is too late"
	}
	if here(s.at) {
		return nil
	}
	s.at, s.top = "", 0
	if len(all) > 0 {
		s.at = all[min(max(was, 0), len(all)-1)].Ticket
	}
	return s.fetch()
}

// index is the cursor's place in the list, or -1.
func (s *screen) index() int {
	return slices.IndexFunc(s.list, func(w waiting) bool { return w.Ticket == s.at })
}

// fetch gets the whole request under the cursor.
func (s *screen) fetch() tea.Cmd {
	i := s.index()
	if i < 0 {
		return nil
	}
	w := s.list[i]
	if _, have := s.requests[w.Ticket]; have {
		s.look()
		return nil
	}
	return func() tea.Msg {
		r, err := showOver(s.ctx, w)
		return shownMsg{w.Ticket, r, err}
	}
}

func showOver(ctx context.Context, w waiting) (approval.Request, error) {
	c, err := w.from.Another(ctx)
	if err != nil {
		return approval.Request{}, err
	}
	defer c.Close()
	return c.Show(w.Ticket)
}

// command obeys a key while nothing is being typed. No key is an answer.
func (s *screen) command(key string) tea.Cmd {
	s.status = ""
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "up", "k":
		return s.move(-1)
	case "down", "j":
		return s.move(1)
	case "pgdown", "space":
		s.scroll(s.detailHeight() - 1)
	case "pgup", "b":
		s.scroll(1 - s.detailHeight())
	case "end", "G":
		s.scroll(len(s.detail()))
	case "home", "g":
		s.scroll(-len(s.detail()))
	case "m":
		if s.marked[s.at] {
			delete(s.marked, s.at)
		} else if s.at != "" {
			s.marked[s.at] = true
		}
	case "M":
		for _, w := range s.list {
			s.marked[w.Ticket] = true
		}
	case "a":
		s.begin("yes")
	case "s":
		s.begin("save")
	case "d":
		s.begin("no")
	}
	return nil
}

func (s *screen) move(by int) tea.Cmd {
	i := s.index() + by
	if i < 0 || i >= len(s.list) {
		return nil
	}
	s.at, s.top = s.list[i].Ticket, 0
	return s.fetch()
}

func (s *screen) scroll(by int) {
	s.top = max(0, min(s.top+by, len(s.detail())-s.detailHeight()))
	s.look()
}

// look notes that the request under the cursor has been shown to its end.
func (s *screen) look() {
	d := s.detail()
	s.top = max(0, min(s.top, len(d)-s.detailHeight()))
	if len(d) > 0 && s.height > 0 && s.top+s.detailHeight() >= len(d) {
		s.read[s.at] = true
	}
}

// begin asks for an answer to the marked calls, or else to the one under the
// cursor. A yes is taken only for what was shown to its end.
func (s *screen) begin(kind string) {
	a := asking{kind: kind}
	for _, w := range s.list {
		if s.marked[w.Ticket] || len(s.marked) == 0 && w.Ticket == s.at {
			a.tickets = append(a.tickets, w.Ticket)
		}
	}
	if len(a.tickets) == 0 {
		return
	}
	if kind != "no" {
		for _, t := range a.tickets {
			if !s.read[t] {
				s.at, s.status = t, "read it to the end first (space, end)"
				return
			}
		}
	}
	if kind == "save" && (len(a.tickets) > 1 || s.requests[a.tickets[0]].Offer == nil) {
		s.status = "no rule can be saved for this"
		return
	}
	s.asking = &a
}

// typeKey takes a key while something is being typed. What is pasted does not
// come here.
func (s *screen) typeKey(k tea.KeyPressMsg) tea.Cmd {
	a := s.asking
	switch k.String() {
	case "esc", "ctrl+c":
		s.asking, s.status = nil, "no answer was given"
	case "backspace":
		a.typed = a.typed[:max(0, len(a.typed)-1)]
	case "enter":
		s.asking = nil
		return s.answer(a)
	default:
		for _, r := range k.Text {
			if unicode.IsPrint(r) && len(string(a.typed)) < channel.MaxReason-4 {
				a.typed = append(a.typed, r)
			}
		}
	}
	return nil
}

// answer gives the answer that was typed, if it is one.
func (s *screen) answer(a *asking) tea.Cmd {
	typed := strings.TrimSpace(string(a.typed))
	reply := channel.Reply{Verdict: approval.Allow, Watch: true}
	switch {
	case a.kind == "no":
		reply.Verdict, reply.Reason = approval.Deny, typed
	case typed != a.kind:
		s.status = "no answer was given: the word is " + a.kind
		return nil
	case a.kind == "save":
		reply.Save = s.requests[a.tickets[0]].Offer
	}
	var calls []waiting
	for _, w := range s.list {
		if slices.Contains(a.tickets, w.Ticket) {
			calls = append(calls, w)
		}
	}
	return func() tea.Msg {
		m := answeredMsg{verdict: reply.Verdict}
		for _, w := range calls {
			if err := answerOver(s.ctx, w, reply); err != nil {
				m.err = err
				continue
			}
			m.done++
		}
		return m
	}
}

func answerOver(ctx context.Context, w waiting, reply channel.Reply) error {
	c, err := w.from.Another(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	reply.Ticket, reply.Binding = w.Ticket, w.Binding
	return c.Answer(reply)
}

// How a line looks. Colours are left out by the library where NO_COLOR or the
// terminal says so.
const (
	reset   = "\x1b[0m"
	reverse = "\x1b[7m"
	bold    = "\x1b[1m"
	dim     = "\x1b[2m"
	red     = "\x1b[31m"
	green   = "\x1b[32m"
	yellow  = "\x1b[33m"
)

func (s *screen) View() tea.View {
	var v tea.View
	v.AltScreen = true
	v.WindowTitle = "wasmtools approvals"
	if s.width <= 0 || s.height <= 0 {
		return v
	}
	var b strings.Builder
	row := func(style, text string) {
		text = show.Fit(text, s.width)
		if style != "" {
			text = style + text + reset
		}
		b.WriteString(text + "\n")
	}
	row(bold, fmt.Sprintf("%d calls wait", len(s.list)))
	first, n := s.listWindow()
	for _, w := range s.list[first : first+n] {
		style, mark := "", "  "
		if s.marked[w.Ticket] {
			mark = "* "
		}
		if w.Ticket == s.at {
			style = reverse
		}
		row(style, fmt.Sprintf("%s%-8s %s", mark, left(w.Expires, s.now), w.Summary))
	}
	for range s.listHeight() - n {
		row("", "")
	}
	row(dim, strings.Repeat("-", s.width))
	d := s.detail()
	for i := range s.detailHeight() {
		if s.top+i >= len(d) {
			row("", "")
			continue
		}
		l := d[s.top+i]
		row(map[show.Kind]string{show.Title: bold, show.Label: bold, show.Warning: yellow, show.Added: green, show.Removed: red, show.Place: dim}[l.Kind], l.Text)
	}
	row(dim, s.place(d))
	text, style := s.bottom()
	text = show.Fit(text, s.width)
	if style != "" {
		text = style + text + reset
	}
	b.WriteString(text)
	v.Content = b.String()
	return v
}

// The screen from above: a title, the list, a rule, the request, where one is
// in it, and the bottom line.
func (s *screen) listHeight() int   { return max(1, min(max(len(s.list), 1), s.height/3)) }
func (s *screen) detailHeight() int { return max(1, s.height-s.listHeight()-4) }

// listWindow is which part of the list is seen: one with the cursor in it.
func (s *screen) listWindow() (first, n int) {
	n = min(len(s.list), s.listHeight())
	first = max(0, min(s.index()-n/2, len(s.list)-n))
	return first, n
}

// detail are the rows of the request under the cursor.
func (s *screen) detail() []show.Line {
	r, ok := s.requests[s.at]
	if !ok {
		return nil
	}
	return show.Lines(r, show.Options{Width: s.width, Offer: true})
}

func (s *screen) place(d []show.Line) string {
	switch {
	case len(d) == 0:
		return ""
	case s.top+s.detailHeight() >= len(d):
		return fmt.Sprintf("end of %d lines", len(d))
	}
	return fmt.Sprintf("%d of %d lines; space: more", s.top+s.detailHeight(), len(d))
}

// bottom is the question that is asked, or what happened, or what keys do.
func (s *screen) bottom() (text, style string) {
	a := s.asking
	switch {
	case a != nil && a.kind == "yes":
		return fmt.Sprintf("Allow %s once? Type yes (Esc: back): %s_", these(len(a.tickets)), string(a.typed)), reverse
	case a != nil && a.kind == "save":
		return "Allow this call, and save the rule that is shown above? Type save (Esc: back): " + string(a.typed) + "_", reverse
	case a != nil:
		return fmt.Sprintf("Refuse %s. Reason for the model (Enter: refuse, Esc: back): %s_", these(len(a.tickets)), show.Inline(string(a.typed))), reverse
	case s.status != "":
		return s.status, bold
	}
	return "a allow  d deny  s save a rule  m mark  M mark all  space/b scroll  up/down choose  q leave", dim
}

func these(n int) string {
	if n == 1 {
		return "this call"
	}
	return fmt.Sprintf("these %d calls", n)
}
