package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// TestHolds makes every attack on the machine that runs the tests.
func TestHolds(t *testing.T) {
	dir := t.TempDir()
	r, err := Run(t.Context(), Options{Dir: dir, Race: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Results {
		t.Logf("%s: %s: %s, control %q %s", x.Group, x.Name, x.Outcome, x.Control, x.Detail)
		if x.Outcome == Broken {
			t.Errorf("%s: %s: %s", x.Group, x.Name, x.Detail)
		}
		lucky := x.Group == "races" || strings.HasPrefix(x.Name, "see half") // on a busy machine they may miss
		letters := strings.HasSuffix(x.Name, "in other letters")             // that is for file systems which take them as the same
		if runtime.GOOS == "linux" && !lucky && !letters && (x.Outcome == Untried || x.Control == "no") {
			t.Errorf("%s: %s proves nothing here: %s, control %q %s", x.Group, x.Name, x.Outcome, x.Control, x.Detail)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestFindsHoles gives the corpus tools without a guard: nearly every attack on
// files has to be told.
func TestFindsHoles(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := lab{base: base, tree: filepath.Join(base, "tree"), race: 300 * time.Millisecond, mark: "SECRETmark"}
	if err := os.Mkdir(l.tree, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, a := range attacks() {
		switch a.group {
		case "paths", "links", "protected files", "secrets", "bytes":
		default:
			continue // a naive tool would hang, or needs a machine of its own
		}
		if a.name == "read a secret under a name in other letters" || a.name == "delete the workspace itself" || a.name == "find a secret by walking" || a.name == "find what is outside by walking" ||
			strings.HasPrefix(a.name, "see half") || a.name == "empty a folder outside by deleting the link to it" {
			continue // what the naive tools below do not do
		}
		r, err := l.try(t.Context(), l.naive, i, a)
		if err != nil {
			t.Fatal(a.name, err)
		}
		if r.Outcome == Held {
			t.Errorf("%s: %s held against tools without a guard", a.group, a.name)
		}
	}
}

// naive are tools that take every path as it is.
func (l lab) naive(_ context.Context, name string, args []byte) tool.Result {
	var a struct{ Path, Root, From, To, Content, Old, New string }
	if err := json.Unmarshal(args, &a); err != nil {
		return tool.ErrorResult(err)
	}
	at := func(p string) string {
		if filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(l.tree, filepath.FromSlash(p))
	}
	text, err := "", error(nil)
	switch name {
	case "read_open", "grep":
		var b []byte
		b, err = os.ReadFile(at(a.Path))
		text = string(b)
	case "read_discover":
		_, err = os.ReadDir(at(a.Path + a.Root))
	case "write_file":
		err = errors.Join(os.MkdirAll(filepath.Dir(at(a.Path)), 0o700), os.WriteFile(at(a.Path), []byte(a.Content), 0o600))
	case "replace_block":
		var b []byte
		if b, err = os.ReadFile(at(a.Path)); err == nil {
			err = os.WriteFile(at(a.Path), []byte(strings.ReplaceAll(strings.ReplaceAll(string(b), "\r\n", "\n"), a.Old, a.New)), 0o600)
		}
	case "delete_path":
		err = os.Remove(at(a.Path))
	case "move_path":
		err = os.Rename(at(a.From), at(a.To))
	}
	if err != nil {
		return tool.ErrorResult(err)
	}
	return tool.TextResult(text)
}
