package hostfuncs

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// Trail notes which files a call read, for the record of the call. It is safe
// for concurrent use, as a search needs, and bounded. A nil Trail notes nothing.
type Trail struct {
	full atomic.Bool // the list is, so only counting is left
	more atomic.Int64

	mu    sync.Mutex
	paths []string
}

// Files returns the paths that were read and how many readings are not listed.
func (t *Trail) Files() (paths []string, more int64) {
	if t == nil {
		return nil, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.paths), t.more.Load()
}

func (t *Trail) note(path string) {
	if t.full.Load() {
		t.more.Add(1)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case slices.Contains(t.paths, path):
	case len(t.paths) == tool.MaxUsagePaths:
		t.full.Store(true)
		t.more.Add(1)
	default:
		t.paths = append(t.paths, path)
	}
}

// watch makes guard note the files that it lets a call read.
func (t *Trail) watch(guard func(workspace.Verb, string, tool.Identity) error) func(workspace.Verb, string, tool.Identity) error {
	if t == nil {
		return guard
	}
	return func(v workspace.Verb, path string, id tool.Identity) error {
		err := guard(v, path, id)
		if err == nil && v == workspace.VerbRead {
			t.note(path)
		}
		return err
	}
}
