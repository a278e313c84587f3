package kvstore

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/tool"
)

func TestStore(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "kv")
	a := Open(dir).Store("sha256:a", "/w")
	if _, ok, err := a.Get(ctx, "k"); ok || err != nil {
		t.Fatalf("an empty store has k: %v, %v", ok, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("reading made the folder")
	}
	for k, v := range map[string][]byte{"k": []byte("\x00\xff"), "../../x": {}, strings.Repeat("é", 100): []byte("y")} {
		if err := a.Set(ctx, k, v); err != nil {
			t.Fatal(err)
		}
		// As another process sees it.
		if got, ok, err := Open(dir).Store("sha256:a", "/w").Get(ctx, k); !bytes.Equal(got, v) || !ok || err != nil {
			t.Errorf("Get(%q) = %q, %v, %v; want %q", k, got, ok, err, v)
		}
	}
	for name, other := range map[string]hostfuncs.Store{
		"another module": Open(dir).Store("sha256:b", "/w"), "another workspace": Open(dir).Store("sha256:a", "/v"),
		"a moved border": Open(dir).Store("sha256:a\n", "w"),
	} {
		if _, ok, _ := other.Get(ctx, "k"); ok {
			t.Errorf("%s sees the value", name)
		}
	}
	if err := a.Set(ctx, "k", nil); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := a.Get(ctx, "k"); ok {
		t.Error("a removed key is there")
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("the folder has mode %v, %v", fi.Mode(), err)
	}
	if outside, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); len(outside) != 1 {
		t.Errorf("files beside the folder: %v", outside)
	}
}

func TestStoreBounds(t *testing.T) {
	ctx := t.Context()
	s := Open(t.TempDir()).Store("m", "w")
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		err = s.Set(ctx, fmt.Sprint(n), make([]byte, hostfuncs.MaxValue))
	}
	if tool.CodeOf(err) != tool.Quota || n > 17 {
		t.Errorf("%d values of %d bytes: %v", n, hostfuncs.MaxValue, err)
	}
	if _, ok, err := s.Get(ctx, "0"); !ok || err != nil {
		t.Errorf("a full store lost its values: %v, %v", ok, err)
	}
	if err := s.Set(ctx, "0", nil); err != nil {
		t.Errorf("a full store cannot be emptied: %v", err)
	}
}

// TestStoreLosesNothing: many writers, each with its own key.
func TestStoreLosesNothing(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			// Each its own Stores: the lock file alone is between them.
			if err := Open(dir).Store("m", "w").Set(ctx, fmt.Sprint(i), []byte("x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := Open(dir).Store("m", "w")
	for i := range 40 {
		if _, ok, err := s.Get(ctx, fmt.Sprint(i)); !ok || err != nil {
			t.Errorf("key %d is lost: %v", i, err)
		}
	}
}

// TestWaitingIsTheCalls: a call that waits for another process, or for another call
// of this one, ends when its time is over. The control is that it changes the store
// once nobody is before it.
func TestWaitingIsTheCalls(t *testing.T) {
	dir := t.TempDir()
	all := Open(dir)
	s := all.Store("m", "w").(*store)
	if err := s.Set(t.Context(), "k", []byte("1")); err != nil {
		t.Fatal(err)
	}
	over := tool.Errorf(tool.Timeout, "over")
	wait := func(what string) {
		t.Helper()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, over)
		defer cancel()
		if err := s.Set(ctx, "k", []byte("2")); tool.CodeOf(err) != tool.Timeout {
			t.Errorf("while %s holds the store: Set = %v; want timeout", what, err)
		}
	}
	unlock, err := tryLock(filepath.Join(dir, s.name+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	wait("another process")
	unlock()
	all.turn <- struct{}{}
	wait("another call")
	<-all.turn
	if v, _, err := s.Get(t.Context(), "k"); string(v) != "1" || err != nil {
		t.Errorf("the store holds %q, %v; want 1", v, err)
	}
	if err := s.Set(t.Context(), "k", []byte("2")); err != nil {
		t.Errorf("control: Set = %v", err)
	}
}

func TestDamagedStore(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s := Open(dir).Store("m", "w")
	if err := s.Set(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, damage := range []string{"", "{", "[]", `{"k":5}`, "null"} {
		if err := os.WriteFile(files[0], []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		_, ok, err := s.Get(ctx, "k")
		if damage == "null" {
			if ok || err != nil {
				t.Errorf("null: %v, %v", ok, err)
			}
			if err := s.Set(ctx, "k", []byte("v")); err != nil {
				t.Errorf("null: %v", err)
			}
			continue
		}
		if tool.CodeOf(err) != tool.Internal {
			t.Errorf("%q: Get = %v; want internal", damage, err)
		}
	}
}
