//go:build !linux && !darwin

package channel

import (
	"errors"
	"net"
)

type caller struct{ pid, uid int }

func callerOf(*net.UnixConn) (caller, error) { return caller{}, errors.ErrUnsupported }

func (caller) alive() bool { return false }

func (caller) release() {}

func listenerOf(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }
