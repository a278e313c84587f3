package tool_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

var update = flag.Bool("update", false, "rewrite docs/errors.md from the table")

// TestDocsTable holds docs/errors.md against the table in code, row by row.
func TestDocsTable(t *testing.T) {
	const path, mark = "../docs/errors.md", "| n | code | what happened | the next move |\n| --: | --- | --- | --- |\n"
	var want strings.Builder
	for _, c := range tool.Codes {
		fmt.Fprintf(&want, "| %d | `%s` | %s | %s |\n", c.Code.Number(), c.Code, c.Meaning, c.Next)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, table, ok := strings.Cut(string(page), mark)
	if !ok {
		t.Fatalf("%s has no table head", path)
	}
	if *update {
		if err := os.WriteFile(path, []byte(head+mark+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want.String() {
		t.Errorf("the table in %s is not the one in codes.go; run go test ./tool -update\ngot:\n%s\nwant:\n%s", path, table, want.String())
	}
}

// TestEveryCode walks the whole table: each code is unique, complete, and keeps
// its number both ways.
func TestEveryCode(t *testing.T) {
	seen := map[tool.Code]bool{}
	for i, c := range tool.Codes {
		if seen[c.Code] {
			t.Errorf("%s stands twice", c.Code)
		}
		seen[c.Code] = true
		if c.Meaning == "" || c.Next == "" {
			t.Errorf("%s has no meaning or no next move", c.Code)
		}
		if got := c.Code.Number(); got != i+1 {
			t.Errorf("%s.Number() = %d, want %d", c.Code, got, i+1)
		}
		if got := tool.CodeByNumber(i + 1); got != c.Code {
			t.Errorf("CodeByNumber(%d) = %s, want %s", i+1, got, c.Code)
		}
		e := tool.PathErrorf(c.Code, "a/b", "")
		if want := string(c.Code) + ": a/b: " + c.Meaning + "; " + c.Next; e.Error() != want {
			t.Errorf("Error() = %q, want %q", e.Error(), want)
		}
	}
	for _, n := range []int{-1, 0, len(tool.Codes) + 1, 1 << 30} {
		if got := tool.CodeByNumber(n); got != tool.Internal {
			t.Errorf("CodeByNumber(%d) = %s, want internal", n, got)
		}
	}
}
