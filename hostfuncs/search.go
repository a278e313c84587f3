package hostfuncs

import (
	"context"

	"github.com/wasmtools/wasmtools/workspace/search"
)

// Search runs a search over what the grant lets the guest read. A search is one
// host function, in which the guest cannot report, so the host does while it
// lasts; that counts for none of the guest's quotas.
func (c *Call) Search(ctx context.Context, req search.Request) (search.Response, error) {
	o, err := c.files()
	if err != nil {
		return search.Response{}, err
	}
	note := "files searched"
	if req.Kind == "locate" {
		note = "names seen"
	}
	ctx = search.WithProgress(ctx, func(seen int64) { c.sink().Progress(seen, 0, note) })
	return search.Run(ctx, o, req)
}
