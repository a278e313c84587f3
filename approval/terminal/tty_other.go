//go:build !linux && !darwin

package terminal

import (
	"errors"
	"time"
)

var (
	errOver        = errors.New("nothing waits for an answer")
	errInterrupted = errors.New("something changed")
)

// tty cannot be had on this system.
type tty struct{}

func openTTY() (*tty, error) { return nil, errors.ErrUnsupported }

func (*tty) close() error                                    { return nil }
func (*tty) foreground() bool                                { return false }
func (*tty) size() (rows, columns int)                       { return 24, 80 }
func (*tty) print(string)                                    {}
func (*tty) flush()                                          {}
func (*tty) release()                                        {}
func (*tty) read(<-chan struct{}, time.Time) (string, error) { return "", errors.ErrUnsupported }
