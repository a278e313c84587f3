// Package manifest parses and checks what a module says about itself.
//
// A module carries its description in the custom section [Section], so that it
// can be read before any of its code runs and without an engine. What stands
// there is a claim: the runtime compares it with what the module really
// exports and imports, and grants decide what it may do, whatever it asks for.
//
// Parsing bounds everything that it reads and never panics on any input.
package manifest

import (
	"encoding/json"

	"github.com/wasmtools/wasmtools/tool"
)

// Section is the name of the custom section that holds the manifest as JSON.
const Section = "wasmtools.manifest"

// ABI is the version of the guest ABI that this package describes.
const ABI = 1

// Manifest is a module's description of itself.
type Manifest struct {
	ABI         int    `json:"abi"`
	Name        string `json:"name"`    // of the module; like a tool's name
	Version     string `json:"version"` // semantic version, no "v"
	Description string `json:"description,omitempty"`
	Tools       []Tool `json:"tools"`
	Snapshot    string `json:"snapshot,omitempty"` // SnapshotOff, or "" for a snapshot wherever one can be made
	Limits      Limits `json:"limits,omitzero"`
}

// SnapshotOff asks that every call initialises an instance of its own: for code
// that reads the clock or draws random numbers while it starts and relies on
// what it got.
const SnapshotOff = "off"

// FromSnapshot tells whether calls of a tool may begin at a snapshot.
func (m Manifest) FromSnapshot(t Tool) bool {
	return m.Snapshot != SnapshotOff && t.Snapshot != SnapshotOff
}

// Tool is one tool of a module. Its index in Manifest.Tools is the tool index
// of a request.
type Tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description"`
	Input        json.RawMessage `json:"inputSchema"`
	Output       json.RawMessage `json:"outputSchema,omitempty"`
	Mode         tool.Mode       `json:"mode,omitempty"`
	Effects      tool.Effects    `json:"effects"`
	Visibility   tool.Visibility `json:"visibility,omitempty"`
	Snapshot     string          `json:"snapshot,omitempty"` // of this tool's calls, as in Manifest
	Guidelines   []string        `json:"guidelines,omitempty"`
	Packs        []string        `json:"packs,omitempty"`
	Capabilities Capabilities    `json:"capabilities,omitzero"`
}

// Limits are a module's own bounds; each may only be lower than the runtime's,
// or, for built-in modules, stated higher. Zero means the runtime's default.
type Limits struct {
	MemoryMiB   int `json:"memory_mib,omitempty"`
	TimeMS      int `json:"time_ms,omitempty"`
	OutputKiB   int `json:"output_kib,omitempty"`
	HostCalls   int `json:"host_calls,omitempty"`
	Concurrency int `json:"concurrency,omitempty"`
}

// Definition returns the tool's definition in the terms that all sources share.
func (t Tool) Definition() tool.Definition {
	return tool.Definition{
		Name: t.Name, Title: t.Title, Description: t.Description,
		Input: t.Input, Output: t.Output, Mode: t.Mode, Effects: t.Effects,
		Visibility: t.Visibility, Guidelines: t.Guidelines, Packs: t.Packs,
	}
}
