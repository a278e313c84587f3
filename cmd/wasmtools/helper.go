//go:build linux && (amd64 || arm64)

package main

// The process helpers of the terminal are this program, started again with a
// hidden first argument. They never reach main: helper's init takes over before
// the heavy packages are initialised, which halves what a helper's start costs
// (2.5 ms instead of 5). That works whatever imports it; it is named here so
// that a reader of main finds it.
import _ "github.com/wasmtools/wasmtools/internal/proctree/helper"
