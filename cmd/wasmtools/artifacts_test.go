//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestArtifactsOverMCP: in both eras a result that is too long comes as a
// receipt, and the model follows it with grep and read_open in the same
// connection. Another server on the same workspace, and the same handle after
// the server was killed, lead nowhere; a person still has the text.
func TestArtifactsOverMCP(t *testing.T) {
	bin := executableForAll(t)
	module := filepath.Join(dependency(t, "github.com/tetratelabs/wazero"), "imports", "wasi_snapshot_preview1", "example", "testdata", "cargo-wasi", "cat.wasm")
	for _, era := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(era, func(t *testing.T) {
			home, dir := t.TempDir(), t.TempDir()
			sidecar := filepath.Join(t.TempDir(), "cat.toml")
			var text strings.Builder
			for i := range 10_000 {
				fmt.Fprintf(&text, "line %d\n", i+1)
			}
			for file, content := range map[string]string{
				filepath.Join(dir, "n.txt"):    text.String(),
				filepath.Join(dir, "at.txt"):   strings.Repeat("x", 40_000),
				filepath.Join(dir, "over.txt"): strings.Repeat("x", 40_001),
				sidecar: "name = \"cat\"\nversion = \"1.0.0\"\n[[tools]]\nname = \"cat\"\ndescription = \"Show a file.\"\nargs = [\"{path}\"]\n" +
					"input_schema = { type = \"object\", properties = { path = { type = \"string\" } } }\n[tools.capabilities]\nfs.read = [\"**\"]\n",
			} {
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			serve := func() (*exec.Cmd, *mcpsdk.ClientSession, func(string, map[string]any) string) {
				server := exec.Command(bin, "mcp", "-q", "--workspace", dir, "--module", module+"="+sidecar, "--grant", "all")
				server.Env = append(os.Environ(), "WASMTOOLS_HOME="+home, "HOME="+t.TempDir())
				cs, err := mcpsdk.NewClient(&mcpsdk.Implementation{Name: "c", Version: "1"}, nil).
					Connect(t.Context(), &mcpsdk.CommandTransport{Command: server}, &mcpsdk.ClientSessionOptions{ProtocolVersion: era})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { cs.Close() })
				return server, cs, func(tool string, args map[string]any) string {
					t.Helper()
					r, err := cs.CallTool(t.Context(), &mcpsdk.CallToolParams{Name: tool, Arguments: args})
					if err != nil {
						t.Fatal(err)
					}
					all := ""
					for _, c := range r.Content {
						switch c := c.(type) {
						case *mcpsdk.TextContent:
							all += c.Text
						case *mcpsdk.ResourceLink:
							if !strings.Contains(all, c.URI) {
								t.Errorf("the result links to %s, and its text does not name it: %q", c.URI, all)
							}
						}
					}
					return all
				}
			}
			server, client, call := serve()
			m := regexp.MustCompile(`(?m)^artifact: (artifact:[a-z2-7]{26})$`).FindStringSubmatch(call("cat", map[string]any{"path": "n.txt"}))
			if m == nil {
				t.Fatal("no receipt")
			}
			if got := call("grep", map[string]any{"pattern": "line 7777$", "path": m[1], "mode": "content"}); !strings.Contains(got, "\n"+m[1]+":7777: line 7777\n") {
				t.Errorf("grep says %q", got)
			}
			lines := map[string]any{"lines": map[string]any{"start": 7777, "end": 7778}}
			if got := call("read_open", map[string]any{"path": m[1], "selection": lines}); !strings.HasPrefix(got, "7777\tline 7777\n7778\tline 7778\n") {
				t.Errorf("read_open says %q", got)
			}
			_, stranger, other := serve()
			absent := other("read_open", map[string]any{"path": "artifact:" + strings.Repeat("a", 26)})
			if got := other("read_open", map[string]any{"path": m[1]}); got != absent || !strings.HasPrefix(got, "not_found: ") {
				t.Errorf("another session is told %q; a guess %q", got, absent)
			}
			if got := call("cat", map[string]any{"path": "at.txt"}); got != strings.Repeat("x", 40_000) {
				t.Errorf("40,000 bytes are shown as %.100q", got)
			}
			if got := call("cat", map[string]any{"path": "over.txt"}); !strings.Contains(got, "\nsize: 40001 bytes") {
				t.Errorf("40,001 bytes are shown as %.100q", got)
			}
			got, uri := "", m[1]
			for uri != "" {
				r, err := client.ReadResource(t.Context(), &mcpsdk.ReadResourceParams{URI: uri})
				if err != nil {
					t.Fatal(err)
				}
				got += r.Contents[0].Text
				uri, _ = r.Contents[0].Meta["wasmtools/next"].(string)
			}
			if got != text.String() {
				t.Errorf("the pages of the resource have %d bytes; want the %d of the result", len(got), text.Len())
			}
			if _, err := stranger.ReadResource(t.Context(), &mcpsdk.ReadResourceParams{URI: m[1]}); err == nil || !strings.Contains(err.Error(), "not found") {
				t.Errorf("another session reads the resource: %v", err)
			}
			if err := server.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_, _, later := serve()
			if got := later("read_open", map[string]any{"path": m[1]}); got != absent {
				t.Errorf("a later session is told %q", got)
			}
			person := exec.Command(bin, "artifacts", "export", "-w", dir, m[1])
			person.Env = append(os.Environ(), "WASMTOOLS_HOME="+home)
			if p, err := person.Output(); err != nil || string(p) != text.String() {
				t.Errorf("a person gets %d bytes, %v; want %d", len(p), err, text.Len())
			}
		})
	}
}
