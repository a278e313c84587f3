//go:build linux

package ptytest

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wasmtools/wasmtools/internal/proctree"
)

var noSandbox = sync.OnceValue(func() error {
	h := proctree.Open(proctree.Options{})
	defer h.Close()
	_, err := h.Probe(context.Background(), proctree.Profile{Name: proctree.ReadOnly, Network: proctree.NetworkLoopback})
	return err
})

// NeedSandbox skips a test of commands in a sandbox where the system lets nobody
// have one, unless WASMTOOLS_REQUIRE names sandbox.
func NeedSandbox(t testing.TB) {
	t.Helper()
	if err := noSandbox(); err != nil {
		if slices.Contains(strings.Split(os.Getenv("WASMTOOLS_REQUIRE"), ","), "sandbox") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}
