package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// readIn reads a file of an opened folder: a regular file, no link, of at most
// most bytes.
func readIn(root *os.Root, name string, most int64) ([]byte, error) {
	named, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, errors.New("it is a link or no regular file")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	return readAll(f, named, most)
}

// readAll reads and closes f, which must be named and a regular file.
func readAll(f *os.File, named fs.FileInfo, most int64) ([]byte, error) {
	defer f.Close()
	opened, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !opened.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case named != nil && !os.SameFile(named, opened):
		return nil, errors.New("it was exchanged while it was opened")
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return data, err
}

// readUser reads the user's own file, which may be a link: many people keep
// their configuration elsewhere.
func readUser(path string) ([]byte, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() { // before opening: opening a FIFO would wait
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if err := notOthers(fi); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	data, err := readAll(f, nil, MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// readWorkspace reads a workspace's own file. It may be a stranger's, so it is
// no link and nothing of what cannot be read is shown.
func readWorkspace(dir string) ([]byte, error) {
	if fi, err := os.Stat(dir); err == nil && !fi.IsDir() {
		return nil, fs.ErrNotExist // whoever opens the workspace says what is wrong with it
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := readIn(root, FileName, MaxBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, FileName), err)
	}
	return data, err
}
