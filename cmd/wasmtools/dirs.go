package main

import (
	"os"
	"path/filepath"

	"github.com/adrg/xdg"
)

// dirs are the folders that wasmtools owns: below WASMTOOLS_HOME if that is
// set, else where the XDG rules say.
type dirs struct{ state, cache string }

func userDirs() dirs {
	if home := os.Getenv("WASMTOOLS_HOME"); home != "" {
		return dirs{filepath.Join(home, "state"), filepath.Join(home, "cache")}
	}
	return dirs{filepath.Join(xdg.StateHome, "wasmtools"), filepath.Join(xdg.CacheHome, "wasmtools")}
}
