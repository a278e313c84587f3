package selftest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/tool"
)

// commands lets commands run where there is something that ends them.
func commands() *wasmtools.Terminal {
	if runtime.GOOS == "windows" {
		return nil
	}
	return &wasmtools.Terminal{}
}

// shells are commands in the sandbox that they get by default.
func shells() []attack {
	if commands() == nil {
		return nil
	}
	nothing := func(*scene) error { return nil }
	plain := func(script string) func(*scene) bool {
		return func(s *scene) bool {
			cmd := exec.CommandContext(s.ctx, "bash", "-c", s.places()+script)
			cmd.Dir = s.inside
			out, err := cmd.Output()
			return err == nil && string(out) == "through\n"
		}
	}
	// guarded runs the script, which says "through" if it came through.
	guarded := func(script string) func(*scene) string {
		return func(s *scene) string {
			r := s.send("terminal_session", arguments{"op": "exec", "command": s.places() + script, "cwd": "{}", "timeout_ms": 20_000, "yield_ms": 20_000})
			switch {
			case r.Code == tool.NotAvailable || r.Code == tool.Protected:
				return "" // no sandbox, or no rule that could allow it: nothing runs
			case containsLine(r.PlainText(), "through"):
				return "the command came through"
			case containsLine(r.PlainText(), "stopped"):
				return ""
			}
			return fmt.Sprintf("the command did not run: %.300s", r.PlainText())
		}
	}
	both := func(name, try string, lay func(*scene) error) attack {
		script := "if " + try + "; then echo through; else echo stopped; fi 2>/dev/null"
		return attack{"commands", name, lay, plain(script), guarded(script)}
	}
	return []attack{
		both("write outside the workspace", `echo planted > "$OUT/new.txt"`, nothing),
		both("read a secret of the workspace", `grep -q SECRET .env`, func(s *scene) error { return os.WriteFile(s.at(".env"), []byte(s.mark), 0o600) }),
		both("read the state of the program", `grep -q SECRET "$STATE/probe"`, func(s *scene) error {
			return os.WriteFile(filepath.Join(s.state, "probe"), []byte(s.mark), 0o600)
		}),
		both("plant a hook of git", `echo planted > .git/hooks/pre-commit`, func(s *scene) error { return os.MkdirAll(s.at(".git/hooks"), 0o700) }),
		both("connect to a server of this machine", `exec 3<>/dev/tcp/127.0.0.1/$PORT`, nothing),
		both("end a process of somebody else", `kill -0 $PARENT`, nothing),
	}
}

// places are where the commands aim at, as the
// first lines of a script.
func (s *scene) places() string {
	return fmt.Sprintf("OUT='%s'\nSTATE='%s'\nPORT=%d\nPARENT=%d\n", s.outside, s.state, s.port, os.Getpid())
}

// listen takes connections that commands must not be able to make, until close.
func (l *lab) listen() (close func(), err error) {
	n, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l.port = n.Addr().(*net.TCPAddr).Port
	go func() {
		for {
			c, err := n.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return func() { n.Close() }, nil
}

// containsLine reports whether a line of text is line.
func containsLine(text, line string) bool {
	return slices.Contains(strings.Split(strings.ReplaceAll(text, "\r", ""), "\n"), line)
}
