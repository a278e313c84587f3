package main

import (
	"errors"
	"strconv"

	"github.com/wasmtools/wasmtools/tool"
)

// The exit codes are a contract with scripts: documented in GUIDE.md, tested,
// never renumbered.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitDenied      = 3
	exitApproval    = 4
	exitTool        = 5
	exitMismatch    = 6
	exitLimit       = 7
	exitInterrupted = 130
)

// exitCode ends the program with a code after everything was printed already.
type exitCode int

func (e exitCode) Error() string { return "exit " + strconv.Itoa(int(e)) }

// usageError is a fault in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitFor(err error) int {
	var u usageError
	var t *tool.Error
	switch {
	case errors.As(err, &u):
		return exitUsage
	case errors.As(err, &t):
		if code := exitForCode(t.Code); code != exitTool {
			return code
		}
	}
	return exitFailure
}

// exitForCode maps a tool result's code.
func exitForCode(c tool.Code) int {
	switch c {
	case tool.Denied, tool.Protected:
		return exitDenied
	case tool.ApprovalRequired, tool.ApprovalExpired:
		return exitApproval
	case tool.LockMismatch, tool.InvalidModule:
		return exitMismatch
	case tool.Timeout, tool.MemoryLimit, tool.Quota:
		return exitLimit
	case tool.Cancelled:
		return exitInterrupted
	}
	return exitTool
}
