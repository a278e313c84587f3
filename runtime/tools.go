package runtime

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// ToolOptions say under which conditions a module's tools run.
type ToolOptions struct {
	Source    tool.Source
	Workspace *workspace.Workspace // nil: none
	Seen      *workspace.Seen      // what the session knows of its files; nil: nothing is guarded
	Grant     func(toolName string) hostfuncs.Grant

	HTTP hostfuncs.Fetcher           // nil: no network
	Env  func(string) (string, bool) // nil: no variables
	KV   hostfuncs.Store             // nil: nothing is kept
}

// Tools turns the tools of a module into [tool.Tool] values, in the order of
// the manifest. Those that can change files are [tool.Previewer]s: their
// changes are made on an overlay and returned, never committed.
func Tools(m Module, o ToolOptions) []tool.Tool {
	about := m.Manifest()
	out := make([]tool.Tool, len(about.Tools))
	for i, t := range about.Tools {
		g := guestTool{module: m, index: i, about: t, options: o}
		if o.Grant != nil {
			g.grant = o.Grant(t.Name)
		}
		// Approval is asked by effects, so what a grant makes possible counts,
		// whatever the module says about itself.
		g.about.Effects |= g.grant.Effects()
		if changesFiles(g.about) {
			out[i] = &previewedTool{g}
			continue
		}
		g.grant.Write = nil
		out[i] = &g
	}
	return out
}

func changesFiles(t manifest.Tool) bool {
	return t.Effects.Any(tool.Writes | tool.Destroys)
}

// guestTool is a tool without effects on files.
type guestTool struct {
	module  Module
	index   int
	about   manifest.Tool
	grant   hostfuncs.Grant
	options ToolOptions
}

func (g *guestTool) Definition() tool.Definition { return g.about.Definition() }

func (g *guestTool) Origin() tool.Origin {
	o := tool.Origin{Source: g.options.Source, Name: g.module.Manifest().Name, Module: g.module.Digest()}
	if m, ok := g.module.(*module); ok {
		o.Trusted = m.trusted
	}
	return o
}

// Call implements [tool.Tool].
func (g *guestTool) Call(ctx context.Context, inv tool.Invocation, s tool.Sink) (tool.Result, error) {
	p, err := g.run(ctx, inv, s)
	return p.Result, err
}

// maxPreviewDiff is how much of a diff is made for a person to look at, who has
// to see all of what a yes covers.
const maxPreviewDiff = 4 << 20

// judgeTime bounds the search for protected paths among what a call changes: a
// guest can change very many names.
const judgeTime = 10 * time.Second

// run runs the call on an overlay of its own.
func (g *guestTool) run(ctx context.Context, inv tool.Invocation, s tool.Sink) (tool.Preview, error) {
	var trail hostfuncs.Trail
	files := hostfuncs.NewOverlay(g.options.Workspace, g.grant, &trail, g.options.Seen)
	if files != nil && !inv.Base.Empty() {
		if err := files.Load(ctx, inv.Base); err != nil {
			files.Close()
			return tool.Preview{Result: tool.ErrorResult(err)}, nil
		}
	}
	call := &hostfuncs.Call{
		Invocation: inv, Tool: g.index, Grant: g.grant, Sink: s,
		Files: files,
		HTTP:  g.options.HTTP, Env: g.options.Env, KV: g.options.KV,
		Preview: changesFiles(g.about),
	}
	if call.Files != nil {
		defer call.Files.Close()
	}
	r, u, err := g.module.Run(ctx, call)
	r.Usage = u.record(call.Used(), &trail)
	p := tool.Preview{Result: r}
	if err != nil || r.IsError || call.Files == nil {
		return p, err // an error drops what the call would have changed
	}
	w := call.Files.WriteSet()
	if w.Empty() && g.options.Seen != nil {
		g.options.Seen.Read(call.Files) // what a call that changes something read, only its module knows
	}
	if !w.Empty() {
		p.Writes = w
		p.Diff = call.Files.Diff(maxPreviewDiff)
		judging, cancel := context.WithTimeout(ctx, judgeTime)
		p.Protected, err = call.Files.Protected(judging)
		cancel()
		if err != nil {
			return tool.Preview{Result: tool.ErrorResult(err)}, nil
		}
	}
	return p, nil
}

// Hosts implements [tool.Networker]: what the grant allows.
func (g *guestTool) Hosts() []string {
	var out []string
	for _, h := range g.grant.Net {
		out = append(out, h.Host)
	}
	return out
}

// record is u as the record of a call has it.
func (u Usage) record(h hostfuncs.Usage, trail *hostfuncs.Trail) *tool.Usage {
	t := &tool.Usage{
		Duration: u.Duration, MemoryPeak: u.MemoryPeak, Fuel: u.Fuel, HostCalls: u.HostCalls,
		BytesRead: u.BytesRead, OutputBytes: u.OutputBytes,
		Requests: h.Requests, BytesSent: h.BytesSent, BytesReceived: h.BytesReceived, Hosts: h.Hosts,
		Refused: h.Refused,
	}
	t.Paths, t.MorePaths = trail.Files()
	return t
}

// previewedTool is a tool that changes files.
type previewedTool struct{ guestTool }

var (
	_ tool.Tool      = (*guestTool)(nil)
	_ tool.Networker = (*guestTool)(nil)
	_ tool.Previewer = (*previewedTool)(nil)
)

// Preview implements [tool.Previewer].
func (p *previewedTool) Preview(ctx context.Context, inv tool.Invocation, s tool.Sink) (tool.Preview, error) {
	v, err := p.run(ctx, inv, s)
	if err == nil {
		v.Binding = binding(p.module.Digest(), inv, v.Writes)
	}
	return v, err
}

// Call answers what a preview answers, if that changes nothing. Changes are
// never made here: whoever calls has to preview, ask and commit.
func (p *previewedTool) Call(ctx context.Context, inv tool.Invocation, s tool.Sink) (tool.Result, error) {
	v, err := p.run(ctx, inv, s)
	if err == nil && !v.Writes.Empty() {
		return tool.ErrorResult(tool.Errorf(tool.ApprovalRequired, "%s would change %d names, and nobody was asked", p.about.Name, len(v.Writes.Entries))), nil
	}
	return v.Result, err
}

// binding names exactly this call of this module with exactly these changes.
func binding(module tool.Digest, inv tool.Invocation, w *tool.WriteSet) tool.Digest {
	h := sha256.New()
	fmt.Fprintf(h, "wasmtools preview 1\n%s\n%q\n%s\n%s\n", module, inv.Tool, inv.Input, w.Binding())
	return tool.SumDigest([sha256.Size]byte(h.Sum(nil)))
}
