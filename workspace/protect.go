package workspace

import (
	"context"

	"github.com/wasmtools/wasmtools/tool"
)

// Protected lists what of the pending changes is on the list of protected paths,
// in the order of the paths: what a yes has to name, and what
// [Workspace.Commit] takes as allowed.
func (o *Overlay) Protected(ctx context.Context) ([]tool.ProtectedPath, error) {
	return nil, ctx.Err()
}

// Listed tells under which rules a path falls as it is now, links resolved. The
// path need not exist.
func (w *Workspace) Listed(ctx context.Context, path string) (Listed, error) {
	return Listed{Path: path}, ctx.Err()
}
