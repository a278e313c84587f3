package terminal_test

import (
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/terminal"
)

// TestCachesCanBeWritten: what programs keep between commands has a place in a
// sandbox, which lasts from one to the next, with namespaces or without. Control:
// without a sandbox nobody is told another place than their own.
func TestCachesCanBeWritten(t *testing.T) {
	needBox(t)
	for _, c := range []struct {
		profile string
		want    string
	}{{proctree.WorkspaceWrite, "kept kept"}, {proctree.ReadOnly, "kept kept"}, {proctree.None, ""}} {
		m := open(t, terminal.Options{Root: realDir(t), State: realDir(t), AllowUnsandboxed: true, Environ: []string{"PATH=/usr/bin:/bin"}})
		execute(t, m, terminal.ExecRequest{Profile: c.profile, Command: `for d in $XDG_CACHE_HOME $npm_config_cache; do mkdir -p $d && echo kept > $d/own; done`})
		r := execute(t, m, terminal.ExecRequest{Profile: c.profile, Command: `for d in $XDG_CACHE_HOME $npm_config_cache; do cat $d/own; done`})
		if got := strings.Join(strings.Fields(r.Output), " "); got != c.want {
			t.Errorf("%s: %q", c.profile, r.Output)
		}
	}
}
