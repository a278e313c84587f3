package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/approval/channel"
	"github.com/wasmtools/wasmtools/approval/show"
)

// lookPause is how often the folder is looked at for runtimes that are new.
const lookPause = time.Second

// follower keeps a list of everything that waits in any runtime, also those
// that start later.
type follower struct {
	dir    string
	update func([]waiting) // the whole list, whenever it changed
	notice func(string)    // once per problem
	mu     sync.Mutex      // guards what follows
	lists  map[channel.Process][]waiting
	said   map[channel.Process]string
}

// run follows until ctx ends, or a runtime refuses this process.
func (f *follower) run(ctx context.Context) error {
	f.lists, f.said = map[channel.Process][]waiting{}, map[channel.Process]string{}
	var watching sync.WaitGroup
	defer watching.Wait()
	f.tell()
	for {
		clients, problems, err := channel.FindOthers(ctx, f.dir, f.known)
		if err != nil {
			return err
		}
		for _, p := range problems {
			if errors.Is(p.Err, channel.ErrRefused) {
				return refused(p)
			}
			f.problem(p)
		}
		for _, c := range clients {
			f.set(c, nil)
			watching.Go(func() { f.watch(ctx, c) })
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookPause):
		}
	}
}

func process(c *channel.Client) channel.Process {
	return channel.Process{PID: c.About().PID, Start: c.About().Start}
}

func (f *follower) known(p channel.Process) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.lists[p]
	return ok
}

func (f *follower) problem(p channel.Problem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text := p.Error(); f.said[p.Runtime] != text {
		f.said[p.Runtime] = text
		f.notice(text)
	}
}

// watch follows one runtime until it ends.
func (f *follower) watch(ctx context.Context, c *channel.Client) {
	defer func() {
		c.Close()
		f.mu.Lock()
		delete(f.lists, process(c))
		f.mu.Unlock()
		f.tell()
	}()
	look := func() {
		again, err := c.Another(ctx)
		if err != nil {
			return // it ends, or the watching does
		}
		defer again.Close()
		if ws, err := again.List(); err == nil {
			f.set(c, ws)
		}
	}
	look()
	// The list may have changed before the watching began.
	_ = c.Watch(ctx, look)
}

func (f *follower) set(c *channel.Client, ws []channel.Waiting) {
	list := make([]waiting, len(ws))
	for i, w := range ws {
		list[i] = waiting{w, c.About(), c}
	}
	f.mu.Lock()
	f.lists[process(c)] = list
	f.mu.Unlock()
	f.tell()
}

// tell hands the whole list on, oldest expiry first.
func (f *follower) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := []waiting{}
	for _, l := range f.lists {
		all = append(all, l...)
	}
	slices.SortFunc(all, byExpiry)
	f.update(all)
}

func byExpiry(a, b waiting) int {
	if c := a.Expires.Compare(b.Expires); c != 0 {
		return c
	}
	if a.Ticket < b.Ticket {
		return -1
	}
	return 1
}

// event is one line of `approvals watch --jsonl`.
type event struct {
	Event  string   `json:"event"` // waiting or gone
	Ticket string   `json:"ticket"`
	Call   *waiting `json:"call,omitempty"`
}

// watchLines prints a line for every call that begins or ends to wait.
func watchLines(ctx context.Context, w io.Writer, dir string, asJSON bool, notice func(string)) error {
	before := map[string]waiting{}
	var failed error
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	line := func(e event, text string) {
		var err error
		if asJSON {
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			err = enc.Encode(e)
		} else {
			_, err = io.WriteString(w, text+"\n")
		}
		if err != nil && failed == nil {
			failed = err
			stop(err)
		}
	}
	f := follower{dir: dir, notice: notice, update: func(all []waiting) {
		now := map[string]waiting{}
		for _, x := range all {
			now[x.Ticket] = x
			if _, ok := before[x.Ticket]; !ok {
				line(event{"waiting", x.Ticket, &x}, fmt.Sprintf("waiting %s  %s (until %s)", show.Clean(x.Ticket), x.Summary, x.Expires.Local().Format(time.TimeOnly)))
			}
		}
		for ticket := range before {
			if _, ok := now[ticket]; !ok {
				line(event{"gone", ticket, nil}, "gone    "+show.Clean(ticket))
			}
		}
		before = now
	}}
	err := f.run(ctx)
	if errors.Is(err, context.Canceled) {
		return failed
	}
	return err
}
