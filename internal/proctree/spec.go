package proctree

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// check finds what no helper should be asked.
func (s *Spec) check() error {
	bad := func(op, path string) error { return &StartError{Op: op, Path: path, Err: syscall.EINVAL} }
	switch {
	case !filepath.IsAbs(s.Path):
		return bad("program", s.Path)
	case len(s.Argv) == 0:
		return bad("arguments", "")
	case !filepath.IsAbs(s.Dir):
		return bad("working directory", s.Dir)
	case s.TTY != nil && (s.Stdin || s.Merge):
		return bad("terminal and pipes", "")
	case s.Limits.Nice < 0 || s.Limits.Nice > 19:
		return bad("nice value", "")
	}
	for _, l := range [][]string{{s.Path, s.Dir}, s.Argv, s.Env} {
		if slices.ContainsFunc(l, func(v string) bool { return strings.IndexByte(v, 0) >= 0 }) {
			return bad("text with a NUL", "")
		}
	}
	return s.checkProfile()
}

func (s *Spec) checkProfile() error {
	p := &s.Profile
	no := func(reason string) error { return &UnavailableError{Profile: p.Name, Reason: reason} }
	switch p.Name {
	case None:
		if len(p.Write)+len(p.Read)+len(p.Protect)+len(p.Hide) > 0 || p.Tmp != "" || p.Network != "" {
			return no("it restricts nothing, so it takes no paths and no network")
		}
		return nil
	case WorkspaceWrite, ReadOnly:
	default:
		return no("there is no such profile")
	}
	if p.Network != NetworkOff && p.Network != NetworkLoopback {
		return no("its network is off or loopback")
	}
	if p.Name == ReadOnly && len(p.Write) > 0 {
		return no("it writes nowhere but in /tmp")
	}
	return nil
}
