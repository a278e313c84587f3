package main

import (
	"cmp"
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
	Absent bool   `json:"absent,omitempty"` // it cannot be had here, and nothing is wrong
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
				if !x.OK && !x.Absent {
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
					switch {
					case x.Absent:
						mark = "none"
					case !x.OK:
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
	list := []finding{{What: "program", OK: true, Detail: fmt.Sprintf("wasmtools %s, %s, %s/%s", version, goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)}}
	core := toolswasm.Core()
	list = append(list, finding{What: "core", OK: true, Detail: fmt.Sprintf("%d bytes, %s", len(core), tool.DigestOf(core))})

	f.servers, f.patience = func(string) bool { return true }, 10*time.Second
	rt, turn, err := f.begin(c)
	if err != nil {
		return append(list, finding{What: "workspace", OK: false, Detail: err.Error()})
	}
	defer rt.Close()
	for _, h := range rt.Health() {
		list = append(list, finding{What: h.What, OK: h.OK, Detail: h.Detail})
	}
	for _, h := range rt.Sandboxes(c.Context()) { // without one commands are refused, and all else works
		list = append(list, finding{What: h.What, OK: h.OK, Absent: !h.OK, Detail: h.Detail})
	}
	t0 := time.Now()
	r := turn.Call(c.Context(), []wasmtools.Request{{Tool: "read_discover", Arguments: []byte(`{"mode":"list","max_results":1}`)}})[0].Result
	list = append(list, finding{What: "sandbox", OK: !r.IsError, Detail: fmt.Sprintf("a call through the whole path took %s", roundTime(time.Since(t0)))})
	if r.IsError {
		list[len(list)-1].Detail = r.PlainText()
	}
	for _, u := range f.ups {
		h := u.Health()
		detail := fmt.Sprintf("%s is connected: %d tools, %d held back", h.Server, h.Tools, h.Held)
		if !h.Connected {
			detail = cmp.Or(h.Trouble, h.Server+" is being connected to")
		}
		list = append(list, finding{What: "upstream", OK: h.Connected, Detail: detail})
	}
	d := userDirs()
	for _, dir := range []struct{ what, path string }{{"state", d.state}, {"folder", d.cache}} {
		info, err := os.Stat(dir.path)
		switch {
		case err != nil:
			list = append(list, finding{What: dir.what, OK: false, Detail: err.Error()})
		case goruntime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0:
			list = append(list, finding{What: dir.what, OK: false, Detail: dir.path + " can be written by others; chmod go-w it"})
		default:
			list = append(list, finding{What: dir.what, OK: true, Detail: dir.path})
		}
	}
	return list
}
