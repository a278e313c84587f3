package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wasmtools/wasmtools/workspace"
)

// TestPresent: what a sandbox has to hide and to guard is found by its real name,
// wherever it lies; other files are not named.
func TestPresent(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a.txt", "sub/deep/.env", ".vscode/settings.json", "sub/.git/config", "sub/.git/hooks/pre-commit", "sub/.git/HEAD", "mine.key2"} {
		p := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w, err := workspace.Open(root, workspace.Options{DenyRead: []workspace.Rule{{Name: "mine", Glob: "*.key2"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	secrets, protected, err := w.Present(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := func(l []string, name string) bool {
		return slices.Contains(l, filepath.Join(w.RealPath(), filepath.FromSlash(name)))
	}
	if !at(secrets, "sub/deep/.env") || !at(secrets, "mine.key2") || len(secrets) != 2 {
		t.Errorf("secrets: %q", secrets)
	}
	if !at(protected, ".vscode/settings.json") || !at(protected, "sub/.git/config") || !at(protected, "sub/.git/hooks") || at(protected, "a.txt") || at(protected, "sub/.git/HEAD") {
		t.Errorf("protected: %q", protected)
	}
	// What is made is there at once: the next program must not see it.
	for i := range 3 {
		name := fmt.Sprintf("late%d/.env", i)
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if secrets, _, err := w.Present(t.Context()); err != nil || !at(secrets, name) {
			t.Errorf("just made: %q, %v; want %s among them", secrets, err, name)
		}
	}
}
