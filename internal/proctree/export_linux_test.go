//go:build amd64 || arm64

package proctree

import "errors"

// ForbidBox lets h find a system that refuses namespaces to us, and to
// bubblewrap too unless that is wanted.
func ForbidBox(h *Host, bubblewrap bool) {
	l := h.impl.(*linuxHost)
	l.noBox = errors.New("refused for a test")
	if !bubblewrap {
		l.noWrap = errors.New("refused for a test too")
	}
}
