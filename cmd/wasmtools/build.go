package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/internal/guestbuild"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime"
	"github.com/wasmtools/wasmtools/tool"
)

func newBuild() *cobra.Command {
	var out string
	var anyToolchain bool
	c := &cobra.Command{
		Use:   "build [flags] DIR",
		Short: "Build a Go tool into a module that describes itself",
		Long: `Build a Go tool into a module that describes itself.

DIR holds a main package that uses the guest SDK. It is compiled for
wasip1, asked for its description in a sandbox without any capability, and the
description is put into the module. The same sources give the same bytes.`,
		Example: "  wasmtools build ./wordcount -o wordcount.wasm",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			if err := needDir(a[0]); err != nil {
				return err
			}
			if out == "" {
				abs, err := filepath.Abs(a[0])
				if err != nil {
					return err
				}
				out = filepath.Base(abs) + ".wasm"
			}
			if err := needDir(filepath.Dir(out)); err != nil {
				return err
			}
			built, err := guestbuild.Build(c.Context(), guestbuild.Options{
				Dir: a[0], Out: out, Describe: runtime.Describe, Embed: embed, AnyToolchain: anyToolchain,
			})
			if err != nil {
				return err
			}
			m, err := manifest.Parse(built.Manifest)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: %s %s, %d tools, %d bytes\n", out, tool.QuotePath(m.Name), m.Version, len(m.Tools), built.Bytes)
			if !built.Reproducible {
				notice(c)("built with " + built.Toolchain + ", not the pinned toolchain: others may get other bytes from the same sources")
			}
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "the module's file (default: DIR's name with .wasm, in the current directory)")
	c.Flags().BoolVar(&anyToolchain, "any-toolchain", false, "build with the go command that is there if the pinned release cannot be had")
	return c
}

// embed puts a manifest that was checked into a module.
func embed(wasm, description []byte) ([]byte, error) {
	if _, err := manifest.Parse(description); err != nil {
		return nil, err
	}
	return manifest.Embed(wasm, description)
}
