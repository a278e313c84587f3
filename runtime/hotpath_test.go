package runtime

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestEngineStopsNoCall wants the engine's own way to stop a guest, which makes
// code three to twenty times slower, used nowhere but where a snapshot is made.
func TestEngineStopsNoCall(t *testing.T) {
	var uses []string
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "WithCloseOnContextDone" {
					uses = append(uses, filepath.ToSlash(path)+" "+f.Name.Name)
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(uses) != 1 || uses[0] != "start.go interpreter" {
		t.Errorf("WithCloseOnContextDone is used in %q, want start.go interpreter alone", uses)
	}
}
