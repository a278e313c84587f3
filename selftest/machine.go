package selftest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/wasmtools/wasmtools"
)

// facts says what the machine and the file system are like.
func (l lab) facts(ctx context.Context, rt *wasmtools.Runtime) []Fact {
	list := []Fact{{"system", strings.TrimSpace(runtime.GOOS + "/" + runtime.GOARCH + " " + kernel())}}
	if fs := fileSystem(l.tree); fs != "" {
		list = append(list, Fact{"file system", fs})
	}
	for _, h := range rt.Health() {
		list = append(list, Fact{h.What, strings.TrimPrefix(h.Detail, l.tree+", ")})
	}
	for _, h := range rt.Sandboxes(ctx) {
		list = append(list, Fact{h.What, h.Detail})
	}
	return append(list, l.names()...)
}

// names finds out how the file system takes names.
func (l lab) names() []Fact {
	dir := filepath.Join(l.base, "names")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return []Fact{{"names", err.Error()}}
	}
	var list []Fact
	say := func(what string, err error, yes, no string) {
		if err == nil {
			no = yes
		}
		list = append(list, Fact{what, no})
	}
	make := func(name string) error { return os.WriteFile(filepath.Join(dir, name), nil, 0o600) }
	there := func(made, asked string) error {
		if err := make(made); err != nil {
			return err
		}
		_, err := os.Lstat(filepath.Join(dir, asked))
		return err
	}
	say("letters", there("Aa", "aA"), "names differ by more than upper and lower case", "upper and lower case are different names")
	say("accents", there("\u00e9", "e\u0301"), "one name, however its accents are encoded", "names are bytes")
	say("links", os.Symlink("Aa", filepath.Join(dir, "link")), "can be made", "cannot be made")
	say("hard links", os.Link(filepath.Join(dir, "Aa"), filepath.Join(dir, "hard")), "can be made", "cannot be made")
	say("modes", modes(filepath.Join(dir, "Aa")), "are kept", "are not kept")
	return list
}

// modes reports whether the permissions of a file can be set.
func modes(path string) error {
	if err := os.Chmod(path, 0o741); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm() != 0o741 {
		err = errors.New("another mode")
	}
	return err
}
