//go:build unix

package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestClientAnswersForItsPerson runs the program as a client does, in both eras:
// its person allows an edit and sees the diff first, waves one away, is not
// asked about protected paths, and not at all once the user's configuration says
// so, which counts while the server runs. The record says what came through the
// client.
func TestClientAnswersForItsPerson(t *testing.T) {
	bin := executableForAll(t)
	for _, era := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(era, func(t *testing.T) {
			home, dir := t.TempDir(), t.TempDir()
			file := filepath.Join(dir, "a.txt")
			if err := os.WriteFile(file, []byte("one\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			var asked []string
			answer := &mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}
			client := mcpsdk.NewClient(&mcpsdk.Implementation{Name: "a client", Version: "1"}, &mcpsdk.ClientOptions{
				ElicitationHandler: func(_ context.Context, r *mcpsdk.ElicitRequest) (*mcpsdk.ElicitResult, error) {
					asked = append(asked, r.Params.Message)
					return answer, nil
				},
			})
			server := exec.Command(bin, "mcp", "-q", "--workspace", dir)
			server.Env = append(os.Environ(), "WASMTOOLS_HOME="+home, "HOME="+t.TempDir())
			cs, err := client.Connect(t.Context(), &mcpsdk.CommandTransport{Command: server}, &mcpsdk.ClientSessionOptions{ProtocolVersion: era})
			if err != nil {
				t.Fatal(err)
			}
			defer cs.Close()
			call := func(tool string, args map[string]any) (code string) {
				t.Helper()
				r, err := cs.CallTool(t.Context(), &mcpsdk.CallToolParams{Name: tool, Arguments: args})
				if err != nil {
					t.Fatal(err)
				}
				code, _ = r.Meta["wasmtools/code"].(string)
				return code
			}
			edit := func(old, new string) string {
				t.Helper()
				return call("replace_block", map[string]any{"path": "a.txt", "old": old, "new": new})
			}
			holds := func(want string) {
				t.Helper()
				if got, err := os.ReadFile(file); err != nil || string(got) != want {
					t.Errorf("the file holds %q, %v; want %q", got, err, want)
				}
			}

			if code := edit("one", "two"); code != "" || len(asked) != 1 || !strings.Contains(asked[0], "-one\n") || !strings.Contains(asked[0], "+two\n") {
				t.Errorf("allowed: %q, asked %q", code, asked)
			}
			holds("two\n")

			answer = &mcpsdk.ElicitResult{Action: "decline"}
			for range 2 {
				if code := edit("two", "three"); code != "approval_required" || len(asked) != 2 {
					t.Errorf("waved away: %q, asked %d times", code, len(asked))
				}
			}
			holds("two\n")

			answer = &mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}
			if code := call("write_file", map[string]any{"path": ".git/hooks/pre-commit", "content": "x"}); code == "" || len(asked) != 2 {
				t.Errorf("a protected path: %q, asked %d times", code, len(asked))
			}
			if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
				t.Error("the protected path was written")
			}

			config := filepath.Join(home, "config")
			if err := os.MkdirAll(config, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(config, "wasmtools.toml"), []byte("[approvals]\nelicitation = \"off\"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if code := edit("two", "four"); code != "approval_required" || len(asked) != 2 {
				t.Errorf("with elicitation off: %q, asked %d times", code, len(asked))
			}
			holds("two\n")

			if err := cs.Close(); err != nil {
				t.Errorf("the server: %v", err)
			}
			record := filesBelow(t, home)
			for _, want := range []string{`"mcp-form"`, "declined-or-unavailable: decline", "the client a client"} {
				if !bytes.Contains(record, []byte(want)) {
					t.Errorf("the record does not say %s", want)
				}
			}
		})
	}
}

// filesBelow is the text of all small files below dir.
func filesBelow(t *testing.T, dir string) (all []byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() > 1<<20 {
			return err
		}
		p, err := os.ReadFile(path)
		all = append(all, p...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
