package terminal

import (
	"path/filepath"
	"strings"

	"github.com/wasmtools/wasmtools/internal/proctree"
)

// look is what the kernel says about a unit at one moment.
type look struct {
	terminal  bool // the modes of the terminal are known
	canonical bool // it gives whole lines to its reader
	echo      bool

	front   proctree.Member // the foreground group's leader, or another one of it; zero if there is none
	members int             // of the foreground group
	group   []proctree.Member
	stopped bool // all of them are
	reading bool // one of them is blocked reading the terminal
	polling bool // one of them waits for events of which the terminal may be one
	hidden  bool // what one of them does cannot be seen
	shell   bool // the foreground group is the session's own shell
	alive   bool // one of them has not ended
	running bool // one of them runs, or would if there were a processor for it
	behind  bool // what they have printed is not all in the log yet
}

// calm: everybody waits for something, and all that was printed is there.
func (l *look) calm() bool { return (l.alive || !tellsRunning) && !l.running && !l.behind }

// waits: the session's shell waits for its input.
func (l *look) waits() bool { return l.shell && (l.reading || l.polling) && l.calm() }

// Program is what is in the foreground of a unit.
type Program struct {
	Pid   int
	Start uint64
	Name  string // as the kernel calls it
	File  string // base name of its file, where the system tells
	// Commands: it, or another program of its job, does what its input says.
	Commands bool
}

func (l *look) program() Program {
	p := Program{Pid: l.front.Pid, Start: l.front.Start, Name: l.front.Name}
	for i, m := range l.group {
		if i == maxGroup {
			p.Commands = true // nobody looks at the rest
			break
		}
		path := executable(m.Pid)
		file := filepath.Base(path)
		if m.Pid == p.Pid && path != "" {
			p.File = file
		}
		// What is not the system's own can be anything under any name.
		p.Commands = p.Commands || !ofSystem(path) || takesCommands(m.Name) || takesCommands(file)
	}
	return p
}

// ofSystem tells whether a program lies where the system's programs are.
func ofSystem(path string) bool {
	for _, dir := range []string{"/usr/", "/bin/", "/sbin/", "/opt/", "/nix/store/"} {
		if strings.HasPrefix(path, dir) && !strings.HasPrefix(path, "/usr/local/") {
			return true
		}
	}
	return false
}

// maxGroup bounds the programs of a job that are looked at.
const maxGroup = 64

// look asks the kernel.
func (u *unit) look() look {
	var l look
	if u.over() {
		return l
	}
	if u.tty {
		l.canonical, l.echo, l.terminal = modes(u.proc.Terminal)
	}
	group := u.proc.Pid
	if u.tty {
		if g, err := u.proc.Foreground(); err == nil && g > 0 {
			group = g
		}
	}
	l.shell = group == u.proc.Pid
	members, _ := u.proc.Members()
	stopped := 0
	for _, m := range members {
		if m.Group != group {
			continue
		}
		l.members++
		l.group = append(l.group, m)
		if l.front.Pid == 0 || m.Pid == group {
			l.front = m
		}
		switch m.State {
		case 'T', 't':
			stopped++
			l.alive = true
		case 'Z', 'X':
		default:
			l.alive = true
			l.running = l.running || tellsRunning && (m.State == 'R' || m.State == 'D')
			if u.tty {
				reading, polling, hidden := blocked(m.Pid)
				l.reading = l.reading || reading
				l.polling = l.polling || polling
				l.hidden = l.hidden || hidden
			}
		}
	}
	l.stopped = l.members > 0 && stopped == l.members
	l.behind = u.behind()
	return l
}

// behind tells whether u has printed what is not in the log yet.
func (u *unit) behind() bool { return u.out.behind() || u.errs != nil && u.errs.behind() }
