package main

import (
	"fmt"
	"os"
)

// A file or directory that the command line names and that is not there, or is
// of the wrong kind, is a fault of the command line, in every command.

// openNamed opens a file that the command line names, for reading.
func openNamed(file string) (*os.File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, usageError{err}
	}
	if st, err := f.Stat(); err == nil && st.IsDir() {
		f.Close()
		return nil, usageError{fmt.Errorf("%s is a directory, not a file", file)}
	}
	return f, nil
}

// needDir refuses what is no directory.
func needDir(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return usageError{err}
	}
	if !st.IsDir() {
		return usageError{fmt.Errorf("%s is not a directory", dir)}
	}
	return nil
}
