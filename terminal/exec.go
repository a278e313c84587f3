package terminal

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/tool"
)

// ExecRequest is what op exec takes.
type ExecRequest struct {
	Command string
	Plan    *tool.Plan // run instead of Command, if not nil
	Cwd     string
	// Dir, if not nil, is where Cwd was seen to lead; the call fails if it has come
	// to lead elsewhere.
	Dir     *Dir
	Env     map[string]string
	TTY     bool
	Split   bool
	Yield   time.Duration
	Timeout time.Duration // 0 means DefaultTimeout
	Until   *Until
	Limit   int
	Profile string
}

// Exec runs one process to its end, or returns while it runs when Yield is over.
func (m *Manager) Exec(ctx context.Context, r ExecRequest, fb Feedback) (Result, error) {
	if err := checkCommand(r.Command); err != nil {
		return Result{}, err
	}
	if err := checkEnv(r.Env); err != nil {
		return Result{}, err
	}
	if r.TTY && r.Split {
		return Result{}, tool.Errorf(tool.InvalidArguments, "a terminal has one stream: tty and split exclude each other")
	}
	done, err := m.admit(false)
	if err != nil {
		return Result{}, err
	}
	defer done()
	u := &unit{m: m, id: newID(false), tty: r.TTY, split: r.Split, profile: m.profileName(r.Profile), text: r.Command, cols: DefaultCols, rows: DefaultRows}
	dir := r.Dir
	if dir == nil {
		if dir, err = m.directory(r.Cwd); err != nil {
			return Result{}, err
		}
		defer dir.Close()
	}
	u.cwd = dir.Path
	spec := proctree.Spec{Dir: dir.Path, DirFile: dir.file, Env: m.o.environment(r.Env, r.TTY, u.profile != proctree.None, u.id)}
	if r.TTY {
		spec.TTY = &proctree.Size{Cols: DefaultCols, Rows: DefaultRows}
	}
	if p := r.Plan; p == nil || len(p.Pipe) != 1 {
		if spec.Path = m.program("bash"); spec.Path == "" {
			return Result{}, tool.Errorf(tool.NotAvailable, "there is no bash here").WithNext("tell the user")
		}
		spec.Argv = []string{"bash", "-c", r.Command}
	}
	if p := r.Plan; p != nil {
		spec.Env = append(spec.Env, p.Env...)
		switch {
		case len(p.Pipe) == 1:
			spec.Path, spec.Argv = p.Pipe[0].Path, p.Pipe[0].Args
		case len(p.Pipe) > 1:
			spec.Argv = []string{"bash", "--norc", "--noprofile", "-p", "-c", pipeline(p.Pipe)}
		default:
			spec.Argv = []string{"bash", "--norc", "--noprofile", "-p", "-c", p.Script}
		}
		spec.Env = lastOf(spec.Env)
	}
	u.cmd = newCommand(r.Command)
	u.cmd.began = true
	if err := u.launch(ctx, spec); err != nil {
		return Result{}, err
	}
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	timer := time.AfterFunc(min(timeout, MaxTimeout), u.expire)
	u.mu.Lock()
	u.cmd.timer = timer
	if u.cmd.over {
		timer.Stop()
	}
	u.mu.Unlock()
	w := waiting{u: u, c: u.cmd, until: r.Until, yield: clampYield(r.Yield), early: true, fb: fb}
	reason := w.wait(ctx)
	if ctx.Err() != nil {
		go u.end()
		return Result{}, ctx.Err()
	}
	if reason == "finished" || reason == "exit" {
		<-u.done
	}
	res := u.result(w.last, u.cmd, 0, false, limitOf(r.Limit), fb)
	u.saw(res.Cursor)
	w.reasons(&res, reason)
	return res, nil
}

// pipeline is the text of a pipe of programs, all words quoted.
func pipeline(l []tool.Exec) string {
	var b strings.Builder
	for i, e := range l {
		if i > 0 {
			b.WriteString(" | ")
		}
		b.WriteString(quoted(e.Path))
		for _, a := range e.Args[1:] {
			b.WriteString(" " + quoted(a))
		}
	}
	return b.String()
}

// lastOf keeps of each variable the last setting.
func lastOf(env []string) []string {
	at := map[string]int{}
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := at[name]; ok {
			out[i] = kv
			continue
		}
		at[name] = len(out)
		out = append(out, kv)
	}
	return out
}

// directory opens a working directory: relative to the workspace, or absolute.
func (m *Manager) directory(cwd string) (*Dir, error) {
	path := cwd
	switch {
	case strings.ContainsRune(cwd, 0):
		return nil, tool.Errorf(tool.InvalidArguments, "cwd holds a NUL")
	case cwd == "":
		path = m.o.Root
	case !filepath.IsAbs(cwd):
		path = filepath.Join(m.o.Root, cwd)
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		var f *os.File
		if f, err = openPath(real); err == nil {
			return &Dir{Path: real, file: f}, nil
		}
	}
	switch {
	case isErr(err, fs.ErrNotExist):
		return nil, tool.PathErrorf(tool.NotFound, cwd, "the working directory does not exist").WithNext("give a cwd that exists, or none for the workspace")
	case isErr(err, fs.ErrPermission):
		return nil, tool.PathErrorf(tool.Permission, cwd, "the working directory cannot be entered")
	}
	return nil, tool.PathErrorf(tool.NotRegular, cwd, "the working directory is none").Because(err)
}

// Directory looks a working directory up, for a call that is asked about before
// it is made. The caller closes it.
func (m *Manager) Directory(cwd string) (*Dir, error) { return m.directory(cwd) }

// Close gives the directory up.
func (d *Dir) Close() error { return d.file.Close() }
