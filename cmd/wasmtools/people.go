package main

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/channel"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/approval/terminal"
)

// people are the ways in which a person can answer the calls of one process:
// its own terminal, and the channel to other terminals.
type people struct {
	terminal *terminal.Approver // nil: nobody is asked there
	channel  *channel.Server    // nil: it cannot be had
	open     []io.Closer
	started  started
}

// started are the processes that the runtime of this process started for a model.
// The channel asks about them before there is a runtime, too.
type started struct {
	rt atomic.Pointer[wasmtools.Runtime]
}

// Leaders implements [channel.Sessions].
func (s *started) Leaders() []channel.Process {
	rt := s.rt.Load()
	if rt == nil {
		return nil
	}
	var l []channel.Process
	for _, p := range rt.Leaders() {
		l = append(l, channel.Process{PID: p.Pid, Start: p.Start})
	}
	return l
}

// join lets a person take part in a session.
func (s *started) join(session string, out func([]byte)) (channel.Joined, error) {
	rt := s.rt.Load()
	if rt == nil {
		return nil, channel.ErrNoSession
	}
	j, err := rt.Join(session, out)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// joinable lists what join takes.
func (s *started) joinable() []channel.Session {
	rt := s.rt.Load()
	if rt == nil {
		return nil
	}
	var l []channel.Session
	for _, j := range rt.Joinable() {
		l = append(l, channel.Session(j))
	}
	return l
}

// SIDs implements [channel.Sessions]: every leader begins a session of its own.
func (s *started) SIDs() []int {
	var l []int
	for _, p := range s.Leaders() {
		l = append(l, p.PID)
	}
	return l
}

// Terminals implements [channel.Sessions]. Whoever sits at one of them is known by
// its session already.
func (s *started) Terminals() []uint64 { return nil }

// meet finds the people of a process that serves as program ("run", "mcp") on
// a workspace. Only run asks at its terminal: that of a server belongs to the
// client that started it.
//
// The channel is opened whether calls are asked about or not: by its socket
// other runtimes and commands know this process and what it starts.
func meet(c *cobra.Command, program, workspace string, ask bool, headless policy.Headless) *people {
	p := &people{}
	folder := channel.Folder(userDirs().run)
	// Before the channel: then this process is a runtime, and no human to itself.
	if noInput, _ := c.Flags().GetBool("no-input"); program == "run" && ask && !noInput && channel.Human(c.Context(), folder) == nil {
		if t, err := terminal.Open(terminal.Options{By: channel.User()}); err == nil {
			p.terminal = t
			p.open = append(p.open, t)
		}
	}
	s, err := channel.Listen(folder, channel.Options{
		About:    channel.About{Program: program, Workspace: workspace, Started: time.Now().UTC().Truncate(time.Second)},
		Attended: p.waits(program, headless),
		Sessions: &p.started,
		Join:     p.started.join,
		Joinable: p.started.joinable,
	})
	switch {
	case err == nil:
		p.channel = s
		p.open = append(p.open, s)
	case !errors.Is(err, errors.ErrUnsupported):
		notice(c)(fmt.Sprintf("calls cannot be answered from another terminal: %v", err))
	}
	return p
}

// waits reports whether a call waits here for an answer from another terminal:
// the queue of a command that ends after its call is gone with it.
func (p *people) waits(program string, headless policy.Headless) bool {
	return program == "run" && p.terminal == nil && headless == policy.HeadlessQueue
}

// approvers are those of them who take part.
func (p *people) approvers(c *cobra.Command, program string, headless policy.Headless) []approval.Approver {
	var list []approval.Approver
	if p.terminal != nil {
		list = append(list, p.terminal)
	}
	switch {
	case p.channel == nil:
	case p.waits(program, headless):
		list = append(list, announced{p.channel, notice(c)})
	case program == "mcp", p.terminal != nil:
		list = append(list, p.channel)
	}
	return list
}

func (p *people) leave() {
	for _, x := range p.open {
		_ = x.Close()
	}
}

// announced says on stderr what waits, and how to answer it.
type announced struct {
	*channel.Server
	say func(string)
}

func (a announced) Offer(r approval.Request, answer approval.Answer) func() {
	withdraw := a.Server.Offer(r, answer)
	if withdraw != nil {
		a.say(fmt.Sprintf("%s waits for a person until %s: wasmtools approvals show %s", r.Tool, r.Expires.Local().Format(time.TimeOnly), r.Ticket))
	}
	return withdraw
}
