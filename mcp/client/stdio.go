package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
)

// link is a way to talk to a server. Messages that come are given to a function,
// one after another, until the link has failed.
type link interface {
	send(ctx context.Context, line []byte) error
	// run gives what comes to take until the link fails, and says why.
	run(take func(line []byte)) error
	close()
}

// passed are the variables that every server gets.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM"}

// environment is what a server's process gets: few names of ours, those that the
// configuration passes on, and its own.
func environment(s Server, lookup func(string) (string, bool)) []string {
	set := map[string]string{}
	for _, name := range slices.Concat(passed, s.PassEnv) {
		if v, ok := lookup(name); ok {
			set[name] = v
		}
	}
	for _, kv := range os.Environ() {
		if name, v, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "LC_") {
			set[name] = v
		}
	}
	for name, v := range s.Env {
		set[name] = v
	}
	env := make([]string, 0, len(set))
	for name, v := range set {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env
}

// process is a server on standard input and output.
type process struct {
	p      *proctree.Process
	max    int64
	said   *tail         // of standard error
	silent chan struct{} // closed at its end
	sends  chan []byte
	ended  chan struct{}
	ending sync.Once
}

// lastWords is how long a server's last words are waited for. What it started may
// hold its standard error open.
const lastWords = time.Second

// startGrace is what a server has between SIGTERM and SIGKILL.
const startGrace = 2 * time.Second

func startProcess(ctx context.Context, s Server, o Options) (link, error) {
	if o.Host == nil {
		return nil, errors.New("servers that are programs cannot be run here")
	}
	env := environment(s, o.Env)
	path, err := find(s.Command, env)
	if err != nil {
		return nil, err
	}
	dir := s.Dir
	p, err := o.Host.Start(ctx, proctree.Spec{
		Path: path, Argv: append([]string{s.Command}, s.Args...), Env: env, Dir: dir, Stdin: true,
		Profile: proctree.Profile{Name: proctree.None},
	})
	if err != nil {
		return nil, err
	}
	l := &process{p: p, max: s.MaxMessage, said: &tail{}, silent: make(chan struct{}), sends: make(chan []byte), ended: make(chan struct{})}
	go func() { // it may say what it likes; the end of it is kept
		defer close(l.silent)
		_, _ = io.Copy(l.said, p.Stderr)
	}()
	go l.write()
	return l, nil
}

// find looks a program up in the PATH that it will get.
func find(name string, env []string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		return filepath.Abs(name)
	}
	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			p := filepath.Join(dir, name)
			if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && filepath.IsAbs(p) {
				return p, nil
			}
		}
	}
	return "", errors.New("there is no program " + quoted(name, 100) + " in PATH")
}

// write sends what is to be sent. A server that does not read blocks this
// goroutine only, and not for ever: close ends it.
func (l *process) write() {
	for {
		select {
		case line := <-l.sends:
			if _, err := l.p.Stdin.Write(line); err != nil {
				return
			}
		case <-l.ended:
			return
		}
	}
}

func (l *process) send(ctx context.Context, line []byte) error {
	select {
	case l.sends <- append(slices.Clip(line), '\n'):
		return nil
	case <-l.ended:
		return errors.New("it has ended")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *process) run(take func([]byte)) error {
	r, buf := bufio.NewReaderSize(l.p.Stdout, 64<<10), []byte(nil)
	for {
		line, err := readLine(r, &buf, l.max)
		if err != nil {
			if err == io.EOF || errors.Is(err, os.ErrClosed) {
				// What it said last, of why it ended, may still be on its way.
				select {
				case <-l.silent:
				case <-time.After(lastWords):
				}
				err = errors.New("it has ended" + l.said.text())
			}
			return err
		}
		if len(strings.TrimSpace(string(line[:min(len(line), 8)]))) > 0 {
			take(line)
		}
	}
}

func (l *process) close() {
	l.ending.Do(func() {
		close(l.ended)
		ctx, cancel := context.WithTimeout(context.Background(), 2*startGrace)
		defer cancel()
		_ = l.p.Stdin.Close() // which asks it to end
		select {
		case <-l.p.Gone():
		case <-time.After(startGrace / 4):
			_, _ = l.p.Kill(ctx, proctree.KillOptions{Grace: startGrace})
		}
		for _, f := range []*os.File{l.p.Stdout, l.p.Stderr} {
			_ = f.Close()
		}
		_ = l.p.Close()
	})
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const keptTail = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[max(0, len(p)-keptTail):]...)
	t.b = t.b[max(0, len(t.b)-keptTail):]
	return len(p), nil
}

// text is the last line, for a sentence.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.b)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return "; the last that it said is " + quoted(last, 300)
	}
	return ""
}

// encode makes a line of a message.
func encode(m message) ([]byte, error) {
	m.Version = "2.0"
	return json.Marshal(m)
}
