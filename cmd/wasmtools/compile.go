package main

import (
	"os"
	goruntime "runtime"

	"github.com/wasmtools/wasmtools/runtime"
)

// compileArg as the only argument makes this program a process that compiles one
// stranger's module and ends. It is no command: nobody but compileChild gives it.
const compileArg = "compile-a-module-and-end"

// isCompileChild tells whether this process was started by compileChild. It then
// does what runtime.CompileMain does, and nothing else.
func isCompileChild() bool { return len(os.Args) == 2 && os.Args[1] == compileArg }

func compileMain() int { return runtime.CompileMain() }

// compileChild starts this program again for compiling; nil if it cannot be
// found, so that modules are compiled in this process. Linux has a name for it
// that holds while the file is replaced by an update.
func compileChild() []string {
	const self = "/proc/self/exe"
	if goruntime.GOOS == "linux" {
		if _, err := os.Stat(self); err == nil {
			return []string{self, compileArg}
		}
	}
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path, compileArg}
}
