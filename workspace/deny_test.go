package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// TestDeniedFolder: a folder of ours inside the tree is out of reach by every
// verb, by every way to it, and before it exists. The control is the same call
// in a workspace that denies nothing.
func TestDeniedFolder(t *testing.T) {
	for _, deny := range []bool{false, true} {
		dir := t.TempDir()
		own := filepath.Join(dir, "home", "state")
		if err := os.MkdirAll(own, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{"home/state/key", "a.txt", "home/other.txt"} {
			if err := os.WriteFile(filepath.Join(dir, p), []byte("text\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("home/state", filepath.Join(dir, "way")); err != nil {
			t.Skip(err)
		}
		if err := os.Symlink("home", filepath.Join(dir, "house")); err != nil {
			t.Skip(err)
		}
		opts := Options{NoSync: true}
		if deny {
			// The second one does not exist yet, and is named through a link.
			opts.Deny = []string{own, filepath.Join(dir, "house", "cache"), t.TempDir()}
		}
		w, err := Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		ctx := t.Context()
		for name, call := range map[string]func(*Overlay) error{
			"stat":            func(o *Overlay) error { _, err := o.Stat(ctx, "home/state/key"); return err },
			"read":            func(o *Overlay) error { _, err := o.ReadAt(ctx, "home/state/key", make([]byte, 4), 0); return err },
			"read by a link":  func(o *Overlay) error { _, err := o.ReadAt(ctx, "way/key", make([]byte, 4), 0); return err },
			"read by its dir": func(o *Overlay) error { _, err := o.ReadAt(ctx, dir+"/home/state/key", make([]byte, 4), 0); return err },
			"list":            func(o *Overlay) error { _, err := o.List(ctx, "home/state", ListOptions{}); return err },
			"write":           func(o *Overlay) error { _, err := o.Write(ctx, "home/state/new", []byte("x"), false); return err },
			"overwrite":       func(o *Overlay) error { _, err := o.Write(ctx, "way/key", []byte("x"), true); return err },
			"edit": func(o *Overlay) error {
				_, err := o.Edit(ctx, "home/state/key", []Edit{{Old: "text", New: "x"}})
				return err
			},
			"remove":         func(o *Overlay) error { _, err := o.Remove(ctx, "home/state", true); return err },
			"remove above":   func(o *Overlay) error { _, err := o.Remove(ctx, "home", true); return err },
			"move away":      func(o *Overlay) error { _, err := o.Rename(ctx, "home/state/key", "key", false); return err },
			"move it":        func(o *Overlay) error { _, err := o.Rename(ctx, "home/state", "mine", false); return err },
			"move above":     func(o *Overlay) error { _, err := o.Rename(ctx, "home", "mine", false); return err },
			"move in":        func(o *Overlay) error { _, err := o.Rename(ctx, "a.txt", "home/state/a.txt", false); return err },
			"make directory": func(o *Overlay) error { return o.Mkdir(ctx, "home/state/d") },
		} {
			o := w.Overlay(OverlayOptions{})
			err := call(o)
			o.Close()
			if deny && tool.CodeOf(err) != tool.Protected {
				t.Errorf("%s = %v, want protected", name, err)
			}
			if !deny && err != nil {
				t.Errorf("control: %s = %v, want success", name, err)
			}
		}
		o := w.Overlay(OverlayOptions{})
		if _, err := o.ReadAt(ctx, "home/other.txt", make([]byte, 4), 0); err != nil {
			t.Errorf("a neighbour is refused: %v", err)
		}
		_, err = o.Write(ctx, "home/cache/x", []byte("x"), false)
		if got := tool.CodeOf(err); deny && got != tool.Protected || !deny && err != nil {
			t.Errorf("deny %v: write below a folder that does not exist yet = %v", deny, err)
		}
		o.Close()
	}
}
