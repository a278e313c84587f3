// Command gen makes what is generated in tools-wasm: core/texts.go from the
// descriptions and schemas beside the code, core.wasm from core, and media.wasm
// from media. Run it as `go generate ./tools-wasm`; with -texts it stops before
// building.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wasmtools/wasmtools/internal/guestbuild"
	"github.com/wasmtools/wasmtools/internal/guestbuild/texts"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime"
	"github.com/wasmtools/wasmtools/tool"
)

func main() {
	onlyTexts := flag.Bool("texts", false, "make core/texts.go only")
	dir := flag.String("dir", ".", "the folder tools-wasm")
	flag.Parse()
	if err := generate(*dir, *onlyTexts); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func generate(dir string, onlyTexts bool) error {
	core := filepath.Join(dir, "core")
	src, err := texts.Source("main", core)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(core, "texts.go"), src, 0o644); err != nil {
		return err
	}
	if onlyTexts {
		return nil
	}
	for _, name := range []string{"core", "media"} {
		if err := build(dir, name); err != nil {
			return err
		}
	}
	return nil
}

func build(dir, name string) error {
	out := filepath.Join(dir, name+".wasm")
	report, err := guestbuild.Build(context.Background(), guestbuild.Options{
		Dir:      filepath.Join(dir, name),
		Out:      out,
		Describe: runtime.Describe,
		Embed:    embed,
	})
	if err != nil {
		return err
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	if err := os.WriteFile(out+".sha256", []byte(tool.DigestOf(wasm)+"\n"), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s.wasm: %d bytes, built by %s\n", name, report.Bytes, report.Toolchain)
	return nil
}

func embed(wasm, about []byte) ([]byte, error) {
	if _, err := manifest.Parse(about); err != nil {
		return nil, err
	}
	return manifest.Embed(wasm, about)
}
