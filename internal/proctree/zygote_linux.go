//go:build amd64 || arm64

package proctree

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree/helper"
	"github.com/wasmtools/wasmtools/internal/proctree/wire"
)

// zygote is a helper that starts others: the first one, or a box.
type zygote struct {
	mu   sync.Mutex // one request at a time
	conn *wire.Conn
	dead error
}

// helperEnv is the environment of all helpers: they have none of ours, since what
// they start could read it, and two processors will do.
var helperEnv = []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}

// openZygote starts the first helper. ended is closed when its process is gone.
func openZygote() (z *zygote, ended <-chan struct{}, err error) {
	hideEnviron()
	ours, theirs, err := wire.Pair()
	if err != nil {
		return nil, nil, &StartError{Op: "helper", Err: err}
	}
	conn, err := wire.NewConn(ours)
	if err != nil {
		syscall.Close(theirs)
		return nil, nil, &StartError{Op: "helper", Err: err}
	}
	sock := os.NewFile(uintptr(theirs), "proctree")
	defer sock.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		conn.Close()
		return nil, nil, &StartError{Op: "helper", Err: err}
	}
	defer null.Close()
	// The program's own file, whatever has become of its name.
	p, err := os.StartProcess("/proc/self/exe", []string{"wasmtools-helper", helper.Arg, helper.RoleZygote}, &os.ProcAttr{
		Dir: "/", Env: helperEnv, Files: []*os.File{null, null, null, sock}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		conn.Close()
		return nil, nil, &StartError{Op: "helper", Err: err}
	}
	gone := make(chan struct{})
	go func() {
		p.Wait()
		close(gone)
	}()
	return &zygote{conn: conn}, gone, nil
}

// helperTimeout bounds what a helper may take to start another one, and to
// prepare a sandbox: a stuck start is an error, not a hang.
const helperTimeout = 5 * time.Second

// spawn returns a new helper's connection and its process number.
func (z *zygote) spawn(s wire.Spawn) (*wire.Conn, int, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.dead != nil {
		return nil, 0, z.dead
	}
	watch := time.AfterFunc(helperTimeout, func() { z.conn.Close() })
	defer watch.Stop()
	f, err := z.ask(s)
	if err != nil {
		z.dead = fmt.Errorf("%w: %w", ErrClosed, err)
		z.conn.Close()
		return nil, 0, z.dead
	}
	defer f.CloseFiles()
	if f.Type == wire.TypeRefused {
		return nil, 0, refusal(f, "")
	}
	var m wire.Spawned
	if f.Type != wire.TypeSpawned || m.Decode(f.Body) != nil || len(f.Files) != 1 {
		return nil, 0, wire.ErrFrame
	}
	conn, err := wire.NewConn(f.Take(0))
	return conn, int(m.Pid), err
}

func (z *zygote) ask(s wire.Spawn) (wire.Frame, error) {
	if err := z.conn.Send(wire.Frame{Type: wire.TypeSpawn, Body: s.Encode()}); err != nil {
		return wire.Frame{}, err
	}
	return z.conn.Receive()
}

func (z *zygote) alive() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.dead == nil
}

// refusal turns a helper's no into an error of ours.
func refusal(f wire.Frame, profile string) error {
	var m wire.Refused
	switch {
	case m.Decode(f.Body) != nil:
		return wire.ErrFrame
	case m.Reason != "":
		return &UnavailableError{Profile: profile, Reason: m.Reason}
	case m.Op == "moved":
		return ErrMoved
	}
	return &StartError{Op: m.Op, Path: m.Path, Err: syscall.Errno(m.Errno)}
}
