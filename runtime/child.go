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
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// A stranger's module is compiled by a process of its own where
// [Options.CompileChild] says how to start one: the engine looks at no context
// inside a function, and a few bytes can ask it for much memory. The child gets
// the module on standard input and nothing else, not even an environment. It
// leaves native code in the scratch folder that the parent made for it, and
// writes the form to standard output.

const (
	// childMemory bounds a child's data, in bytes. Compiling the largest module
	// that was tried, 32 MiB of Go, takes 900 MiB.
	childMemory = 2 << 30

	// childSpare is how much longer than a compilation the child may live, to
	// start and to write.
	childSpare = 5 * time.Second
)

// childOrder is what a child is told.
type childOrder struct {
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

// CompileMain is the whole program of a compiling child; it returns the exit
// code. Call it first thing in main when the process was started by the
// arguments of [Options.CompileChild].
func CompileMain() int {
	limitSelf(childMemory)
	var order childOrder
	if err := gob.NewDecoder(io.LimitReader(os.Stdin, maxModule+1<<20)).Decode(&order); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 2
	}
	time.AfterFunc(order.Limits.Compile+childSpare, func() { os.Exit(3) }) // also if the parent is gone
	form, err := order.obey()
	report := childReport{Form: form}
	if err != nil {
		e := tool.AsError(err)
		report = childReport{Code: e.Code, Text: e.Text, Next: e.Next, Path: e.Path}
	}
	if err := gob.NewEncoder(os.Stdout).Encode(report); err != nil {
		return 2
	}
	return 0
}

func (o childOrder) obey() ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.Limits.Compile, compileTimeout(o.Limits.Compile))
	defer cancel()
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

// compileInChild has a child shape and compile m, and returns the form. What the
// engine made of it is in dir.
func (e *Engine) compileInChild(ctx context.Context, m *module, freeze bool, dir string) (*form, error) {
	ctx, cancel := context.WithTimeout(ctx, m.limits.Compile+childSpare)
	defer cancel()
	var order, said, complaint bytes.Buffer
	err := gob.NewEncoder(&order).Encode(childOrder{
		Code: m.given(), Digest: m.digest, Limits: m.limits, Freeze: freeze, Seed: e.seed, Dir: dir})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, e.child[0], e.child[1:]...)
	cmd.Env = []string{"HOME=/", "TMPDIR=" + dir}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &order, &capped{&said, 2*maxModule + int(m.limits.MemoryBytes)}, &capped{&complaint, 4 << 10}
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
			return nil, cause
		}
		if ctx.Err() != nil {
			return nil, compileTimeout(m.limits.Compile)
		}
		return nil, tool.Errorf(tool.Quota, "compiling the module ended a process of its own: it takes more than %d MiB, or fails", childMemory>>20).
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
