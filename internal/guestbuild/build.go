// Package guestbuild turns the Go source of a guest into a module that carries
// its manifest: it compiles, asks the module to describe itself in a sandbox
// without any capability, and puts the answer into the module.
//
// Built twice from equal sources with the toolchain that [Toolchain] names, the
// bytes are equal, wherever the sources lie and whoever builds them; that is
// what lets anybody check the .wasm files that we commit. With another
// toolchain the module works the same, but its bytes differ.
//
// The compiler runs natively and unconfined: building a stranger's source is
// as safe as `go build` on it, not as safe as running the module.
package guestbuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// maxReason bounds how much of the compiler's output an error repeats.
const maxReason = 8 << 10

// Options say what to build, and lend the two steps that need packages above
// this one.
type Options struct {
	Dir string // the main package of the guest
	Out string // the file to write; replaced as a whole or not at all

	// Describe runs a module's wt_describe without any capability.
	Describe func(ctx context.Context, wasm []byte) ([]byte, error)
	// Embed checks a manifest and returns wasm with it.
	Embed func(wasm, manifest []byte) ([]byte, error)

	// AnyToolchain builds with whatever go command is there, if it is not the
	// pinned one and that cannot be fetched. The report tells.
	AnyToolchain bool
}

// Report says what was built.
type Report struct {
	Bytes        int
	Manifest     []byte
	Toolchain    string // the release that compiled it
	Reproducible bool   // it is the pinned one
}

// Build builds one guest. It writes nothing unless every step succeeded.
func Build(ctx context.Context, o Options) (Report, error) {
	tc, err := FindToolchain(ctx, o.AnyToolchain)
	if err != nil {
		return Report{}, err
	}
	wasm, err := compile(ctx, tc, o.Dir)
	if err != nil {
		return Report{}, err
	}
	about, err := o.Describe(ctx, wasm)
	if err != nil {
		return Report{}, fmt.Errorf("the module does not describe itself: %w", err)
	}
	if wasm, err = o.Embed(wasm, about); err != nil {
		return Report{}, fmt.Errorf("the module's description is not acceptable: %w", err)
	}
	if err := replace(o.Out, wasm); err != nil {
		return Report{}, err
	}
	return Report{Bytes: len(wasm), Manifest: about, Toolchain: tc.Version, Reproducible: tc.Version == Toolchain}, nil
}

// flags are those that decide about the bytes. -trimpath and -buildvcs=false
// keep folders and commits out of them, -buildid= the linker's own mark.
var flags = []string{"-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid="}

func compile(ctx context.Context, tc FoundToolchain, dir string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "wasmtools-build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "guest.wasm")
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags...), "-o", out, ".")...)
	cmd.Dir = dir
	cmd.Env = tc.env
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, &CompileError{Output: reason(said), Err: err}
	}
	return os.ReadFile(out)
}

// CompileError is a failure of the compiler, with what it said.
type CompileError struct {
	Output string
	Err    error
}

func (e *CompileError) Error() string {
	if e.Output == "" {
		return "go build: " + e.Err.Error()
	}
	return "go build failed:\n" + e.Output
}

func (e *CompileError) Unwrap() error { return e.Err }

func reason(said []byte) string {
	said = bytes.TrimSpace(said)
	if len(said) > maxReason {
		said = append(said[:maxReason:maxReason], "\n..."...)
	}
	return strings.ToValidUTF8(string(said), "\ufffd")
}

// replace writes a file so that it holds either what it held before or all of
// data, also if two builds write it at once.
func replace(name string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".wasmtools-build-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
