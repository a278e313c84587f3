package wasmtools

import (
	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/hostfuncs/httpfetch"
)

// NewFetcher lets tests give the guarded client a world of their own.
func NewFetcher(c *httpfetch.Client) hostfuncs.Fetcher { return fetcher{c} }
