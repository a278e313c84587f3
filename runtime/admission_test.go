package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(3, 2)
		x, y := toolKey{"m", 0}, toolKey{"m", 1}
		ctx := context.Background()
		for range 2 {
			if err := a.enter(ctx, x, 2); err != nil {
				t.Fatal(err)
			}
		}
		// The third of x waits for its own tool and holds up no other.
		third := make(chan error, 1)
		go func() { third <- a.enter(ctx, x, 2) }()
		synctest.Wait()
		if err := a.enter(ctx, y, 2); err != nil {
			t.Fatalf("another tool = %v", err)
		}
		// The fourth call in all waits too; then the queue is full.
		fourth := make(chan error, 1)
		go func() { fourth <- a.enter(ctx, y, 2) }()
		synctest.Wait()
		if err := a.enter(ctx, y, 2); tool.CodeOf(err) != tool.Busy {
			t.Errorf("with a full queue = %v; want busy", err)
		}
		a.leave(y)
		if err := <-fourth; err != nil {
			t.Errorf("the fourth = %v", err)
		}
		a.leave(x)
		if err := <-third; err != nil {
			t.Errorf("the third = %v", err)
		}
		for _, k := range []toolKey{x, x, y} {
			a.leave(k)
		}
		if a.running != 0 || len(a.byTool) != 0 || len(a.waiting) != 0 {
			t.Errorf("afterwards %+v", a)
		}
	})
}

func TestAdmissionHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 8)
		k := toolKey{"m", 0}
		if err := a.enter(context.Background(), k, 4); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := a.enter(ctx, k, 4); tool.CodeOf(err) != tool.Timeout {
			t.Errorf("enter = %v; want timeout", err)
		}
		if len(a.waiting) != 0 {
			t.Errorf("%d wait after they gave up", len(a.waiting))
		}
		a.leave(k)
		if err := a.enter(context.Background(), k, 4); err != nil {
			t.Errorf("enter afterwards = %v", err)
		}
	})
}
