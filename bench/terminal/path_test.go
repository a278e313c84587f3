package terminal_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/evidence"
)

// BenchmarkCall is op exec of true through the whole path: the arguments checked,
// looked at, allowed by a rule, looked at again, run through the warm helper, and
// recorded; beside os/exec's own start of the same. The goal is a median within
// twice of that.
func BenchmarkCall(b *testing.B) {
	b.Run("os-exec-true", func(b *testing.B) {
		median(b, func() {
			if _, err := exec.Command("/bin/true").CombinedOutput(); err != nil {
				b.Fatal(err)
			}
		})
	})
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	log, err := evidence.Open(evidence.Options{Dir: filepath.Join(dir, "evidence")})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	rules := policy.Policy{Unsandboxed: true, Rules: []policy.Rule{{
		Name: "true", Decision: policy.Allow, Commands: [][]string{{"true"}}, Profiles: []string{policy.ProfileNone, policy.ProfileWrite},
	}}}
	rt, err := wasmtools.Open(b.Context(), wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: b.TempDir(), Evidence: log, Policy: func() policy.Policy { return rules }}},
		StateDir:   filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"),
		Terminal: &wasmtools.Terminal{AllowUnsandboxed: true},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Close()
	turn, err := rt.Begin(b.Context(), wasmtools.Facts{})
	if err != nil {
		b.Fatal(err)
	}
	for _, profile := range []string{policy.ProfileNone, policy.ProfileWrite} {
		b.Run(profile, func(b *testing.B) {
			args, _ := json.Marshal(map[string]string{"op": "exec", "command": "true", "profile": profile})
			median(b, func() {
				out := turn.Call(b.Context(), []wasmtools.Request{{Tool: "terminal_session", Arguments: args}})[0].Result
				if out.IsError {
					b.Fatal(out.PlainText())
				}
			})
		})
	}
}
