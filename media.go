package wasmtools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/wasmtools/wasmtools/runtime"
	"github.com/wasmtools/wasmtools/tool"
	toolswasm "github.com/wasmtools/wasmtools/tools-wasm"
	"github.com/wasmtools/wasmtools/workspace"
)

// media is the module that shows what read_open cannot show as text. It is
// loaded, and compiled, when a file first needs it.
type media struct {
	engine *runtime.Engine

	mu     sync.Mutex
	module runtime.Module
}

func (m *media) load(ctx context.Context) (runtime.Module, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.module == nil {
		loaded, err := m.engine.Load(ctx, toolswasm.Media(), runtime.LoadOptions{Trusted: true, Digest: toolswasm.MediaDigest()})
		if err != nil {
			return nil, fmt.Errorf("the module for images and documents: %w", err)
		}
		m.module = loaded
	}
	return m.module, nil
}

// mediaKinds are what the core module calls the files that media shows.
var mediaKinds = []string{"PNG image", "JPEG image", "GIF image", "WebP image", "PDF document", "Jupyter notebook"}

// mediaReader is read_open. What the core module refuses as one of mediaKinds is
// opened by the other one, under the same rights: parsers of such files meet a
// hostile one in an instance of its own.
type mediaReader struct {
	tool.Tool
	media *media
	files *workspace.Workspace
}

// Call implements [tool.Tool].
func (r mediaReader) Call(ctx context.Context, inv tool.Invocation, s tool.Sink) (tool.Result, error) {
	res, err := r.Tool.Call(ctx, inv, s)
	if err != nil || !res.IsError || res.Code != tool.Encoding || !slices.Contains(mediaKinds, kindOf(res)) {
		return res, err
	}
	m, err := r.media.load(ctx)
	if err != nil {
		return tool.ErrorResult(err), nil
	}
	return runtime.Tools(m, runtime.ToolOptions{
		Source: tool.Builtin, Workspace: r.files, Grant: requested(m.Manifest()),
	})[0].Call(ctx, inv, s)
}

// kindOf is the kind of file that a refusal names.
func kindOf(r tool.Result) string {
	switch k := r.Details["kind"].(type) {
	case string:
		return k
	case json.RawMessage:
		var s string
		if json.Unmarshal(k, &s) == nil {
			return s
		}
	}
	return ""
}
