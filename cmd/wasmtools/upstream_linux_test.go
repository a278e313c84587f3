package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestRealServers puts the reference servers for files and for everything behind
// `wasmtools mcp`: prefix, approval, receipt and record are ours, and one that is
// killed in the middle of a call comes back.
func TestRealServers(t *testing.T) {
	for _, server := range []string{"mcp-server-filesystem", "mcp-server-everything"} {
		if _, err := exec.LookPath(server); err != nil {
			skip(t, "upstream", server+" is not installed; .ci/install does it")
		}
	}
	h, ws := home(t), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(h, "config", "wasmtools.toml"), `
[mcp.servers.fs]
command = "mcp-server-filesystem"
args = ["."]
[mcp.servers.every]
command = "mcp-server-everything"
args = ["stdio"]
`)
	write(filepath.Join(ws, "big.txt"), strings.Repeat("a line of a file that is too long to be shown\n", 40_000)+"the last line\n")
	bin := executableForAll(t)

	steps := make(chan struct{}, 1)
	connect := func(approve string) (*mcpsdk.ClientSession, *exec.Cmd) {
		t.Helper()
		cmd := exec.Command(bin, "mcp", "-q", "--workspace", ws, "--approve", approve)
		cmd.Env = append(os.Environ(), "WASMTOOLS_HOME="+h)
		cmd.Stderr = os.Stderr
		s, err := mcpsdk.NewClient(&mcpsdk.Implementation{Name: "real", Version: "1"}, &mcpsdk.ClientOptions{
			ProgressNotificationHandler: func(context.Context, *mcpsdk.ProgressNotificationClientRequest) {
				select {
				case steps <- struct{}{}:
				default:
				}
			},
		}).Connect(t.Context(), &mcpsdk.CommandTransport{Command: cmd}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s, cmd
	}
	call := func(s *mcpsdk.ClientSession, tool string, args map[string]any) (string, bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		r, err := s.CallTool(ctx, &mcpsdk.CallToolParams{Meta: mcpsdk.Meta{"progressToken": tool}, Name: "mcp_invoke", Arguments: map[string]any{"tool_name": tool, "arguments": args}})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, c := range r.Content {
			if x, ok := c.(*mcpsdk.TextContent); ok {
				b.WriteString(x.Text)
			}
		}
		return b.String(), !r.IsError
	}

	s, cmd := connect("all")
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tl := range list.Tools {
		names = append(names, tl.Name)
	}
	if all := strings.Join(names, " "); !strings.Contains(all, "tool_search mcp_invoke") || strings.Contains(all, "fs__") || len(names) > 20 {
		t.Errorf("the list is %s", all)
	}
	found, err := s.CallTool(t.Context(), &mcpsdk.CallToolParams{Name: "tool_search", Arguments: map[string]any{"query": "echo a message back"}})
	if err != nil || found.IsError {
		t.Fatal(err, found)
	}
	if b, _ := json.Marshal(found.StructuredContent); !strings.Contains(string(b), `"every__echo"`) {
		t.Errorf("found: %s", b)
	}
	if text, ok := call(s, "every__echo", map[string]any{"message": "hello"}); !ok || !strings.Contains(text, "hello") {
		t.Errorf("echo: %v %s", ok, text)
	}
	if text, ok := call(s, "fs__read_text_file", map[string]any{"path": "big.txt"}); !ok || !strings.Contains(text, "artifact:") || len(text) > 40_000 {
		t.Errorf("a long file: %v, %d bytes", ok, len(text))
	}
	if text, ok := call(s, "fs__read_text_file", map[string]any{"path": "/etc/hostname"}); ok {
		t.Errorf("a file outside of the server's folder: %s", text)
	}

	done := make(chan string, 1)
	go func() {
		text, ok := call(s, "every__trigger-long-running-operation", map[string]any{"duration": 100, "steps": 100})
		done <- strconv.FormatBool(ok) + " " + text
	}()
	select {
	case <-steps:
	case <-time.After(time.Minute):
		t.Fatal("the server tells nothing of its work")
	}
	killed := killBelow(t, cmd.Process.Pid, "server-everything")
	if text := <-done; killed == 0 || !strings.HasPrefix(text, "false ") || !strings.Contains(text, "upstream:") {
		t.Errorf("killed %d; the call answers %s", killed, text)
	}
	if text, ok := call(s, "fs__list_directory", map[string]any{"path": "."}); !ok || !strings.Contains(text, "big.txt") {
		t.Errorf("the other server: %v %s", ok, text)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if text, ok := call(s, "every__echo", map[string]any{"message": "again"}); ok && strings.Contains(text, "again") {
			break
		} else if time.Now().After(end) {
			t.Fatalf("it does not come back: %s", text)
		}
	}
	s.Close()

	denied, _ := connect("none")
	if text, ok := call(denied, "every__echo", map[string]any{"message": "hello"}); ok || !strings.Contains(text, "denied") {
		t.Errorf("without a yes: %v %s", ok, text)
	}
	record := exec.Command(bin, "evidence", "list", "--workspace", ws, "--json")
	record.Env = append(os.Environ(), "WASMTOOLS_HOME="+h)
	out, err := record.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"every__echo"`, `"fs__read_text_file"`, `"mcp_invoke"`, `"every__trigger-long-running-operation"`, `"denied"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the record lacks %s", want)
		}
	}
}

// killBelow kills the processes below pid whose command line has what.
func killBelow(t *testing.T, pid int, what string) (n int) {
	t.Helper()
	parents := map[int]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		p, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		parents[p], _ = strconv.Atoi(f[1])
	}
	for p := range parents {
		below := false
		for a := parents[p]; a > 1; a = parents[a] {
			below = below || a == pid
		}
		line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p), "cmdline"))
		if below && err == nil && strings.Contains(string(line), what) && syscall.Kill(p, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}
