package main

import (
	"io/fs"
	"path"
	"strings"

	"github.com/wasmtools/wasmtools/approval/shell"
)

// exampleFS is for the examples of rules, which should be judged the same
// everywhere: every program is installed, nothing else is there, and there are
// no links.
type exampleFS struct{ path []string }

// Resolve implements [shell.FS].
func (e exampleFS) Resolve(name string) (string, shell.Kind, error) {
	name = path.Clean(name)
	switch {
	case !strings.HasPrefix(name, "/"):
		return "", shell.Missing, fs.ErrInvalid
	case path.Dir(name) == e.path[0]:
		return name, shell.Executable, nil
	case name == exampleRoot || path.Ext(name) == "":
		return name, shell.Directory, nil
	}
	return name, shell.Regular, nil
}

// List implements [shell.FS].
func (exampleFS) List(string, int) ([]shell.Entry, bool, error) { return nil, false, nil }
