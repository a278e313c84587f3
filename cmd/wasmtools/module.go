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
	file, _ := splitModule(f.module)
	m := wasmtools.Module{
		Name:  strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)),
		Grant: f.grants,
	}
	var err error
	if m.Code, m.Sidecar, err = readModule(f.module); err != nil {
		return nil, err
	}
	return []wasmtools.Module{m}, nil
}

// splitModule takes FILE=SIDECAR apart.
func splitModule(ref string) (file, sidecar string) {
	if _, err := os.Stat(ref); err != nil {
		// A name may hold "=" itself.
		if i := strings.LastIndexByte(ref, '='); i >= 0 {
			return ref[:i], ref[i+1:]
		}
	}
	return ref, ""
}

// readModule reads a module, and its sidecar if one is named.
func readModule(ref string) (code, sidecar []byte, err error) {
	file, side := splitModule(ref)
	if code, err = readWhole(file, maxModuleFile); err != nil {
		return nil, nil, err
	}
	if side != "" {
		sidecar, err = readWhole(side, manifest.MaxSidecar)
	}
	return code, sidecar, err
}

// readWhole reads a file that the command line names, of at most limit bytes.
func readWhole(file string, limit int64) ([]byte, error) {
	f, err := openNamed(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(p)) > limit {
		return nil, usageError{fmt.Errorf("%s is larger than %d bytes", file, limit)}
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
