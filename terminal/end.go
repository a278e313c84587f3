package terminal

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
)

// supervise sees to the end of u.
func (u *unit) supervise() {
	<-u.proc.Done()
	u.drain()
	end := u.out.view()
	left := u.endRest()
	u.closeFiles()
	<-u.out.ended
	if u.errs != nil {
		<-u.errs.ended
	}
	u.ending.Lock() // whoever ends it notes first what that took
	stuck := u.proc.Close() != nil
	u.ending.Unlock()
	u.out.mu.Lock()
	if u.out.raw != nil {
		u.out.raw.trim()
	}
	u.out.mu.Unlock()

	u.mu.Lock()
	u.stuck = stuck
	u.exit, u.ended, u.isOver = u.proc.Exit(), time.Now(), true
	if u.killed.Asked == 0 {
		u.killed = left
	}
	state := SessionEnded
	if !u.session {
		state = Finished
	}
	if u.timedOut {
		state = KilledByTimeout
	}
	if c := u.cmd; c != nil && !c.over {
		c.code, c.signal = u.exit.Code, u.exit.Signal
		u.finish(c, state, u.out.log.Size(), end.binary)
	}
	u.event(Event{
		Kind: Gone, ExitCode: u.exit.Code, Signal: nameOf(u.exit.Signal), Duration: u.ended.Sub(u.started),
		Bytes: u.out.log.Size(), Killed: names(u.killed.Forced), Left: u.killed.Asked,
	})
	u.notify()
	u.mu.Unlock()
	if u.shell != nil {
		u.shell.remove()
	}
	u.trimSpool()
	u.m.journal.write(entry{ID: u.id, Ended: true})
	u.m.retire(u)
	close(u.done)
}

// endRest ends what a process that has ended itself leaves behind.
func (u *unit) endRest() proctree.Killed {
	moment := time.NewTimer(2 * time.Millisecond)
	defer moment.Stop()
	for range 100 {
		select {
		case <-u.proc.Gone():
			return proctree.Killed{} // as nearly always
		case <-moment.C:
		}
		members, _ := u.proc.Members()
		if slices.ContainsFunc(members, func(m proctree.Member) bool { return m.State != 'Z' }) {
			break
		}
		moment.Reset(10 * time.Millisecond) // nobody is left, and who says so has not got a processor yet
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	left, _ := u.proc.Kill(ctx, proctree.KillOptions{Grace: leftGrace})
	return left
}

// drain waits until all output has come of a process that has ended: to the end
// of the stream, or, if others hold it open, to a moment of silence.
func (u *unit) drain() {
	const quiet, most = 100 * time.Millisecond, time.Second
	ended := make(chan struct{})
	go func() {
		<-u.out.ended
		if u.errs != nil {
			<-u.errs.ended
		}
		close(ended)
	}()
	stop := time.NewTimer(most)
	defer stop.Stop()
	for begin := time.Now(); ; {
		last := u.out.view().last
		if u.errs != nil {
			if l := u.errs.view().last; l.After(last) {
				last = l
			}
		}
		if last.Before(begin) {
			last = begin
		}
		wait := quiet - time.Since(last)
		if wait <= 0 {
			if !u.behind() {
				return
			}
			wait = quiet / 10 // it is there, and was not looked at yet
		}
		t := time.NewTimer(wait)
		select {
		case <-ended:
			t.Stop()
			return
		case <-stop.C:
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// end ends u, and returns when nothing of it is left.
func (u *unit) end() {
	u.endWithin(killGrace)
}

// endWithin is end with another time for programs to end themselves.
func (u *unit) endWithin(grace time.Duration) {
	if !u.over() {
		u.kill(grace)
	}
	<-u.done
}

// expire ends a process whose time is over.
func (u *unit) expire() {
	u.mu.Lock()
	u.timedOut = true
	u.mu.Unlock()
	u.kill(killGrace)
}

// kill ends all of u's programs. What cannot be ended is left to the helper, which
// goes on trying.
func (u *unit) kill(grace time.Duration) {
	u.ending.Lock()
	defer u.ending.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), grace+2*time.Second)
	defer cancel()
	killed, err := u.proc.Kill(ctx, proctree.KillOptions{Grace: grace})
	u.mu.Lock()
	if killed.Asked > 0 {
		u.killed = killed
	}
	u.mu.Unlock()
	if err != nil {
		u.proc.Close()
	}
}

// Times of interrupt. A shell that does not come back for so long, counted from the
// beginning, ignores the signal and is ended itself, all within three seconds.
const (
	interruptFirst = 200 * time.Millisecond
	interruptNext  = 100 * time.Millisecond
	interruptMost  = 1800 * time.Millisecond
	interruptGrace = 700 * time.Millisecond
)

// interrupt ends a command of a session and leaves the shell, if it can.
func (u *unit) interrupt(c *command) {
	u.mu.Lock()
	if c.over || c.settled != nil {
		u.mu.Unlock()
		return
	}
	c.settled = make(chan struct{})
	u.mu.Unlock()
	defer close(c.settled)
	ctx, cancel := context.WithTimeout(context.Background(), killGrace+time.Second)
	defer cancel()
	wait := func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-c.done:
			return true
		case <-u.done:
			return true
		case <-t.C:
			return false
		}
	}
	begin := time.Now()
	// As ctrl-C it makes the shell drop what stands behind the command, too.
	_ = u.proc.Signal(proctree.Foreground, syscall.SIGINT)
	if wait(interruptFirst) {
		u.endNew(ctx, c)
		return
	}
	u.endNew(ctx, c)
	for !wait(interruptNext) {
		if time.Since(begin) >= interruptMost {
			u.endWithin(interruptGrace)
			return
		}
		_ = u.proc.Signal(proctree.Foreground, syscall.SIGINT)
		u.endNew(ctx, c)
	}
}

// endNew ends what was not there when the command began.
func (u *unit) endNew(ctx context.Context, c *command) {
	killed, _ := u.proc.Kill(ctx, proctree.KillOptions{Grace: killGrace, Keep: c.keep})
	u.mu.Lock()
	c.killed = append(c.killed, killed.Forced...)
	u.mu.Unlock()
}

// names tells who had to be killed.
func names(k []proctree.Member) []string {
	var l []string
	for _, m := range k {
		if !slices.Contains(l, m.Name) {
			l = append(l, m.Name)
		}
	}
	return l
}
