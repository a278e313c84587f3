package hostfuncs

import (
	"context"

	"github.com/wasmtools/wasmtools/workspace/search"
)

// Search runs a search over what the grant lets the guest read.
func (c *Call) Search(ctx context.Context, req search.Request) (search.Response, error) {
	o, err := c.files()
	if err != nil {
		return search.Response{}, err
	}
	return search.Run(ctx, o, req)
}
