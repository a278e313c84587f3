package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/wasmtools/wasmtools/approval/shell"
)

// diskFS answers the shell judge from the disk.
type diskFS struct{}

// maxLinks is how many links Linux follows in one path.
const maxLinks = 40

// Resolve implements [shell.FS].
func (diskFS) Resolve(name string) (string, shell.Kind, error) {
	if !strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) {
		return "", shell.Missing, fs.ErrInvalid
	}
	at, kind := "/", shell.Directory
	rest := strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at, kind = path.Dir(at), shell.Directory
			continue
		}
		next := path.Join(at, part)
		fi, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) || err != nil && kind != shell.Directory:
			return path.Join(append([]string{next}, rest...)...), shell.Missing, nil
		case err != nil:
			return "", shell.Missing, err
		case fi.Mode()&fs.ModeSymlink == 0:
			at, kind = next, kindOf(fi)
			continue
		}
		if links++; links > maxLinks {
			return "", shell.Missing, errors.New("too many links")
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", shell.Missing, err
		}
		if strings.HasPrefix(target, "/") {
			at = "/"
		}
		kind = shell.Directory
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, kind, nil
}

func kindOf(fi fs.FileInfo) shell.Kind {
	switch m := fi.Mode(); {
	case m.IsDir():
		return shell.Directory
	case m.IsRegular() && m.Perm()&0o111 != 0:
		return shell.Executable
	case m.IsRegular():
		return shell.Regular
	}
	return shell.Other
}

// List implements [shell.FS].
func (diskFS) List(dir string, most int) ([]shell.Entry, bool, error) {
	fi, err := os.Lstat(dir) // opening a FIFO would wait
	if err != nil {
		return nil, false, err
	}
	if !fi.IsDir() {
		return nil, false, errors.New("it is no directory")
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	found, err := d.ReadDir(most + 1)
	if err != nil && err != io.EOF {
		return nil, false, err
	}
	more := len(found) > most
	var out []shell.Entry
	for _, e := range found[:min(len(found), most)] {
		out = append(out, shell.Entry{Name: e.Name(), Link: e.Type()&fs.ModeSymlink != 0, Dir: e.IsDir()})
	}
	return out, more, nil
}

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

// programPath is the fixed PATH: the folders of this process's own, without
// those that depend on where a command starts.
func programPath() []string {
	var out []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) {
			out = append(out, dir)
		}
	}
	return out
}
