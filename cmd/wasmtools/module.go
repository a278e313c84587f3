package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/secret"
)

// moduleFlags name a module that is used without being installed, and what it
// may do.
type moduleFlags struct {
	module string
	grants []string
}

func (f *moduleFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.module, "module", "", "use the tools of this WebAssembly module too: FILE, or FILE=SIDECAR.toml for a module without a manifest")
	c.Flags().StringArrayVar(&f.grants, "grant", nil, "what the module's tools may do: fs.read=GLOBS, fs.write=GLOBS, net=HOST[:METHODS], env=NAMES, kv, clock or all; TOOL:... for one tool (repeatable)")
}

// load reads the files that the flags name.
func (f *moduleFlags) load() ([]wasmtools.Module, error) {
	if f.module == "" {
		if len(f.grants) > 0 {
			return nil, usageError{fmt.Errorf("--grant is about the module that --module names")}
		}
		return nil, nil
	}
	file, sidecar := f.module, ""
	if _, err := os.Stat(file); err != nil {
		// A name may hold "=" itself.
		if i := strings.LastIndexByte(file, '='); i >= 0 {
			file, sidecar = file[:i], file[i+1:]
		}
	}
	m := wasmtools.Module{
		Name:  strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)),
		Grant: f.grants,
	}
	var err error
	if m.Code, err = readWhole(file, maxModuleFile); err != nil {
		return nil, err
	}
	if sidecar != "" {
		if m.Sidecar, err = readWhole(sidecar, manifest.MaxSidecar); err != nil {
			return nil, err
		}
	}
	return []wasmtools.Module{m}, nil
}

// readWhole reads a file of at most limit bytes.
func readWhole(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, usageError{err}
	}
	defer f.Close()
	p, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(p)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, limit)
	}
	return p, nil
}

// secrets reads a secret when a grant needs it; nothing is made before.
func secrets(stateDir string) func(string) (string, error) {
	return func(name string) (string, error) {
		s, err := secret.Open(filepath.Join(stateDir, "secrets"))
		if err != nil {
			return "", err
		}
		return s.Get(name)
	}
}
