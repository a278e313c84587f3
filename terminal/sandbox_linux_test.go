package terminal_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/terminal"
	"github.com/wasmtools/wasmtools/tool"
)

// TestProfiles: what each profile lets a session do, with none as the control that
// the attempts are real.
func TestProfiles(t *testing.T) {
	needBox(t)
	for _, profile := range []string{proctree.None, proctree.WorkspaceWrite, proctree.ReadOnly} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			root, state, outside := realDir(t), realDir(t), realDir(t)
			for path, text := range map[string]string{root + "/.env": "hidden", root + "/config": "protected", state + "/key": "private", outside + "/notes": "outside"} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m := open(t, terminal.Options{
				Root: root, State: state, AllowUnsandboxed: true, Profile: profile, Private: []string{state},
				Lists: func(context.Context) (hide, protect []string, err error) {
					return []string{root + "/.env"}, []string{root + "/config"}, nil
				},
			})
			free := profile == proctree.None
			id := session(t, m, terminal.OpenRequest{})
			for _, c := range []struct {
				name, command string
				want          bool
			}{
				{"reads a file of the system", "cat /etc/passwd", true},
				{"writes in the workspace", "touch here", profile != proctree.ReadOnly},
				{"writes in /tmp", "touch /tmp/terminal-test-$$ && rm /tmp/terminal-test-$$", true},
				{"writes outside", "touch " + outside + "/x", free},
				{"writes in the home directory", "touch ~/.terminal-test && rm ~/.terminal-test", free},
				{"reads a secret", "grep hidden .env", free},
				{"writes what is protected", "echo x >config", free},
				{"reads the private state", "cat " + state + "/key", free},
				{"sees outputs of others", "ls " + filepath.Join(state, "terminal-*", "spool"), free},
				{"sees the journal", "cat " + filepath.Join(state, "terminal-*", "journal"), free},
				{"changes what a shell will read", "for d in " + filepath.Join(state, "terminal-*", "command") + "; do touch $d/x || exit 1; done; true", free},
				{"sees the server's processes", "ls /proc/" + "$WT_SERVER" + "/fd", free},
				{"signals the server", "kill -0 $WT_SERVER", free},
			} {
				if home := os.Getenv("HOME"); c.name == "writes in the home directory" && strings.HasPrefix(home, "/tmp/") {
					continue // it is another one in there
				}
				command := strings.ReplaceAll(c.command, "$WT_SERVER", pid())
				for how, r := range map[string]terminal.Result{"session": run(t, m, id, "("+command+")"), "exec": execute(t, m, terminal.ExecRequest{Command: command})} {
					if r.ExitCode == nil || (*r.ExitCode == 0) != c.want {
						t.Errorf("%s %s: %+v; want it possible: %t", how, c.name, r, c.want)
					}
					if r.Sandbox == "" || strings.HasPrefix(r.Sandbox, "none") != free {
						t.Errorf("it says of the sandbox: %q", r.Sandbox)
					}
				}
				if c.want != free && c.name == "writes outside" {
					if r := run(t, m, id, "("+command+")"); !strings.Contains(r.Hint, "sandbox") {
						t.Errorf("the denial is not explained: %+v", r)
					}
				}
			}
			// What somebody outside makes later is hidden before the next command.
			if err := os.Rename(root+"/.env", root+"/.env.old"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(root+"/.env", []byte("hidden"), 0o600); err != nil {
				t.Fatal(err)
			}
			if r := run(t, m, id, "grep hidden .env"); r.ExitCode == nil || (*r.ExitCode == 0) != free {
				t.Errorf("a secret that was replaced: %+v", r)
			}
		})
	}
}

func pid() string {
	p, _ := os.Readlink("/proc/self")
	return p
}

// TestUnsandboxed: the profile none is for those who were allowed it, and a profile
// that does not exist is nobody's.
func TestUnsandboxed(t *testing.T) {
	m := open(t, terminal.Options{Root: realDir(t), State: realDir(t)})
	for profile, code := range map[string]tool.Code{"none": tool.Denied, "weird": tool.InvalidArguments} {
		if _, err := m.Exec(context.Background(), terminal.ExecRequest{Command: "true", Profile: profile}, terminal.Feedback{}); tool.CodeOf(err) != code {
			t.Errorf("exec under %s: %v", profile, err)
		}
		if _, err := m.Open(context.Background(), terminal.OpenRequest{Profile: profile}, terminal.Feedback{}); tool.CodeOf(err) != code {
			t.Errorf("open under %s: %v", profile, err)
		}
	}
}

// TestWeak: where namespaces are refused, a sandbox without them can be had if that
// was agreed to, and says its gaps; without the agreement nothing runs.
func TestWeak(t *testing.T) {
	root := realDir(t)
	strict := open(t, terminal.Options{Root: root, State: realDir(t)})
	if !canBox() {
		if _, err := strict.Exec(context.Background(), terminal.ExecRequest{Command: "touch ran"}, terminal.Feedback{}); tool.CodeOf(err) != tool.NotAvailable {
			t.Errorf("without namespaces: %v", err)
		}
		if _, err := os.Stat(root + "/ran"); err == nil {
			t.Error("it ran wider than asked")
		}
	}
	m := open(t, terminal.Options{Root: root, State: realDir(t), Weak: true})
	r, err := m.Exec(context.Background(), terminal.ExecRequest{Command: "touch here ${TMPDIR:-/tmp}/there && ! touch /etc/terminal-test"}, terminal.Feedback{})
	if tool.CodeOf(err) == tool.NotAvailable && !canBox() {
		t.Skip(err) // its Landlock is too old
	}
	if err != nil || r.ExitCode == nil || *r.ExitCode != 0 || strings.Contains(r.Sandbox, "gaps") == canBox() {
		t.Errorf("got %+v, %v", r, err)
	}
	id := session(t, m, terminal.OpenRequest{})
	if r := run(t, m, id, "touch $(mktemp) && echo made"); r.Output != "made\n" {
		t.Errorf("in a session: %+v", r)
	}
}
