package rewrite

import (
	"fmt"

	"github.com/wasmtools/wasmtools/tool"
)

// A Feature is something that modules may use and this package refuses. It
// stands in the detail "feature" of the error.
type Feature string

// The features that are refused by name, the last two only if a countdown is
// wanted. Everything else that is refused is either damaged or unknown.
const (
	GarbageCollection Feature = "garbage collection"
	RecursiveTypes    Feature = "recursive type groups"
	LegacyExceptions  Feature = "legacy exception handling"
	MultipleMemories  Feature = "multiple memories"
	Memory64          Feature = "64-bit memories and tables"
	PageSizes         Feature = "custom page sizes"
	RelaxedSIMD       Feature = "relaxed SIMD"
	SharedTables      Feature = "shared tables"
	AtomicWait        Feature = "waiting on memory"
	Exceptions        Feature = "exception handling"
)

// malformed is the error about bytes that are no valid module.
func malformed(section string, offset int, format string, args ...any) *tool.Error {
	return tool.Errorf(tool.InvalidModule, "%s, offset %#x: %s", section, offset, fmt.Sprintf(format, args...)).
		With("section", section).
		With("offset", offset)
}

// unsupported is the error about a valid module that uses what we refuse.
func unsupported(section string, offset int, f Feature) *tool.Error {
	return malformed(section, offset, "%s: not supported", f).
		With("feature", string(f)).
		WithNext("build the module without %s", f)
}

// refused is the error about a well-formed module that cannot be instrumented.
func refused(format string, args ...any) *tool.Error {
	return tool.Errorf(tool.InvalidModule, format, args...)
}
