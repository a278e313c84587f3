package search

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// TestProgress: a search that does not end tells how far it is. Its guard holds
// it up until it has.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"a": "needle\n", "b": "needle\n", "c/d": "needle\n"})
	for _, req := range []Request{
		{Kind: "grep", Pattern: "needle", Mode: "count"},
		{Kind: "grep", Pattern: "needle", Path: "c/d"},
		{Kind: "locate", Query: "d"},
	} {
		t.Run(fmt.Sprint(req.Kind, req.Path), func(t *testing.T) {
			told := make(chan struct{})
			var once sync.Once
			var busy sync.Mutex
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			last := int64(-1)
			ctx = WithProgress(ctx, func(seen int64) {
				if !busy.TryLock() {
					t.Error("two reports at once")
					return
				}
				defer busy.Unlock()
				if seen < last {
					t.Errorf("%d was told after %d", seen, last)
				}
				last = seen
				once.Do(func() { close(told) })
			})
			// The guard lies on the way of the walk: what comes before is not reported.
			o := overlay(t, dir, workspace.OverlayOptions{Guard: func(v workspace.Verb, path string, _ tool.Identity) error {
				wait := v == workspace.VerbRead || req.Kind == "locate" && path == "c/d"
				if wait {
					select {
					case <-told:
					case <-ctx.Done():
					}
				}
				return nil
			}})
			res, err := Run(ctx, o, req)
			if err != nil || res.AtLeast {
				t.Fatalf("nothing was told in 30 seconds: %+v, %v", res, err)
			}
			if last < 0 {
				t.Error("nothing was told")
			}
		})
	}
}
