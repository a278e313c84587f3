package runtime

import (
	"errors"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// outcome is the one place where the end of a guest becomes a code. runErr is
// what the engine or a host function returned; nil means that the guest
// answered.
//
// What the host saw comes before what the guest says: a quota stays a quota
// whatever the guest answers afterwards, and a guest that fails after it was
// refused memory has run out of it.
func (l *lease) outcome(runErr error) *tool.Error {
	over := l.call.Over()
	if runErr == nil {
		if over != nil {
			return over
		}
		return nil
	}
	err := over
	if err == nil {
		err = l.explain(runErr)
	}
	// A language's runtime that gets no memory says so at length before it ends,
	// so this quota comes from that lack.
	if (err.Code == tool.Trap || over != nil) && l.memory != nil && l.memory.Refused() {
		return tool.Errorf(tool.MemoryLimit, "the module needed more than its %d KiB of memory", l.inst.limit>>10).Because(runErr)
	}
	return err
}

func (l *lease) explain(runErr error) *tool.Error {
	// A stop that a host function made, or an error of our own.
	var own *tool.Error
	if errors.As(runErr, &own) {
		return own
	}
	// A yield that was told so made the guest trap.
	if l.term.why != nil {
		return l.term.why
	}
	text := runErr.Error()
	line, _, _ := strings.Cut(text, "\n")
	switch {
	case strings.Contains(line, "stack overflow"):
		return tool.Errorf(tool.Trap, "the module ran out of stack, as endless recursion does").Because(runErr)
	case strings.HasPrefix(line, "wasm error: "):
		return tool.Errorf(tool.Trap, "the module failed: %s", strings.TrimPrefix(line, "wasm error: ")).Because(runErr)
	case strings.Contains(line, "recovered by wazero"):
		l.spoiled = true
		return tool.Errorf(tool.Internal, "the engine failed").Because(runErr)
	}
	return tool.Errorf(tool.Trap, "the module failed while it was set up or run").Because(runErr)
}
