package wasihost

import (
	"context"
	"errors"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// Outcome is the one place where the end of a guest of a foreign kind becomes a
// code. runErr is what the engine or a host function returned; nil means that
// the guest ended well.
//
// What the host saw comes before what the guest says: a quota stays a quota
// whatever the guest answers afterwards, and a guest that fails after it was
// refused memory has run out of it.
func (h *Host) Outcome(runErr error) *tool.Error {
	over := h.Call.Over()
	if runErr == nil || over != nil && !h.Memory.refused {
		return over
	}
	err := h.explain(runErr)
	if (err.Code == tool.Trap || over != nil) && h.Memory.refused {
		return tool.Errorf(tool.MemoryLimit, "the module needed more than its %d KiB of memory", h.Memory.limit>>10).Because(runErr)
	}
	return err
}

func (h *Host) explain(runErr error) *tool.Error {
	var own *tool.Error
	if errors.As(runErr, &own) {
		return own
	}
	if h.ctx.Err() != nil {
		return tool.AsError(context.Cause(h.ctx))
	}
	line, _, _ := strings.Cut(runErr.Error(), "\n")
	switch {
	case strings.Contains(line, "stack overflow"):
		return tool.Errorf(tool.Trap, "the module ran out of stack, as endless recursion does").Because(runErr)
	case strings.HasPrefix(line, "wasm error: "):
		return tool.Errorf(tool.Trap, "the module failed: %s", strings.TrimPrefix(line, "wasm error: ")).Because(runErr)
	case strings.Contains(line, "recovered by wazero"):
		return tool.Errorf(tool.Trap, "the module passed the host what it cannot take").Because(runErr)
	}
	return tool.Errorf(tool.Trap, "the module failed while it was set up or run").Because(runErr)
}
