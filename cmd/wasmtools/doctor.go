package main

import (
	"encoding/json"
	"fmt"
	"os"
	goruntime "runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/tool"
	toolswasm "github.com/wasmtools/wasmtools/tools-wasm"
)

// finding is one line of doctor's report.
type finding struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func newDoctor() *cobra.Command {
	var f runtimeFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Say what holds on this machine: boundary, cache, sandbox, folders",
		Long:  "Say what holds on this machine: how the workspace is bounded, whether compiled\nmodules can be cached, and whether a sandboxed call works. Exits with 1 if something does not.",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			list := f.examine(c)
			bad := 0
			for _, x := range list {
				if !x.OK {
					bad++
				}
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetEscapeHTML(false)
				if err := enc.Encode(list); err != nil {
					return err
				}
			} else {
				for _, x := range list {
					mark := "ok  "
					if !x.OK {
						mark = "BAD "
					}
					fmt.Fprintf(c.OutOrStdout(), "%s %-10s %s\n", mark, x.What, x.Detail)
				}
			}
			if bad > 0 {
				return exitCode(exitFailure)
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as one JSON document")
	return c
}

func (f *runtimeFlags) examine(c *cobra.Command) []finding {
	list := []finding{{"program", true, fmt.Sprintf("wasmtools %s, %s, %s/%s", version, goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)}}
	core := toolswasm.Core()
	list = append(list, finding{"core", true, fmt.Sprintf("%d bytes, %s", len(core), tool.DigestOf(core))})

	rt, turn, err := f.begin(c)
	if err != nil {
		return append(list, finding{"workspace", false, err.Error()})
	}
	defer rt.Close()
	for _, h := range rt.Health() {
		list = append(list, finding{h.What, h.OK, h.Detail})
	}
	for _, h := range rt.Sandboxes(c.Context()) {
		list = append(list, finding{h.What, h.OK, h.Detail})
	}
	t0 := time.Now()
	r := turn.Call(c.Context(), []wasmtools.Request{{Tool: "read_discover", Arguments: []byte(`{"mode":"list","max_results":1}`)}})[0].Result
	list = append(list, finding{"sandbox", !r.IsError, fmt.Sprintf("a call through the whole path took %s", roundTime(time.Since(t0)))})
	if r.IsError {
		list[len(list)-1].Detail = r.PlainText()
	}
	d := userDirs()
	for _, dir := range []struct{ what, path string }{{"state", d.state}, {"folder", d.cache}} {
		info, err := os.Stat(dir.path)
		switch {
		case err != nil:
			list = append(list, finding{dir.what, false, err.Error()})
		case goruntime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0:
			list = append(list, finding{dir.what, false, dir.path + " can be written by others; chmod go-w it"})
		default:
			list = append(list, finding{dir.what, true, dir.path})
		}
	}
	return list
}
