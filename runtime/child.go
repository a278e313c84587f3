package runtime

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"time"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
)

// A stranger's module is compiled by a process of its own where
// [Options.CompileChild] says how to start one: the engine looks at no context
// inside a function, and a few bytes can ask it for much memory. The child gets
// the module on standard input and nothing else, not even an environment. It
// leaves native code in the scratch folder that the parent made for it, and
// writes the form to standard output.

// childSpare is how much longer than a compilation the child may live, to start
// and to write.
const childSpare = 5 * time.Second

// childOrder is what a child is told.
type childOrder struct {
	Kind   manifest.ABIKind
	Code   []byte // without custom sections
	Digest tool.Digest
	Limits Limits
	Freeze bool
	Seed   []byte // of what the module draws at random while it starts
	Dir    string // where native code goes
}

// childReport is what it answers: a form, or why there is none.
type childReport struct {
	Form             []byte
	Code             tool.Code
	Text, Next, Path string
}

// Exit codes of a child that has no answer.
const (
	childFailed = 2
	childLate   = 3
)

// CompileMain is the whole program of a compiling child; it returns the exit
// code. Call it first thing in main when the process was started by the
// arguments of [Options.CompileChild].
func CompileMain() int {
	// Until the order is read the child has its parent's word for nothing.
	limitSelf(maxCompileMemory)
	hurry := time.AfterFunc(childSpare, func() { os.Exit(childLate) })
	var order childOrder
	if err := gob.NewDecoder(io.LimitReader(os.Stdin, maxModule+1<<20)).Decode(&order); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return childFailed
	}
	hurry.Reset(order.Limits.Compile + childSpare) // also if the parent is gone
	limitSelf(uint64(order.Limits.CompileMemory))
	debug.SetMemoryLimit(order.Limits.CompileMemory / 4 * 3) // the collector works harder before it is too late
	form, err := order.obey()
	report := childReport{Form: form}
	if err != nil {
		e := tool.AsError(err)
		report = childReport{Code: e.Code, Text: e.Text, Next: e.Next, Path: e.Path}
	}
	if err := gob.NewEncoder(os.Stdout).Encode(report); err != nil {
		return childFailed
	}
	return 0
}

func (o childOrder) obey() ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.Limits.Compile, compileTimeout(o.Limits.Compile))
	defer cancel()
	if o.Kind != manifest.Native {
		f, err := shapeForeign(ctx, o.Kind, o.Code)
		if err != nil {
			return nil, err
		}
		if err := nativeForeign(ctx, f, o.Dir); err != nil {
			return nil, err
		}
		return f.encode()
	}
	e, err := New(ctx, Options{})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	e.seed = o.Seed
	f, err := e.shape(ctx, &module{engine: e, digest: o.Digest, limits: o.Limits, code: o.Code}, o.Freeze)
	if err != nil {
		return nil, err
	}
	form, err := f.encode()
	if err != nil {
		return nil, err
	}
	p, err := e.build(ctx, f, o.Dir)
	if err != nil {
		return nil, err
	}
	p.close()
	return form, nil
}

// compileInChild has a child shape and compile a module, and returns the form.
// What the engine made of it is in dir.
func (e *Engine) compileInChild(ctx context.Context, o childOrder, dir string) (*form, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Limits.Compile+childSpare)
	defer cancel()
	o.Seed, o.Dir = e.seed, dir
	var order, said, complaint bytes.Buffer
	if err := gob.NewEncoder(&order).Encode(o); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, e.child[0], e.child[1:]...)
	cmd.Env = []string{"HOME=/", "TMPDIR=" + dir}
	cmd.Dir = dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &order, &capped{&said, 2*maxModule + int(o.Limits.MemoryBytes)}, &capped{&complaint, 4 << 10}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, tool.Errorf(tool.Internal, "the process that compiles modules cannot be started").Because(err)
	}
	if err := cmd.Wait(); err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
			return nil, cause
		}
		if ctx.Err() != nil || cmd.ProcessState.ExitCode() == childLate {
			return nil, compileTimeout(o.Limits.Compile)
		}
		return nil, tool.Errorf(tool.Quota, "compiling the module ended a process of its own: it takes more than %d MiB, or fails", o.Limits.CompileMemory>>20).
			Because(fmt.Errorf("%w\n%s", err, complaint.Bytes()))
	}
	var r childReport
	if err := gob.NewDecoder(&said).Decode(&r); err != nil {
		return nil, tool.Errorf(tool.Internal, "the compiling process gave no answer").Because(err)
	}
	if r.Code != "" {
		return nil, &tool.Error{Code: r.Code, Text: r.Text, Next: r.Next, Path: r.Path}
	}
	return decodeForm(r.Form)
}

func compileTimeout(limit time.Duration) *tool.Error {
	return tool.Errorf(tool.Quota, "compiling the module took longer than %s", limit)
}

// capped lets no more than so many bytes into a buffer. It has no other method:
// a copy would use them and pass the bound by.
type capped struct {
	to   *bytes.Buffer
	left int
}

func (c *capped) Write(p []byte) (int, error) {
	if len(p) > c.left {
		return 0, io.ErrShortWrite
	}
	c.left -= len(p)
	return c.to.Write(p)
}
