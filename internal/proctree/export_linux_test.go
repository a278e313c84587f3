//go:build amd64 || arm64

package proctree

import "errors"

// ForbidBox lets h find a system that refuses namespaces.
func ForbidBox(h *Host) { h.impl.(*linuxHost).noBox = errors.New("refused for a test") }

// The race detector lets each program sleep for a second at its end.
func init() { helperEnv = append(helperEnv, "GORACE=atexit_sleep_ms=0") }
