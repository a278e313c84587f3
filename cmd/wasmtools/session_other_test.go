//go:build !linux

package main

// actSession needs Linux's terminals.
func actSession() int { return 1 }

// compiledDir is used by the tests of approvals.
const compiledDir = ""
