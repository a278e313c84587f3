package shell

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many links Resolve follows for one path, as Linux does.
const maxLinks = 40

// OS answers from the file system of this machine. It only looks: nothing is
// opened but directories that are listed and configuration of git's.
type OS struct{}

// Resolve implements [FS].
func (OS) Resolve(p string) (string, Kind, error) {
	if !strings.HasPrefix(p, "/") {
		return "", Missing, errors.New("the path is not absolute")
	}
	rest := strings.Split(p, "/")
	real, links := "", 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			real = parent(real)
			continue
		}
		next := real + "/" + part
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			// What does not exist has no links: the rest is text.
			out := path.Clean(next + "/" + strings.Join(rest, "/"))
			return out, Missing, nil
		case err != nil:
			return "", Missing, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links++; links > maxLinks {
			return "", Missing, errors.New("too many links")
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", Missing, err
		}
		if strings.HasPrefix(target, "/") {
			real = ""
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	if real == "" {
		return "/", Directory, nil
	}
	info, err := os.Lstat(real)
	if err != nil {
		return "", Missing, err
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return real, Directory, nil
	case !mode.IsRegular():
		return real, Other, nil
	case mode&0o111 != 0:
		return real, Executable, nil
	}
	return real, Regular, nil
}

func parent(p string) string {
	if i := strings.LastIndexByte(p, '/'); i > 0 {
		return p[:i]
	}
	return ""
}

// Read implements [Reader].
func (OS) Read(p string, max int) ([]byte, error) {
	info, err := os.Lstat(p)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a FIFO would block
		return nil, errors.New("no regular file")
	}
	f, err := os.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err == nil && len(data) > max {
		err = errors.New("the file is too long")
	}
	return data, err
}

// List implements [FS].
func (OS) List(dir string, max int) ([]Entry, bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	list, err := f.ReadDir(max + 1)
	if err != nil && len(list) == 0 && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	more := len(list) > max
	if more {
		list = list[:max]
	}
	out := make([]Entry, len(list))
	for i, e := range list {
		out[i] = Entry{Name: e.Name(), Link: e.Type()&fs.ModeSymlink != 0, Dir: e.IsDir()}
	}
	return out, more, nil
}

// Path is the fixed PATH: the folders of this process's own, without those that
// depend on where a command starts.
func Path() []string {
	var out []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) {
			out = append(out, dir)
		}
	}
	return out
}
