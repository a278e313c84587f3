//go:build wasip1

// Command files does to files what its arguments say, one after another, and
// tells what happened. Tests build it as a WASI command and let it attack.
package main

import (
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

func main() {
	failed := false
	for _, arg := range os.Args[1:] {
		verb, rest, _ := strings.Cut(arg, "=")
		a := append(strings.SplitN(rest, "|", 2), "")
		out, err := do(verb, a[0], a[1])
		if err != nil {
			failed = true
			out = "error: " + err.Error()
		}
		fmt.Printf("%s: %s\n", verb, out)
	}
	if failed {
		os.Exit(3)
	}
}

func do(verb, a, b string) (string, error) {
	switch verb {
	case "read":
		p, err := os.ReadFile(a)
		return string(p), err
	case "write":
		return "", os.WriteFile(a, []byte(b), 0o644)
	case "append":
		f, err := os.OpenFile(a, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return "", err
		}
		if _, err := io.WriteString(f, b); err != nil {
			return "", err
		}
		return "", f.Close()
	case "leave": // writes without closing
		f, err := os.Create(a)
		if err != nil {
			return "", err
		}
		_, err = io.WriteString(f, b)
		return "", err
	case "patch": // one byte in the middle
		f, err := os.OpenFile(a, os.O_RDWR, 0)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte(b), 1); err != nil {
			return "", err
		}
		p := make([]byte, 64)
		n, err := f.ReadAt(p, 0)
		if err == io.EOF {
			err = nil
		}
		return string(p[:n]), err
	case "truncate":
		return "", os.Truncate(a, int64(len(b)))
	case "symlink":
		return "", os.Symlink(a, b)
	case "link":
		return "", os.Link(a, b)
	case "readlink":
		return os.Readlink(a)
	case "rename":
		return "", os.Rename(a, b)
	case "remove":
		return "", os.Remove(a)
	case "mkdir":
		return "", os.Mkdir(a, 0o755)
	case "mkdirall":
		return "", os.MkdirAll(a, 0o755)
	case "removeall":
		return "", os.RemoveAll(a)
	case "stat":
		st, err := os.Stat(a)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%v %d", st.Mode().Type(), st.Size()), nil
	case "lstat":
		st, err := os.Lstat(a)
		if err != nil {
			return "", err
		}
		return st.Mode().Type().String(), nil
	case "list":
		list, err := os.ReadDir(a)
		var names []string
		for _, e := range list {
			names = append(names, e.Name())
		}
		sort.Strings(names)
		return strings.Join(names, " "), err
	case "open": // so many files at once
		var held []*os.File
		for range len(b) {
			f, err := os.Open(a)
			if err != nil {
				return fmt.Sprint(len(held)), err
			}
			held = append(held, f)
		}
		return fmt.Sprint(len(held)), nil
	case "env":
		return strings.Join(os.Environ(), " "), nil
	case "big": // a file that grows without end
		f, err := os.Create(a)
		if err != nil {
			return "", err
		}
		p := make([]byte, 1<<20)
		for range 1 << 10 {
			if _, err := f.Write(p); err != nil {
				return "", err
			}
		}
		return "", f.Close()
	case "hole":
		f, err := os.Create(a)
		if err != nil {
			return "", err
		}
		_, err = f.WriteAt([]byte("x"), 1<<40)
		return "", err
	case "flood":
		p := []byte(strings.Repeat("x", 4096))
		for {
			if _, err := os.Stdout.Write(p); err != nil {
				return "", err
			}
		}
	case "spin":
		for {
		}
	case "exit":
		os.Exit(len(b))
	}
	return "", fmt.Errorf("%s is unknown", verb)
}
