//go:build !unix

package runtime

import (
	"os"
	"path/filepath"
)

// privateDir makes a folder below the user's profile. Who can write to it is
// decided by the rights that it inherits there; they are not checked.
func privateDir(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return path, os.MkdirAll(path, 0o700)
}

// openPrivate opens a file that is no link.
func openPrivate(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errEntry
	}
	return os.Open(path)
}
