package terminal

import (
	"strings"
	"testing"
	"time"
)

// HurryShells gives shells less time to their first prompt, for one test that
// runs alone.
func HurryShells(t *testing.T) {
	old := readyTime
	readyTime = 300 * time.Millisecond
	t.Cleanup(func() { readyTime = old })
}

// TakenArguments lists what the operations take.
func TakenArguments() []string {
	all := map[string]bool{}
	for _, list := range takes {
		for _, w := range strings.Fields(list) {
			w = strings.TrimSuffix(w, "!")
			if w == "id" {
				all["session"], all["process"] = true, true
				continue
			}
			all[w] = true
		}
	}
	return sortedKeys(all)
}
