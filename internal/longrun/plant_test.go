package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlantsApply keeps the planted bugs in step with the sources: each has its
// place, leaves a file that parses, and is for a target that exists. Every target
// of the packages that read a stranger's module has one.
func TestPlantsApply(t *testing.T) {
	const root = "../.."
	have := map[string]bool{}
	for _, p := range plants {
		dir := t.TempDir()
		if err := copyFile(filepath.Join(root, p.file), filepath.Join(dir, p.file)); err != nil {
			t.Fatal(err)
		}
		if err := p.sow(dir); err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, p.file), nil, parser.AllErrors); err != nil {
			t.Errorf("%s: %v", p.what, err)
		}
		have[filepath.Dir(p.file)+" "+p.target] = true
	}
	for _, pkg := range []string{"runtime/rewrite", "manifest", "workspace"} {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(src)) {
				name, ok := strings.CutPrefix(line, "func Fuzz")
				if !ok {
					continue
				}
				name, _, _ = strings.Cut("Fuzz"+name, "(")
				if !have[pkg+" "+name] && pkg != "workspace" {
					t.Errorf("no bug is planted for %s of %s", name, pkg)
				}
				delete(have, pkg+" "+name)
			}
		}
	}
	for left := range have {
		t.Errorf("a bug is planted for %s, which does not exist", left)
	}
}

// TestFound tells a bug that was found from a run that failed otherwise.
func TestFound(t *testing.T) {
	p := plant{target: "FuzzCode"}
	for _, c := range []struct {
		output string
		want   bool
	}{
		{"--- FAIL: FuzzCode (3.01s)\n    --- FAIL: FuzzCode (0.00s)\nFAIL\n", true},
		{"--- FAIL: FuzzCodeOther (3.01s)\n", false},
		{"FAIL\texample [build failed]\n", false},
		{"ok\n", false},
		{"--- FAIL: TestOther (0.00s)\n", false},
	} {
		if got := p.found(c.output); got != c.want {
			t.Errorf("found(%q) = %v, want %v", c.output, got, c.want)
		}
	}
}
