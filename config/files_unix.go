//go:build unix

package config

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openFlags: a FIFO put in place of a file does not make the caller wait.
const openFlags = syscall.O_NONBLOCK

// oursAlone refuses what belongs to somebody else or can be written by others.
func oursAlone(fi fs.FileInfo) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("its owner cannot be told")
	case int(st.Uid) != os.Geteuid():
		return errors.New("it belongs to another user")
	case fi.Mode().Perm()&0o022 != 0:
		return errors.New("others can write there; chmod go-w it, after a look at what is in it")
	}
	return nil
}

// notOthers refuses a file that another user owns or everybody can write. The
// group may write it: on many systems every user has a group of their own.
func notOthers(fi fs.FileInfo) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("its owner cannot be told")
	case int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return errors.New("it belongs to another user")
	case fi.Mode().Perm()&0o002 != 0:
		return errors.New("everybody can write it; chmod o-w it, after a look at what is in it")
	}
	return nil
}
