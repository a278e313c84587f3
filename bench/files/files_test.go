// Package files_test measures what file tools cost through the whole path (a
// sandboxed guest, the rules, the overlay, the commit), beside the same work with
// os.Root and with plain calls, in the same run.
package files_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/workspace"
)

// desk is a workspace with a turn on it, and the same folder by other means.
type desk struct {
	dir  string
	root *os.Root
	turn *wasmtools.Turn
}

var cache = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "wasmtools-bench-") })

func open(b *testing.B) *desk {
	b.Helper()
	dir := b.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { root.Close() })
	keep, err := cache()
	if err != nil {
		b.Fatal(err)
	}
	rules := policy.Policy{Rules: []policy.Rule{{Name: "all", Decision: policy.Allow, Tools: []string{"*"}}}}
	rt, err := wasmtools.Open(b.Context(), wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: dir, Policy: func() policy.Policy { return rules }}},
		StateDir:   filepath.Join(keep, "state"), CacheDir: filepath.Join(keep, "cache"),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { rt.Close() })
	turn, err := rt.Begin(b.Context(), wasmtools.Facts{})
	if err != nil {
		b.Fatal(err)
	}
	return &desk{dir, root, turn}
}

func (d *desk) file(b *testing.B, name string, size int) {
	b.Helper()
	line := "some text of a line that is not short, and not long\n"
	text := strings.Repeat(line, size/len(line)+1)[:size-1] + "\n"
	if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(d.dir, name)), 0o755), os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644)); err != nil {
		b.Fatal(err)
	}
}

func (d *desk) call(b *testing.B, tool string, args map[string]any) {
	b.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.Fatal(err)
	}
	if r := d.turn.Call(b.Context(), []wasmtools.Request{{Tool: tool, Arguments: raw}})[0].Result; r.IsError {
		b.Fatal(r.PlainText())
	}
}

// three runs the same work by the tool, by os.Root and by plain calls.
func three(b *testing.B, tool, root, plain func()) {
	for _, way := range []struct {
		name string
		f    func()
	}{{"tool", tool}, {"os.Root", root}, {"os", plain}} {
		if way.f == nil {
			continue
		}
		b.Run(way.name, func(b *testing.B) {
			way.f()
			for b.Loop() {
				way.f()
			}
		})
	}
}

func check(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

func BenchmarkReadOpen(b *testing.B) {
	for _, size := range []int{2 << 10, 100 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			d := open(b)
			d.file(b, "a/b/c/d/e/f/g/h/file", size)
			name := "a/b/c/d/e/f/g/h/file"
			three(b, func() { d.call(b, "read_open", map[string]any{"path": name}) },
				func() { _, err := d.root.ReadFile(name); check(b, err) },
				func() { _, err := os.ReadFile(filepath.Join(d.dir, name)); check(b, err) })
		})
	}
	b.Run("range-of-1MB", func(b *testing.B) {
		d := open(b)
		d.file(b, "file", 1<<20)
		part := func(open func() (*os.File, error)) func() {
			return func() {
				f, err := open()
				check(b, err)
				_, err = f.ReadAt(make([]byte, 20_000), 500_000)
				check(b, errors.Join(err, f.Close()))
			}
		}
		three(b, func() {
			d.call(b, "read_open", map[string]any{"path": "file", "selection": map[string]any{"range": map[string]any{"offset": 500_000, "length": 20_000}}})
		}, part(func() (*os.File, error) { return d.root.Open("file") }), part(func() (*os.File, error) { return os.Open(filepath.Join(d.dir, "file")) }))
	})
}

func (d *desk) files(b *testing.B, folders, each int) {
	b.Helper()
	for i := range folders {
		dir := filepath.Join(d.dir, "tree", fmt.Sprint("folder", i))
		check(b, os.MkdirAll(dir, 0o755))
		for j := range each {
			check(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d.txt", j)), nil, 0o644))
		}
	}
}

func BenchmarkList(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := open(b)
			d.files(b, 1, n)
			list := func(fsys fs.FS, dir string) func() {
				return func() {
					entries, err := fs.ReadDir(fsys, dir)
					check(b, err)
					for _, e := range entries[:200] {
						_, err := e.Info()
						check(b, err)
					}
				}
			}
			three(b, func() { d.call(b, "read_discover", map[string]any{"mode": "list", "path": "tree/folder0"}) },
				list(d.root.FS(), "tree/folder0"), list(os.DirFS(d.dir), "tree/folder0"))
		})
	}
}

func BenchmarkLocate(b *testing.B) {
	d := open(b)
	d.files(b, 1000, 100)
	walk := func(fsys fs.FS) func() {
		return func() {
			n := 0
			check(b, doublestar.GlobWalk(fsys, "**/file77.txt", func(string, fs.DirEntry) error { n++; return nil }))
			if n != 1000 {
				b.Fatal(n)
			}
		}
	}
	b.Run("100000", func(b *testing.B) {
		three(b, func() { d.call(b, "read_discover", map[string]any{"mode": "locate", "query": "**/file77.txt"}) }, walk(d.root.FS()), walk(os.DirFS(d.dir)))
	})
}

func BenchmarkReplace(b *testing.B) {
	for _, size := range []int{100 << 10, 10 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			d := open(b)
			d.file(b, "file", size)
			p := filepath.Join(d.dir, "file")
			text, err := os.ReadFile(p)
			check(b, err)
			copy(text[size/2:], "NEEDLE0")
			check(b, os.WriteFile(p, text, 0o644))
			i := 0
			words := [2]string{"NEEDLE0", "NEEDLE1"}
			plain := func(read func() ([]byte, error), write func([]byte) error) func() {
				return func() {
					old, err := read()
					check(b, err)
					check(b, write(bytes.Replace(old, []byte(words[i%2]), []byte(words[(i+1)%2]), 1)))
					i++
				}
			}
			three(b, func() {
				d.call(b, "replace_block", map[string]any{"path": "file", "old": words[i%2], "new": words[(i+1)%2]})
				i++
			}, plain(func() ([]byte, error) { return d.root.ReadFile("file") }, func(t []byte) error { return d.root.WriteFile("file", t, 0o644) }),
				plain(func() ([]byte, error) { return os.ReadFile(p) }, func(t []byte) error { return os.WriteFile(p, t, 0o644) }))
		})
	}
}

// BenchmarkWrite is 4 KiB through the tool (which flushes file and folder), and
// through the workspace with and without flushing, and with the journal; and a file replaced in place,
// with and without.
func BenchmarkWrite(b *testing.B) {
	data := [2]string{strings.Repeat("a", 4096), strings.Repeat("b", 4096)}
	d := open(b)
	d.file(b, "file", 4096)
	i := 0
	b.Run("tool", func(b *testing.B) {
		for b.Loop() {
			d.call(b, "write_file", map[string]any{"path": "file", "content": data[i%2], "overwrite": true})
			i++
		}
	})
	for name, o := range map[string]workspace.Options{
		"workspace-sync": {}, "workspace-nosync": {NoSync: true}, "workspace-journal-sync": {StateDir: b.TempDir()}, "workspace-journal-nosync": {StateDir: b.TempDir(), NoSync: true},
	} {
		w, err := workspace.Open(d.dir, o)
		check(b, err)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				o := w.Overlay(workspace.OverlayOptions{})
				_, err := o.Write(b.Context(), "file", []byte(data[i%2]), true)
				check(b, err)
				check(b, w.Commit(b.Context(), o.WriteSet()))
				i++
			}
		})
		check(b, w.Close())
	}
	plain := func(open func() (*os.File, error), sync bool) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				f, err := open()
				check(b, err)
				_, err = f.WriteString(data[i%2])
				check(b, err)
				if sync {
					check(b, f.Sync())
				}
				check(b, f.Close())
				i++
			}
		}
	}
	byRoot := func() (*os.File, error) { return d.root.OpenFile("file", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644) }
	byName := func() (*os.File, error) { return os.Create(filepath.Join(d.dir, "file")) }
	b.Run("os.Root-sync", plain(byRoot, true))
	b.Run("os.Root-nosync", plain(byRoot, false))
	b.Run("os-sync", plain(byName, true))
	b.Run("os-nosync", plain(byName, false))
}
