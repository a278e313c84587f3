// Package hostfuncs is the boundary: everything that a guest may ask of the
// host, in plain Go over the call's overlay, one file per capability, testable
// without a module. The runtime copies bytes in and out of guest memory and
// calls these functions; nothing else gives a guest power.
package hostfuncs

import (
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// Grant is what a person gave one tool of one module. The zero Grant gives
// nothing; a capability that the manifest asks for and the grant lacks is
// refused with grant_missing.
type Grant = manifest.Capabilities

// Call is everything that one call of a guest may touch. Every host function
// takes it as its receiver or first parameter. A Call belongs to one guest
// call; host functions of one call run one after another.
type Call struct {
	Invocation tool.Invocation
	Tool       int                // index in the module's manifest
	Grant      Grant              // of this tool
	Files      *workspace.Overlay // nil: no workspace; every file function answers grant_missing
	Sink       tool.Sink
	Limits     Limits
}

// Limits bound what one call may use. Zero fields mean the defaults of
// [DefaultLimits].
type Limits struct {
	MemoryBytes int64 // linear memory
	OutputBytes int64 // the response, JSON
	HostCalls   int64
	NoteBytes   int64 // log, emit and progress together
	NotesPerSec int
}
