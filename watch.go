package wasmtools

import (
	"context"
	"errors"
	"io"
	"sync"

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

// closeSources closes the sources that can be closed, side by side.
func (r *Runtime) closeSources() error {
	errs := make([]error, len(r.sources))
	var wg sync.WaitGroup
	for i, s := range r.sources {
		if c, ok := s.(io.Closer); ok {
			wg.Go(func() { errs[i] = c.Close() })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Changed gives a value when a source has changed since the last one, so that
// turns which begin now may get other lists. It is for one receiver.
func (r *Runtime) Changed() <-chan struct{} { return r.changed }
