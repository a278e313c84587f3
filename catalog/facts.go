package catalog

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/wasmtools/wasmtools/tool"
)

// Facts are what a turn is frozen with. The zero value leaves every tool in that
// works and needs no agent of its own.
type Facts struct {
	Provider      string  `json:"provider,omitempty"`
	Model         string  `json:"model,omitempty"`
	ContextWindow float64 `json:"context_window,omitempty"` // tokens; 0: not known, so nothing is deferred
	SeesImages    bool    `json:"sees_images,omitempty"`    // the model itself does
	SeesVideo     bool    `json:"sees_video,omitempty"`

	Agent    *Agent          `json:"agent,omitempty"`
	Features map[string]bool `json:"features,omitempty"` // "delegation", "web_search", or a tool's name; absent is on

	ComputerUse bool `json:"computer_use,omitempty"` // the runtime of the desktop_ tools is up

	// Workspace names one that was opened; "" means the first. Profile is the
	// sandbox profile that the turn's terminal is bound to; "" means none.
	Workspace       string `json:"workspace,omitempty"`
	TerminalProfile string `json:"terminal_profile,omitempty"`

	Request string   `json:"request,omitempty"` // what the turn is about, in plain words
	Context []string `json:"context,omitempty"` // earlier requests, oldest first
	Pack    string   `json:"pack,omitempty"`    // preferred when tools are ranked

	Withheld         []string `json:"withheld,omitempty"`    // tools that the host keeps back
	TrustedMCP       []string `json:"trusted_mcp,omitempty"` // servers
	AllToolsDisabled bool     `json:"all_tools_disabled,omitempty"`

	// Extensions are tools of this turn only, at most [MaxExtensions].
	Extensions []tool.Tool `json:"-"`

	// Exposure says how the list is bounded.
	Exposure Exposure `json:"-"`
}

// Agent is who the turn's tools are for.
type Agent struct {
	Selector Selector `json:"selector"`
	// MCPServers, if not nil, lists the only servers whose tools are left.
	MCPServers *[]string `json:"mcp_servers,omitempty"`
	Profile    *Profile  `json:"profile,omitempty"`
}

// Selector is what an agent's definition says about tools, by names.
type Selector struct {
	Tools      *[]string `json:"tools,omitempty"` // nil: all; empty: none
	Disallowed []string  `json:"disallowed,omitempty"`
}

// Profile is the part that an agent plays.
type Profile struct {
	Role      string `json:"role,omitempty"`    // main, worker, verifier, explore, or another
	Surface   string `json:"surface,omitempty"` // interactive, cli, or another
	Trusted   bool   `json:"trusted,omitempty"` // it is one of the host's own agents
	TaskChild bool   `json:"task_child,omitempty"`
}

// Exposure says how a list is bounded.
type Exposure uint8

const (
	ExposeTurn   Exposure = iota // by the turn's request: at most [Limit] tools
	ExposeStable                 // the same for all turns, as MCP asks for: pins and what fits, the rest by search
	ExposeAll                    // everything, for a person who names the tool
)

// MaxExtensions is how many tools a turn can add.
const MaxExtensions = 8

// Bounds on facts in JSON.
const (
	maxFacts = 1 << 20
	maxNames = 10_000
)

// FactsSchema is the JSON Schema of [ParseFacts].
//
//go:embed facts.schema.json
var FactsSchema []byte

// ParseFacts reads facts from JSON: one object, in which unknown fields are
// errors.
func ParseFacts(b []byte) (Facts, error) {
	var f Facts
	if len(b) > maxFacts {
		return f, fmt.Errorf("the facts have %d bytes, over the limit of %d", len(b), maxFacts)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return Facts{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Facts{}, errors.New("there is something behind the facts")
	}
	return f, f.check()
}

func (f Facts) check() error {
	if f.ContextWindow < 0 || math.IsNaN(f.ContextWindow) || math.IsInf(f.ContextWindow, 0) {
		return fmt.Errorf("context_window is %v; it is a number of tokens", f.ContextWindow)
	}
	n := len(f.Context) + len(f.Withheld) + len(f.TrustedMCP) + len(f.Features)
	if a := f.Agent; a != nil {
		n += len(a.Selector.Disallowed)
		for _, l := range []*[]string{a.Selector.Tools, a.MCPServers} {
			if l != nil {
				n += len(*l)
			}
		}
	}
	if n > maxNames {
		return fmt.Errorf("the facts list %d names, over the limit of %d", n, maxNames)
	}
	if len(f.Extensions) > MaxExtensions {
		return fmt.Errorf("the turn adds %d tools; at most %d can be added", len(f.Extensions), MaxExtensions)
	}
	return nil
}
