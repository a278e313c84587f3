package shell

import "path"

// Reader is an [FS] that can also read a file of configuration. Where there is
// none, a filter that a repository's configuration names goes unseen.
type Reader interface {
	// Read returns a regular file whole. It fails if that is longer than max.
	Read(path string, max int) ([]byte, error)
}

// NoFS answers as if there were no links and no directory could be listed. It
// is for replaying past texts without a machine to look at.
type NoFS struct{}

// Resolve implements [FS]: the path is cleaned as text.
func (NoFS) Resolve(p string) (string, Kind, error) { return path.Clean(p), Regular, nil }

// List implements [FS].
func (NoFS) List(string, int) ([]Entry, bool, error) { return nil, false, errNoFS }
