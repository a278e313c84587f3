package search

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wasmtools/wasmtools/workspace"
)

// benchTree is the tree that the benchmarks search: $WASMTOOLS_BENCH_TREE, or a
// copy of the toolchain's sources (10,000 files, 150 MB).
func benchTree(b *testing.B) string {
	if dir := os.Getenv("WASMTOOLS_BENCH_TREE"); dir != "" {
		return dir
	}
	dir := b.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(goroot(), "src"))); err != nil {
		b.Skipf("the toolchain's sources are not here: %v", err)
	}
	return dir
}

var benchRows = []rgRow{
	{name: "rare", req: Request{Pattern: "RoundTripper"}},
	{name: "none", req: Request{Pattern: "nosuchthinganywhere"}},
	{name: "common", req: Request{Pattern: "error"}},
	{name: "fold", req: Request{Pattern: "roundtripper", IgnoreCase: true}, rg: []string{"-i"}},
	{name: "prefix", req: Request{Pattern: `func \w+Error`}},
	{name: "suffix", req: Request{Pattern: `\w+Error\b`}},
	{name: "alternation", req: Request{Pattern: "RoundTripper|ErrUnexpectedEOF|sync.Pool"}},
	{name: "noliteral", req: Request{Pattern: `\w+\s*=\s*\d+$`}},
	{name: "class", req: Request{Pattern: `[A-Z]\w+\(`}},
	{name: "glob", req: Request{Pattern: "RoundTripper", Glob: "*.md"}, rg: []string{"-g", "*.md"}},
}

func BenchmarkGrep(b *testing.B) {
	dir := benchTree(b)
	o := overlay(b, dir, workspace.OverlayOptions{})
	for _, row := range benchRows {
		for _, mode := range []string{"files", "count"} {
			req := row.req
			req.Kind, req.Mode = "grep", mode
			b.Run(row.name+"/"+mode, func(b *testing.B) {
				for b.Loop() {
					res, err := Run(context.Background(), o, req)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(res.Total), "hits")
				}
			})
		}
	}
}

// BenchmarkRipgrep is the measure for BenchmarkGrep: the same searches by rg,
// as a process.
func BenchmarkRipgrep(b *testing.B) {
	rg := needTool(b, "rg")
	dir := benchTree(b)
	for _, row := range benchRows {
		for _, mode := range []string{"-l", "--count-matches"} {
			b.Run(row.name+"/"+mode, func(b *testing.B) {
				args := append([]string{"--no-config", "--hidden", "--no-unicode", "--crlf", "--no-require-git", "-j2", mode}, row.rg...)
				args = append(args, "-e", row.req.Pattern, "./")
				for b.Loop() {
					cmd := exec.Command(rg, args...)
					cmd.Dir = dir
					if out, err := cmd.Output(); err != nil && len(out) > 0 {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkLocate(b *testing.B) {
	o := overlay(b, benchTree(b), workspace.OverlayOptions{})
	for _, query := range []string{"transport.go", "nthttptrnsprt", "**/*_test.go", "net/http/*.go"} {
		b.Run(query, func(b *testing.B) {
			for b.Loop() {
				if _, err := Run(context.Background(), o, Request{Kind: "locate", Query: query}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
