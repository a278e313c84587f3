package workspace

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

var errSteps = errors.New("given up")

// steps is a context that ends after it was looked at a number of times, so that
// a test needs no clock.
type steps struct {
	context.Context
	left atomic.Int64
	done chan struct{}
}

func contextWithSteps(t *testing.T, n int64) (context.Context, func()) {
	c := &steps{Context: t.Context(), done: make(chan struct{})}
	c.left.Store(n)
	return c, func() {}
}

func (c *steps) Done() <-chan struct{} {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
	return c.done
}

func (c *steps) Err() error {
	select {
	case <-c.done:
		return errSteps
	default:
		return nil
	}
}
