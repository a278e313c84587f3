package main

import (
	"testing"
	"time"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/config"
	"github.com/wasmtools/wasmtools/hostfuncs"
)

// TestDefaultLimits: what holds without a configuration is what the runtime has
// by itself, so that a workspace's own number is lower only if it is.
func TestDefaultLimits(t *testing.T) {
	got, own := limits(config.Default().Limits), hostfuncs.DefaultLimits()
	want := wasmtools.Limits{MemoryBytes: own.MemoryBytes, OutputBytes: own.OutputBytes, HostCalls: own.HostCalls, Time: 30 * time.Second, Concurrency: 4}
	if got != want {
		t.Errorf("the defaults of the configuration are %+v, those of the runtime %+v", got, want)
	}
}
