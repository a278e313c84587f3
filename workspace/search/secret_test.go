package search

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// TestSecretsAreNotFound: neither grep nor locate tells anything of a secret but
// how many they left out. The control is the same search where the user has taken
// all off the list.
func TestSecretsAreNotFound(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"a.txt": "needle\n", ".env": "needle=TOPSECRET\n", "d/.env.local": "needle=TOPSECRET\n", "d/b.txt": "needle\n", ".ssh/config": "needle=TOPSECRET\n",
		"own/x": "needle=TOPSECRET\n", "conf": "needle\n", ".env.example": "needle\n", ".ENV2": "x\n", "D/.Env": "needle=TOPSECRET\n", ".git/config": "needle\n",
	})
	if err := os.Link(filepath.Join(dir, ".env"), filepath.Join(dir, "notes.txt")); err != nil {
		t.Fatal(err)
	}
	for _, l := range [][2]string{{".env", "way"}, {".ssh", "road"}} {
		if err := os.Symlink(l[0], filepath.Join(dir, l[1])); err != nil {
			t.Skip(err)
		}
	}
	open := func(opts workspace.Options) *workspace.Overlay {
		w, err := workspace.Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		return w.Overlay(workspace.OverlayOptions{})
	}
	own := []workspace.Rule{{Glob: "own/**", Name: "own"}}
	guarded, control := open(workspace.Options{DenyRead: own}), open(workspace.Options{AllowRead: []workspace.Rule{{Glob: "**"}}})

	for _, c := range []struct {
		req     Request
		want    []string
		skipped int64 // a directory counts once; -1: the search is refused
		all     int   // what the control finds
	}{
		{Request{Kind: "grep", Pattern: "needle"}, []string{".env.example", "a.txt", "conf", "d/b.txt"}, 7, 10},
		{Request{Kind: "grep", Pattern: "needle", Mode: "count"}, []string{".env.example", "a.txt", "conf", "d/b.txt"}, 7, 10},
		{Request{Kind: "grep", Pattern: "TOPSECRET", Mode: "content"}, nil, 7, 6},
		{Request{Kind: "grep", Pattern: "needle", Glob: ".env*"}, []string{".env.example"}, 4, 3},
		{Request{Kind: "grep", Pattern: "needle", Path: "d"}, []string{"d/b.txt"}, 1, 2},
		{Request{Kind: "grep", Pattern: "needle", Path: ".git"}, []string{".git/config"}, 0, 1},
		{Request{Kind: "locate", Query: "*"}, []string{".env.example", "D", "a.txt", "conf", "d", "road", "way"}, 5, 12},
		{Request{Kind: "locate", Query: "**/.env*"}, []string{".env.example"}, 4, 3},
		{Request{Kind: "locate", Query: ".env.local"}, nil, 3, 1},
		{Request{Kind: "locate", Query: "own/x"}, nil, 2, 1},
		{Request{Kind: "locate", Query: ".ssh/*"}, nil, -1, 1},
	} {
		res, err := Run(context.Background(), guarded, c.req)
		if c.skipped < 0 {
			if tool.CodeOf(err) != tool.Protected {
				t.Errorf("%+v = %v, want protected", c.req, err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(slices.Values(paths(res))); !slices.Equal(got, c.want) && len(got)+len(c.want) > 0 {
			t.Errorf("%+v = %q, want %q", c.req, got, c.want)
		}
		if res.Skipped.Protected != max(c.skipped, 0) || res.Skipped.Denied != 0 {
			t.Errorf("%+v: skipped %+v, want %d protected", c.req, res.Skipped, c.skipped)
		}
		p, err := json.Marshal(res)
		if err != nil || strings.Contains(string(p), "TOPSECRET") || strings.Contains(string(p), `"secret"`) {
			t.Errorf("%+v tells %s", c.req, p)
		}
		all, err := Run(context.Background(), control, c.req)
		if n := len(all.Files) + len(all.Entries); err != nil || c.req.Mode != "content" && n != c.all || c.req.Mode == "content" && all.Total != c.all || all.Skipped.Protected != 0 {
			t.Errorf("control: %+v = %+v, %v; want %d", c.req, all, err, c.all)
		}
	}
	for _, path := range []string{".env", "way", "notes.txt", ".ssh", "road", ".ssh/config", "own/x", "D/.Env", ".nothing/../.env", ".env.none"} {
		for _, req := range []Request{{Kind: "grep", Pattern: "needle", Path: path}, {Kind: "locate", Query: "*", Path: path}} {
			if res, err := Run(context.Background(), guarded, req); tool.CodeOf(err) != tool.Protected {
				t.Errorf("%+v = %+v, %v; want protected", req, res, err)
			}
			if _, err := Run(context.Background(), control, req); tool.CodeOf(err) == tool.Protected {
				t.Errorf("control: %+v = %v", req, err)
			}
		}
	}
}
