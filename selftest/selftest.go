// Package selftest attacks the tools on the machine and the file system where
// they are to work, and says what holds there. What a kernel, a container or a
// file system lacks is otherwise found out by whoever attacks it.
//
// Each attack is tried twice, each time in a folder of its own: first with plain
// calls of the system, as a program without a guard would make them (the
// control), then through the product. An attack that came through in the control
// and not through the product was stopped by the product; one that did not even
// come through in the control proves nothing here, and the report says so.
//
// The edge: it attacks with what it knows. It is no proof that nothing else
// comes through.
package selftest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/tool"
)

// Options say where to attack and for how long.
type Options struct {
	// Dir is on the file system to be tried; a scratch folder is made in it and
	// removed again.
	Dir string

	// Race is how long each attack that needs luck is repeated; 0 means one
	// second.
	Race time.Duration

	// CompileChild is [wasmtools.Options.CompileChild].
	CompileChild []string

	// Progress is told of each attack before it begins; nil is not told.
	Progress func(name string)
}

// Outcome is how an attack ended.
type Outcome string

const (
	Held    Outcome = "held"    // it did not come through
	Broken  Outcome = "broken"  // it did
	Untried Outcome = "untried" // it cannot be made here
)

// Result is one attack.
type Result struct {
	Group   string  `json:"group"`
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`

	// Control says whether the attack came through without the product: "yes",
	// "no", or "" if there is no control for it.
	Control string `json:"control,omitempty"`

	Detail string `json:"detail,omitempty"`
}

// Fact is something about the machine that the boundary hangs on.
type Fact struct {
	What   string `json:"what"`
	Detail string `json:"detail"`
}

// Report is what was found out.
type Report struct {
	Facts   []Fact   `json:"facts"`
	Results []Result `json:"results"`
}

// Broken counts the attacks that came through.
func (r Report) Broken() int {
	n := 0
	for _, x := range r.Results {
		if x.Outcome == Broken {
			n++
		}
	}
	return n
}

// Run makes every attack. An error means that they could not be made; that one
// came through is told by the report. When ctx ends, the attacks that are left
// are untried.
func Run(ctx context.Context, o Options) (r Report, err error) {
	if o.Race <= 0 {
		o.Race = time.Second
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	base, err := os.MkdirTemp(o.Dir, "wasmtools-selftest-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, removeAll(base)) }()
	if base, err = filepath.EvalSymlinks(base); err != nil {
		return r, err
	}
	if base, err = filepath.Abs(base); err != nil {
		return r, err
	}
	own, err := os.MkdirTemp("", "wasmtools-selftest-state-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, removeAll(own)) }()

	l := lab{base: base, tree: filepath.Join(base, "tree"), state: filepath.Join(own, "state"), race: o.Race, mark: "SECRET" + rand.Text()}
	for _, dir := range []string{l.tree, l.state, filepath.Join(own, "cache")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return r, err
		}
	}
	unlisten, err := l.listen()
	if err != nil {
		return r, err
	}
	defer unlisten()
	guest, err := hostileGuest()
	if err != nil {
		return r, err
	}
	rt, err := wasmtools.Open(ctx, wasmtools.Options{
		Workspaces:   []wasmtools.Workspace{{Dir: l.tree}},
		Approvers:    []approval.Approver{approval.Always(approval.Allow)}, // the boundary has to hold whatever is agreed to
		StateDir:     l.state,
		CacheDir:     filepath.Join(own, "cache"),
		Modules:      []wasmtools.Module{{Code: guest}},
		CompileChild: o.CompileChild,
		Terminal:     commands(),
	})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	turn, err := rt.Begin(ctx, wasmtools.Facts{})
	if err != nil {
		return r, err
	}
	through := func(ctx context.Context, name string, args []byte) tool.Result {
		return turn.Call(ctx, []wasmtools.Request{{Tool: name, Arguments: args}})[0].Result
	}
	r.Facts = l.facts(ctx, rt)
	for i, a := range attacks() {
		if ctx.Err() != nil {
			r.Results = append(r.Results, Result{Group: a.group, Name: a.name, Outcome: Untried, Detail: "interrupted"})
			continue
		}
		o.Progress(a.name)
		res, err := l.try(ctx, through, i, a)
		if err != nil {
			return r, fmt.Errorf("%s: %w", a.name, err)
		}
		r.Results = append(r.Results, res)
	}
	return r, nil
}

// lab is where attacks are made.
type lab struct {
	base, tree, state string
	race              time.Duration
	mark              string // what stands in every file that no tool may show
	port              int    // of a server that no command may reach
}

// scene is the place of one attempt: a folder in the workspace, and one outside.
type scene struct {
	lab
	ctx     context.Context
	tools   tools           // nil in a control
	rel     string          // the folder's path in the workspace
	inside  string          // the same, on the disk
	outside string          // holds secret.txt and folder/secret.txt
	answers strings.Builder // everything that was answered
}

// tools makes one call of a tool.
type tools func(ctx context.Context, name string, args []byte) tool.Result

// attack is one thing that must not come through.
type attack struct {
	group, name string

	// lay makes what the attack needs. An error means that it cannot be made here.
	lay func(*scene) error

	// plain makes the attack with calls of the system and reports whether it came
	// through; nil if there is no such thing.
	plain func(*scene) bool

	// guarded makes it through the product and says what came through; "" is
	// nothing. That the folder outside is unchanged and its secret is in no answer
	// is looked at for all attacks.
	guarded func(*scene) string
}

// errNotHere wraps why an attack cannot be made on this machine.
var errNotHere = errors.New("cannot be made here")

func notHere(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errNotHere, err)
}

// try makes the attack without and with the product.
func (l lab) try(ctx context.Context, t tools, i int, a attack) (Result, error) {
	r := Result{Group: a.group, Name: a.name, Outcome: Held}
	if a.plain != nil {
		s, err := l.scene(ctx, fmt.Sprintf("control-%02d", i))
		if err != nil {
			return r, err
		}
		err = a.lay(s)
		switch {
		case errors.Is(err, errNotHere):
			r.Outcome, r.Detail = Untried, err.Error()
			return r, nil
		case err != nil:
			return r, err
		}
		r.Control = "no"
		if a.plain(s) {
			r.Control = "yes"
		}
		if err := s.clear(); err != nil {
			return r, err
		}
	}
	s, err := l.scene(ctx, fmt.Sprintf("attack-%02d", i))
	if err != nil {
		return r, err
	}
	s.tools = t
	if err := a.lay(s); errors.Is(err, errNotHere) {
		r.Outcome, r.Detail = Untried, err.Error()
		return r, nil
	} else if err != nil {
		return r, err
	}
	before, err := picture(s.outside)
	if err != nil {
		return r, err
	}
	r.Detail = a.guarded(s)
	after, err := picture(s.outside)
	switch {
	case err != nil:
		r.Detail = "the folder outside cannot be read any more: " + err.Error()
	case before != after:
		r.Detail = join(r.Detail, "the folder outside was changed")
	}
	if strings.Contains(s.answers.String(), l.mark) {
		r.Detail = join(r.Detail, "an answer shows the secret")
	}
	if r.Detail != "" {
		r.Outcome = Broken
	}
	return r, s.clear()
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// scene lays the two folders of an attempt.
func (l lab) scene(ctx context.Context, name string) (*scene, error) {
	s := &scene{lab: l, ctx: ctx, rel: name, inside: filepath.Join(l.tree, name), outside: filepath.Join(l.base, "outside-"+name)}
	if err := errors.Join(os.Mkdir(s.inside, 0o700), os.MkdirAll(filepath.Join(s.outside, "folder"), 0o700)); err != nil {
		return nil, err
	}
	secret := []byte(l.mark + "\n")
	return s, errors.Join(os.WriteFile(filepath.Join(s.outside, "secret.txt"), secret, 0o600),
		os.WriteFile(filepath.Join(s.outside, "folder", "secret.txt"), secret, 0o600))
}

func (s *scene) clear() error { return errors.Join(removeAll(s.inside), removeAll(s.outside)) }

// at is a path in the attempt's folder on the disk, out one outside.
func (s *scene) at(name string) string  { return filepath.Join(s.inside, filepath.FromSlash(name)) }
func (s *scene) out(name string) string { return filepath.Join(s.outside, filepath.FromSlash(name)) }

// arguments of a call; "{}" in a text stands for the attempt's folder.
type arguments map[string]any

// call makes one call of a tool. Every answer is kept and looked at.
func (s *scene) call(name string, a arguments) tool.Result {
	r := s.send(name, a)
	s.answers.WriteString(r.PlainText())
	s.answers.Write(r.Structured)
	return r
}

func (s *scene) send(name string, a arguments) tool.Result {
	args, err := json.Marshal(s.expand(map[string]any(a)))
	if err != nil {
		return tool.ErrorResult(err)
	}
	return s.tools(s.ctx, name, args)
}

func (s *scene) expand(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "{}", s.rel)
	case arguments:
		return s.expand(map[string]any(v))
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = s.expand(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = s.expand(x)
		}
		return out
	}
	return v
}

// refused makes calls that must all be refused, and says which were not.
func refused(calls ...request) func(*scene) string {
	return func(s *scene) string {
		fault := ""
		for _, c := range calls {
			if r := s.call(c.tool, c.args); !r.IsError {
				fault = join(fault, c.tool+" was not refused")
			}
		}
		return fault
	}
}

// request is one call of a tool.
type request struct {
	tool string
	args arguments
}

// picture is names, kinds, modes and bytes of a tree.
func picture(dir string) (string, error) {
	var b bytes.Buffer
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%q %s", p, info.Mode())
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", content)
		}
		b.WriteByte('\n')
		return nil
	})
	return b.String(), err
}

// removeAll removes a tree whose folders an attack may have locked.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
