//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// goSourcePatterns are searched in a copy of the Go distribution's sources, by
// the product over MCP and by ripgrep. The differences that docs/search.md
// lists concern files that this tree does not hold, or stand in the row.
var goSourcePatterns = []struct {
	pattern string
	args    map[string]any
	rg      []string
}{
	{"ErrUnexpectedEOF", nil, nil},
	{"func (b *Builder)", map[string]any{"literal": true}, []string{"-F"}},
	{"runtime.Gosched()", map[string]any{"literal": true}, []string{"-F"}},
	{"gosched", map[string]any{"ignore_case": true, "path": "runtime"}, []string{"-i"}},
	{"(?i)todo\\(rsc\\)", nil, nil},
	{`\bmallocgc\b`, nil, nil},
	{`naïve`, map[string]any{"literal": true}, []string{"-F", "--unicode"}},
	{`na\b`, nil, nil},
	{`\bve\b`, nil, nil},
	{`^func Test\w+Root\w*\(`, nil, nil},
	{`^package main$`, map[string]any{"glob": "*.go", "path": "cmd"}, []string{"-g", "*.go"}},
	{`^type \w+ interface \{$`, map[string]any{"path": "net"}, nil},
	{`\.\.\.$`, map[string]any{"path": "encoding"}, nil},
	{`From:.*$`, map[string]any{"path": "net/mail"}, nil},
	{`panic\("[^"]*unreachable`, nil, nil},
	{`0x[0-9a-f]{16}\b`, map[string]any{"path": "crypto"}, nil},
	{`[[:upper:]]{12,}`, map[string]any{"path": "syscall", "glob": "*_linux_amd64.go"}, []string{"-g", "*_linux_amd64.go"}},
	{`import \(\n\t"bytes"\n`, map[string]any{"multiline": true}, []string{"-U"}},
	{`(?s)func init\(\) \{.{0,40}\}`, map[string]any{"multiline": true, "path": "image"}, []string{"-U"}},
	{`^\s*$`, map[string]any{"path": "errors"}, nil},
	{`$`, map[string]any{"path": "unicode/utf8"}, nil},
	{`(foo|)bar`, nil, nil},
	{`x{2,3}y`, nil, nil},
	{`\d+\.\d+\.\d+\.\d+`, map[string]any{"path": "net/netip"}, nil},
	{`[^\x00-\x7f]`, map[string]any{"path": "strconv"}, nil},
	{`日本語`, map[string]any{"literal": true}, []string{"-F", "--unicode"}},
	{`"\W+"`, map[string]any{"path": "strings"}, nil},
	{`goto \w+`, map[string]any{"glob": "*.s,!*_test.go"}, []string{"-g", "*.s", "-g", "!*_test.go"}},
	{`MIT License|Apache`, nil, nil},
	{`\t+//\s*Output:$`, map[string]any{"path": "sort"}, nil},
	{`--files`, nil, nil},
	{`needle in a hidden file`, nil, nil},
	{`needle in an ignored file`, nil, nil},
	{`needle before a NUL`, nil, nil},
	{`needle.*bad`, nil, nil},
	{`needle with CRLF$`, nil, nil},
}

// extraFiles give the tree what the Go distribution lacks.
var extraFiles = map[string]string{
	".gitignore":      "ignored/\n*.tmp\n",
	".hidden/h.txt":   "needle in a hidden file\n",
	"ignored/i.txt":   "needle in an ignored file\n",
	"x.tmp":           "needle in an ignored file\n",
	"nul.bin":         "needle before a NUL\x00\n",
	"latin1.txt":      "needle caf\xe9 \xff bad\n",
	"crlf.txt":        "needle with CRLF\r\nother\r\n",
	"deep/.gitignore": "!i.txt\n",
}

// TestGoSource runs every pattern over some 10,000 real files.
func TestGoSource(t *testing.T) {
	if testing.Short() {
		t.Skip("copies the Go distribution's sources")
	}
	if _, err := exec.LookPath("rg"); err != nil {
		skip(t, "rg", "ripgrep is not installed; .ci/install does it")
	}
	dir := filepath.Join(t.TempDir(), "src")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(goroot(), "src"))); err != nil {
		t.Skipf("no sources of Go here: %v", err)
	}
	for name, text := range extraFiles {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	client := connectTo(t, dir)
	for _, p := range goSourcePatterns {
		t.Run(p.pattern, func(t *testing.T) {
			want := ripgrep(t, dir, p.pattern, p.args["path"], p.rg)
			got := grepOverMCP(t, client, p.pattern, p.args)
			for _, k := range slices.Sorted(maps.Keys(want)) {
				if !got[k] {
					t.Errorf("only ripgrep finds %s", k)
				}
			}
			for _, k := range slices.Sorted(maps.Keys(got)) {
				if !want[k] {
					t.Errorf("only grep finds %s", k)
				}
			}
			t.Logf("%d lines", len(want))
		})
	}

	t.Run("run", func(t *testing.T) {
		cmd := exec.Command("wasmtools", "run", "-q", "--workspace", dir, "--json", "grep", `{"pattern":"ErrUnexpectedEOF","mode":"count","limit":10000}`)
		cmd.Env = append(os.Environ(), "WASMTOOLS_HOME="+sharedHome(t))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var r struct {
			Details struct{ Total int }
		}
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
		count, err := exec.Command("rg", "--no-config", "--hidden", "--no-unicode", "--no-require-git", "--count-matches", "--no-filename", "ErrUnexpectedEOF", dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, f := range strings.Fields(string(count)) {
			var n int
			fmt.Sscan(f, &n)
			want += n
		}
		if r.Details.Total != want {
			t.Errorf("grep counts %d matches, ripgrep %d", r.Details.Total, want)
		}
	})
}

// goroot is where the toolchain's sources are, or a name that does not exist.
func goroot() string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "no-go-here"
	}
	return strings.TrimSpace(string(out))
}

func connectTo(t *testing.T, dir string) *mcpsdk.ClientSession {
	t.Helper()
	cmd := exec.Command("wasmtools", "mcp", "-q", "--workspace", dir)
	cmd.Env = append(os.Environ(), "WASMTOOLS_HOME="+sharedHome(t))
	cmd.Stderr = os.Stderr
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := mcpsdk.NewClient(&mcpsdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcpsdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

var matchLine = regexp.MustCompile(`(?m)^(.+?):(\d+): `)

// grepOverMCP collects all pages.
func grepOverMCP(t *testing.T, client *mcpsdk.ClientSession, pattern string, extra map[string]any) map[string]bool {
	t.Helper()
	args := map[string]any{"pattern": pattern, "mode": "content", "limit": 10000}
	maps.Copy(args, extra)
	found := map[string]bool{}
	for page := 0; page < 200; page++ {
		res, err := client.CallTool(t.Context(), &mcpsdk.CallToolParams{Name: "grep", Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		text := res.Content[0].(*mcpsdk.TextContent).Text
		if res.IsError {
			t.Fatal(text)
		}
		for _, m := range matchLine.FindAllStringSubmatch(text, -1) {
			found[m[1]+":"+m[2]] = true
		}
		details, _ := res.Meta["wasmtools/details"].(map[string]any)
		next, ok := details["next_offset"].(float64)
		if !ok {
			return found
		}
		args["offset"] = int(next)
	}
	t.Fatal("grep has more than 200 pages")
	return nil
}

func ripgrep(t *testing.T, dir, pattern string, path any, flags []string) map[string]bool {
	t.Helper()
	args := append([]string{"--no-config", "--hidden", "--no-unicode", "--crlf", "--no-require-git", "--glob", "!.git",
		"--no-heading", "--with-filename", "--line-number", "--color", "never"}, flags...)
	where := "."
	if path != nil {
		where = path.(string)
	}
	cmd := exec.Command("rg", append(args, "-e", pattern, "--", where)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("rg: %v", err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		parts := strings.SplitN(strings.TrimPrefix(line, "./"), ":", 3)
		if len(parts) == 3 {
			found[parts[0]+":"+parts[1]] = true
		}
	}
	return found
}
