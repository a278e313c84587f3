//go:build amd64 || arm64

package proctree

import "github.com/wasmtools/wasmtools/internal/proctree/wire"

// setup is the part of s that a reaper is bound to.
func (s *Spec) setup() wire.Setup {
	p, l := s.Profile, s.Limits
	return wire.Setup{
		Profile: p.Name, Write: p.Write, Read: p.Read, Protect: p.Protect, Hide: p.Hide, Tmp: p.Tmp,
		Loopback: p.Network == NetworkLoopback, Weak: p.Weak,
		OpenFiles: l.OpenFiles, FileSize: l.FileSize, Processes: l.Processes, Nice: uint8(l.Nice),
	}
}
