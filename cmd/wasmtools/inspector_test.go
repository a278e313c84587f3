//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// eras are the protocol eras that the Inspector can speak.
var eras = []string{"legacy", "modern"}

// inspector runs the MCP Inspector's command line against `wasmtools mcp` and
// returns its stdout and exit code.
func inspector(t *testing.T, bin, dir, era string, args ...string) (string, int) {
	t.Helper()
	if _, err := exec.LookPath("mcp-inspector"); err != nil {
		skip(t, "inspector", "mcp-inspector is not installed; .ci/install does it")
	}
	argv := append([]string{"--cli", "--protocol-era", era}, args...)
	argv = append(argv, "--", bin, "mcp", "-q", "--workspace", dir, "--approve", "all")
	cmd := exec.Command("mcp-inspector", argv...)
	cmd.Env = append(os.Environ(), "WASMTOOLS_HOME="+sharedHome(t), "HOME="+t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if cmd.ProcessState.ExitCode() != 0 {
		t.Logf("mcp-inspector %s: %v\n%s", strings.Join(argv, " "), err, stderr.String())
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestInspectorList: every schema is portable by the Inspector's own strict
// check, in both eras, and both see the same list.
func TestInspectorList(t *testing.T) {
	bin := executableForAll(t)
	var lists []string
	for _, era := range eras {
		out, code := inspector(t, bin, t.TempDir(), era, "--method", "tools/list", "--strict")
		if code != 0 {
			t.Fatalf("%s: tools/list --strict exits with %d", era, code)
		}
		var list struct {
			Tools []struct {
				Name        string
				Description string
				Annotations map[string]any
			}
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatalf("%s: %v in %s", era, err, out)
		}
		var names []string
		for _, tl := range list.Tools {
			names = append(names, tl.Name)
			for _, hint := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
				if _, ok := tl.Annotations[hint].(bool); !ok {
					t.Errorf("%s: %s has no %s", era, tl.Name, hint)
				}
			}
			if len(tl.Description) > 1500 {
				t.Errorf("%s: the description of %s has %d bytes, over 1,500", era, tl.Name, len(tl.Description))
			}
		}
		lists = append(lists, strings.Join(names, " "))
	}
	const want = "read_discover read_open grep write_file replace_block delete_path move_path terminal_session todowrite ask_user"
	if lists[0] != want || lists[1] != want {
		t.Errorf("the eras see %q; want %q in both", lists, want)
	}
}

// TestInspectorCalls makes one call of each tool through the Inspector, in both
// eras, and looks at the disk afterwards.
func TestInspectorCalls(t *testing.T) {
	bin := executableForAll(t)
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("a.txt", "one\ntwo\n")
			for _, c := range []struct {
				tool string
				args []string
				want string // in the output
			}{
				{"read_discover", []string{"mode=list"}, "a.txt"},
				{"read_open", []string{"path=a.txt"}, `1\tone`},
				{"grep", []string{"pattern=t.o", "mode=content"}, "a.txt:2: two"},
				{"write_file", []string{"path=d/b.txt", "content=new"}, "d/b.txt"},
				{"replace_block", []string{"path=a.txt", "old=two", "new=zwei"}, "+zwei"},
				{"move_path", []string{"from=a.txt", "to=c.txt"}, "c.txt"},
				{"delete_path", []string{"path=d", "recursive=true"}, "d"},
			} {
				args := []string{"--method", "tools/call", "--tool-name", c.tool}
				for _, a := range c.args {
					args = append(args, "--tool-arg", a)
				}
				out, code := inspector(t, bin, dir, era, args...)
				if code != 0 || !strings.Contains(out, c.want) || strings.Contains(out, `"isError": true`) {
					t.Fatalf("%s %v exits with %d and prints %s; want %q in it", c.tool, c.args, code, out, c.want)
				}
			}
			if got, err := os.ReadFile(filepath.Join(dir, "c.txt")); err != nil || string(got) != "one\nzwei\n" {
				t.Errorf("c.txt = %q, %v", got, err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 1 {
				t.Errorf("the workspace holds %v, want c.txt alone", left)
			}
		})
	}
}
