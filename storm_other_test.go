//go:build !unix

package wasmtools_test

func stormChild() {}
