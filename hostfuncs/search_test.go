package hostfuncs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
	"github.com/wasmtools/wasmtools/workspace/search"
)

// teller is a sink that notes progress.
type teller struct {
	tool.Discard
	told chan string
}

func (s *teller) Progress(done, total int64, note string) {
	select {
	case s.told <- note:
	default:
	}
}

// TestSearchTellsProgress: while a guest waits for a search, its caller is told.
func TestSearchTellsProgress(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("needle\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Open(dir, workspace.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	sink := &teller{told: make(chan string, 100)}
	note := ""
	o := w.Overlay(workspace.OverlayOptions{Guard: func(v workspace.Verb, path string, _ tool.Identity) error {
		if v == workspace.VerbRead && note == "" {
			select {
			case note = <-sink.told:
			case <-ctx.Done():
			}
		}
		return nil
	}})
	defer o.Close()
	c := &hostfuncs.Call{Grant: manifest.Capabilities{Read: []string{"**"}}, Files: o, Sink: sink}
	res, err := c.Search(ctx, search.Request{Kind: "grep", Pattern: "needle"})
	if err != nil || res.Total != 1 || note != "files searched" {
		t.Errorf("told %q: %+v, %v", note, res, err)
	}
	if used := c.Used(); used.NoteBytes != 0 {
		t.Errorf("the guest paid %d bytes for it", used.NoteBytes)
	}
}
