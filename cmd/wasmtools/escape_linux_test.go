//go:build amd64 || arm64

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/internal/ptytest"
)

// attackScene is what testdata/attacktool reads.
type attackScene struct {
	Outside, SSH, Cloud, State, Cache, Config, Run, Home, Ticket string

	Server, Victim, Sibling                                  attackProcess
	Loopback, Elsewhere, UDP, Unix, Abstract, Setuid, Secret string
}

type attackProcess struct {
	Pid   int
	Start string
}

// processOf is a process of this test.
func processOf(t *testing.T, cmd *exec.Cmd) attackProcess {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return attackProcess{cmd.Process.Pid, strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[19]}
}

// outsideTmp is a directory that no sandbox has one of its own of, which would
// make attacks fail for want of a target.
func outsideTmp(t *testing.T) string {
	t.Helper()
	home, _ := os.UserHomeDir()
	for _, c := range []string{os.Getenv("WASMTOOLS_TEST_BASE"), home, "."} {
		if c == "" {
			continue
		}
		dir, err := os.MkdirTemp(c, "wasmtools-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if dir = realPath(dir); !strings.HasPrefix(dir, "/tmp/") && !strings.HasPrefix(dir, "/run/") && !strings.HasPrefix(dir, "/var/tmp/") {
			return dir
		}
	}
	t.Skip("there is no place for the scene outside /tmp and /run")
	return ""
}

// echoes answers whatever comes, at an address of the machine.
func echoes(t *testing.T, network, address string) string {
	t.Helper()
	if network == "udp" {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		go func() {
			for b := make([]byte, 100); ; {
				n, from, err := c.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = c.WriteTo(b[:n], from)
			}
		}()
		return c.LocalAddr().String()
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 100)
			n, _ := c.Read(b)
			_, _ = c.Write(b[:n])
			c.Close()
		}
	}()
	return l.Addr().String()
}

// elsewhere is an address of this machine that is not loopback; "" for none.
func elsewhere(t *testing.T) string {
	list, _ := net.InterfaceAddrs()
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return echoes(t, "tcp", n.IP.String()+":0")
		}
	}
	return ""
}

// given are the attempts that a profile allows, and is to allow.
var given = map[string][]string{
	"read the workspace":     {"workspace-write", "read-only", "none"},
	"read the system":        {"workspace-write", "read-only", "none"},
	"write in the workspace": {"workspace-write", "none"},
	"write in /tmp":          {"workspace-write", "read-only", "none"},
	"connect to itself":      {"workspace-write", "read-only", "none"},
}

// Attacks that fail without a sandbox, too: where the server guards itself, and
// where the machine may.
var (
	guardedAlways = []string{"answer for the person", "read the server's environment"}
	perhapsNot    = []string{"type into the shell", "open a raw packet socket", "trace a process", "trace a sibling", "read a process's memory", "read a sibling's memory", "see the server's descriptors", "write through the server's root"}
)

// TestEscape attacks what surrounds a command, in each profile, by exec and from a
// session, through the product: nothing may come through, and leave a trace.
// Without a sandbox, which a person allows, the same attacks come through.
func TestEscape(t *testing.T) {
	ptytest.NeedSandbox(t)
	t.Run("compile", func(t *testing.T) { home(t) }) // for all tests, so not below base
	base := outsideTmp(t)
	t.Setenv("TMPDIR", base)
	home, ws, user, outside := home(t), t.TempDir(), t.TempDir(), t.TempDir()
	const secret = "SECRET-93481"
	s := attackScene{
		Outside: outside, SSH: user + "/.ssh/id_ed25519", Cloud: user + "/.aws/credentials", Home: home, Run: home + "/run", Secret: secret,
		State: home + "/state/planted", Cache: home + "/cache/planted", Config: home + "/config/wasmtools.toml",
		Unix: outside + "/sock", Abstract: fmt.Sprintf("@wasmtools-test-%d", os.Getpid()),
		Loopback: echoes(t, "tcp", "127.0.0.1:0"), UDP: echoes(t, "udp", "127.0.0.1:0"), Elsewhere: elsewhere(t),
	}
	configure(t, home, "# "+secret+"\n[terminal]\nallow_unsandboxed = true\n")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
	}
	lay := func() {
		for _, path := range []string{s.SSH, s.Cloud, s.State, s.Cache, ws + "/.env"} {
			write(path, secret, 0o600)
		}
		for _, name := range []string{"file", "remove", "rename"} {
			write(outside+"/"+name, "outside", 0o644)
		}
		write(ws+"/.git/config", "[core]\n\tbare = false\n", 0o644)
		write(ws+"/.git/HEAD", "ref: refs/heads/main\n", 0o644)
		write(ws+"/.git/hooks/pre-commit", "#!/bin/sh\n", 0o755)
	}
	lay()
	echoes(t, "unix", s.Unix)
	echoes(t, "unix", s.Abstract)
	buildTool(t, "attacktool", ws)
	if err := errors.Join(os.Symlink(outside, ws+"/link-outside"), os.Symlink(".env", ws+"/link-env"), os.Link(executableForAll(t), ws+"/wasmtools")); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		p, err := os.ReadFile(ws + "/attacktool")
		s.Setuid = outside + "/suid"
		if err := errors.Join(err, os.WriteFile(s.Setuid, p, 0o755), os.Chown(s.Setuid, 12345, 12345), os.Chmod(s.Setuid, 0o755|os.ModeSetuid), os.Chmod(base, 0o711), os.Chmod(filepath.Dir(outside), 0o711)); err != nil {
			t.Fatal(err)
		}
	}
	victim := exec.Command("sleep", "1000")
	victim.Dir, victim.Env = outside, []string{"VICTIM=" + secret}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	s.Victim = processOf(t, victim)
	server := command(t, home, ws, "mcp", "-q")
	server.Env = append(server.Env, "HOME="+user, "SERVER_KEY="+secret)
	d := serve(t, home, ws, server)
	s.Server = processOf(t, server)

	// traces is all that nobody may change.
	traces := func() string {
		var b strings.Builder
		for _, dir := range []string{outside, user, home + "/config", ws + "/.git", filepath.Dir(s.State)} {
			err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
				if err != nil || strings.HasPrefix(path, home+"/state/") && path != s.State {
					return err
				}
				info, err := e.Info()
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, "%s %s", path, info.Mode())
				if info.Mode().IsRegular() && path != s.Setuid {
					p, err := os.ReadFile(path)
					if err != nil {
						return err
					}
					fmt.Fprintf(&b, " %q", p)
				}
				b.WriteByte('\n')
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	through := map[string]bool{}
	var names []string
	for _, profile := range []string{"workspace-write", "read-only", "none"} {
		for _, how := range []string{"exec", "session"} {
			t.Run(profile+" "+how, func(t *testing.T) {
				d := d.in(t)
				lay()
				waits := d.tool("write_file", map[string]any{"path": "planted", "content": profile + how})
				if s.Ticket = waits.ticket; s.Ticket == "" {
					t.Fatalf("write_file answers %+v", waits)
				}
				neighbour := d.allowed("open", "profile", profile).Session
				defer d.free("close", "session", neighbour)
				n := d.allowed("run", "session", neighbour, "command", "sleep 1000 & read -r _ </dev/null; echo $!; cat /proc/$!/stat")
				if _, err := fmt.Sscanf(n.Output[strings.IndexByte(n.Output, '\n')+1:], "%d", &s.Sibling.Pid); err != nil {
					t.Fatalf("%v in %+v", err, n)
				}
				s.Sibling.Start = strings.Fields(n.Output[strings.LastIndexByte(n.Output, ')')+1:])[19]
				scene, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				write(ws+"/scene.json", string(scene), 0o644)
				before := traces()
				var a shellAnswer
				if how == "exec" {
					a = d.allowed("exec", "command", "./attacktool", "tty", true, "profile", profile, "yield_ms", 120000)
				} else {
					session := d.allowed("open", "profile", profile).Session
					a = d.allowed("run", "session", session, "command", "./attacktool", "yield_ms", 120000)
					defer d.free("close", "session", session)
				}
				if a.State != "finished" || a.exit() != 0 || !strings.HasPrefix(a.Sandbox, profile) {
					t.Fatalf("it answers %+v", a)
				}
				names = names[:0]
				for line := range strings.Lines(a.Output) {
					name, word, ok := strings.Cut(strings.TrimSpace(line), ": ")
					if !ok || word != "through" && word != "none" && !strings.HasPrefix(word, "refused") {
						t.Errorf("the line %q", line)
						continue
					}
					names = append(names, name)
					got := word == "through"
					want, ours := given[name]
					switch {
					case ours && got != slices.Contains(want, profile):
						t.Errorf("%s: %s", name, word)
					case ours:
					case profile != "none" && got:
						t.Errorf("%s: it came through", name)
					case profile == "none" && got && slices.Contains(guardedAlways, name):
						t.Errorf("%s: it came through", name)
					case profile == "none" && !got && word != "none" && !slices.Contains(guardedAlways, name) && !slices.Contains(perhapsNot, name):
						t.Errorf("%s: the control: %s", name, word)
					}
					if profile == "none" && got {
						through[name] = true
					}
				}
				if len(names) < 40 {
					t.Errorf("only %d attacks were made:\n%s", len(names), a.Output)
				}
				if after := traces(); profile != "none" && after != before {
					t.Errorf("before:\n%s\nafter:\n%s", before, after)
				}
				if _, err := os.Stat(ws + "/planted"); err == nil {
					t.Error("the call that waited was answered")
				}
				if out, _ := outcome(t, command(t, home, ws, "approvals", "list")); !strings.Contains(out, s.Ticket) {
					t.Errorf("the ticket does not wait any more:\n%s", out)
				}
				if testing.Verbose() {
					t.Log(a.Output)
				}
			})
		}
	}
	if len(through) < 30 {
		t.Errorf("only %d of %d attacks have a control", len(through), len(names))
	}
	// The control of the one that is always refused: the person's own program does it.
	waits := d.tool("write_file", map[string]any{"path": "planted", "content": "by the person"})
	if out, code := person(t, command(t, home, ws, "approvals", "allow", waits.ticket)); code != 0 {
		t.Errorf("allow exits with %d and prints:\n%s", code, out)
	}
}
