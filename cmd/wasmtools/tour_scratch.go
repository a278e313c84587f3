package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/workspace"
)

// Bounds on what the tour copies: enough for a look, quick on any tree.
const (
	maxTourFiles    = 2000
	maxTourBytes    = 32 << 20
	maxTourFileSize = 1 << 20
)

// tourSample is what was copied, and the names that the tour uses in it.
type tourSample struct {
	files int
	name  string // a text file to read, with '/'
	own   string // a folder that the tour makes
	link  string // a link that leads out
}

var errEnough = errors.New("enough copied")

// secretText is what stands outside the tree.
const secretText = "the tour must never show this line\n"

// layScratch copies regular files of dir to tree, makes a folder beside it that
// no tool may reach, and a link from the one to the other.
func layScratch(dir, tree, outside string) (tourSample, error) {
	var s tourSample
	if err := os.Mkdir(outside, 0o700); err != nil {
		return s, err
	}
	if err := os.WriteFile(filepath.Join(outside, "secret.txt"), []byte(secretText), 0o600); err != nil {
		return s, err
	}
	if err := os.Mkdir(tree, 0o700); err != nil {
		return s, err
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return s, fmt.Errorf("%s is not a directory; name the tree that the tour shall look at", dir)
	}
	var copied int64
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if p == dir {
				return err
			}
			return nil // unreadable parts are left out
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == "." {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", ".hg", ".svn", "node_modules":
				return filepath.SkipDir
			}
			return os.Mkdir(filepath.Join(tree, rel), 0o700)
		}
		if workspace.IsTemp(d.Name()) {
			return nil // of an unfinished commit; tools do not open it
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxTourFileSize {
			return nil
		}
		if s.files >= maxTourFiles || copied > maxTourBytes {
			return errEnough
		}
		n, err := copyFile(p, filepath.Join(tree, rel))
		if err != nil {
			return nil
		}
		s.files++
		copied += n
		if (s.name == "" || betterSample(rel, s.name)) && isText(filepath.Join(tree, rel)) {
			s.name = filepath.ToSlash(rel)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return s, err
	}
	if s.name == "" {
		s.name = unused(tree, "hello") + ".txt"
		if err := os.WriteFile(filepath.Join(tree, s.name), []byte("the tour found no text to show,\nso it made this file\n"), 0o600); err != nil {
			return s, err
		}
		s.files++
	}
	s.own, s.link = unused(tree, "tour"), unused(tree, "tour-link")
	return s, os.Symlink(outside, filepath.Join(tree, s.link))
}

// unused is name, or name with a number if something of that name is there.
func unused(tree, name string) string {
	for n := 0; ; n++ {
		try := name
		if n > 0 {
			try += strconv.Itoa(n)
		}
		if _, err := os.Lstat(filepath.Join(tree, try)); errors.Is(err, fs.ErrNotExist) {
			return try
		}
	}
}

// isText reports whether a file begins like text.
func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 1024)
	n, _ := io.ReadFull(f, head)
	for n > 0 && !utf8.Valid(head[:n]) && len(head)-n < utf8.UTFMax {
		n-- // a character may be cut at the end
	}
	return n > 0 && utf8.Valid(head[:n]) && bytes.IndexByte(head[:n], 0) < 0
}

// betterSample prefers a README, at the top.
func betterSample(a, than string) bool {
	return strings.HasPrefix(strings.ToLower(a), "readme") && !strings.HasPrefix(strings.ToLower(than), "readme")
}

func copyFile(from, to string) (int64, error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, io.LimitReader(in, maxTourFileSize))
	return n, errors.Join(err, out.Close())
}
