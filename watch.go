package wasmtools

import (
	"context"

	"github.com/wasmtools/wasmtools/catalog"
)

// watch gathers what sources tell of their changes, until the runtime is closed.
func (r *Runtime) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	r.unwatch, r.changed = cancel, make(chan struct{}, 1)
	for _, s := range r.sources {
		w, ok := s.(catalog.Watcher)
		if !ok {
			continue
		}
		go func() {
			for {
				select {
				case _, open := <-w.Changed():
					if !open {
						return
					}
					select {
					case r.changed <- struct{}{}:
					default: // it is told already
					}
				case <-ctx.Done():
					return
				}
			}
		}()
	}
}

// Changed gives a value when a source has changed since the last one, so that
// turns which begin now may get other lists. It is for one receiver.
func (r *Runtime) Changed() <-chan struct{} { return r.changed }
