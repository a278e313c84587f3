//go:build amd64 || arm64

package proctree_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/internal/proctree"
)

// Roles of the test binary in the suite of escapes.
const (
	attackRole = "PROCTREE_TEST_ATTACK"
	sceneRole  = "PROCTREE_TEST_SCENE"
	whoRole    = "PROCTREE_TEST_WHO"
	baseRole   = "PROCTREE_TEST_BASE"
)

// Exit codes of an attacker.
const (
	attackDone    = 0
	attackRefused = 3
	attackNotHere = 4
)

func attack(name string) int {
	var s scene
	if err := json.Unmarshal([]byte(os.Getenv(sceneRole)), &s); err != nil {
		fmt.Println(err)
		return 1
	}
	err := attacks[name](&s)
	switch {
	case errors.Is(err, errNotHere):
		fmt.Println(err)
		return attackNotHere
	case err != nil:
		fmt.Println(err)
		return attackRefused
	}
	return attackDone
}

// sceneBase is a folder outside /tmp and /run, which a sandbox has of its own:
// there an attack would fail for want of a target.
func sceneBase(t *testing.T) string {
	t.Helper()
	var candidates []string
	if dir := os.Getenv(baseRole); dir != "" {
		candidates = append(candidates, dir)
	}
	if home, err := os.UserHomeDir(); err == nil {
		candidates = append(candidates, home)
	}
	for _, c := range append(candidates, ".") {
		dir, err := os.MkdirTemp(c, "proctree-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			real, err = filepath.Abs(real)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(real, "/tmp/") && !strings.HasPrefix(real, "/run/") && !strings.HasPrefix(real, "/var/tmp/") {
			return real
		}
	}
	t.Skip("there is no place for the scene outside /tmp and /run")
	return ""
}

// build makes the scene's files as they were.
func (s *scene) build(t *testing.T) {
	t.Helper()
	for _, dir := range []string{s.Workspace, s.Outside, s.Secret} {
		os.MkdirAll(dir, 0o755)
		l, _ := os.ReadDir(dir)
		for _, e := range l {
			if e.Type() != fs.ModeSocket && e.Name() != "suid" {
				os.RemoveAll(dir + "/" + e.Name())
			}
		}
	}
	os.Mkdir(s.Outside+"/folder", 0o755)
	files := map[string]string{
		s.Outside + "/file": "outside", s.Outside + "/remove": "outside", s.Outside + "/other": "outside",
		s.Secret + "/key": secretText, s.Protected: "protected",
	}
	if s.Env != "" {
		files[s.Env] = secretText
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// listing is everything about the files below dir that must not change.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err != nil || unix.Lstat(path, &st) != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var text []byte
		if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size < 1000 {
			text, _ = os.ReadFile(path)
		}
		fmt.Fprintf(&b, "%s %o %d:%d %d %d %q\n", path, st.Mode, st.Uid, st.Gid, st.Nlink, st.Mtim.Nano(), text)
		return nil
	})
	return b.String()
}

func listen(t *testing.T, network, address string) net.Addr {
	t.Helper()
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
			c.Close()
		}
	}()
	return l.Addr()
}

// otherTerminal is a terminal of this user that is not the attacker's.
func otherTerminal(t *testing.T) string {
	t.Helper()
	m, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	t.Cleanup(func() { m.Close() })
	var unlock int32
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, m.Fd(), unix.TIOCSPTLCK, uintptr(unsafe.Pointer(&unlock))); e != 0 {
		t.Fatal(e)
	}
	n, err := unix.IoctlGetInt(int(m.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("/dev/pts/%d", n)
}

// weakGaps are the attacks that succeed in a sandbox without namespaces.
// Active.Gaps says so.
var weakGaps = []string{
	"change a mode outside", "change an owner outside", "change a time outside",
	"write a protected file", "replace a protected file", "list a secret folder",
}

// uncontrolled are the attacks that a machine may refuse for reasons of its own.
var uncontrolled = []string{"read a secret through init"}

// rootOnly are the attacks for which a user needs no sandbox to be refused.
var rootOnly = []string{
	"change the host's name", "change the root", "copy a mount", "count events", "load a filter program", "mount by descriptor",
	"read a helper's memory", "set a kernel parameter", "trace its helper", "use the keyring", "handle page faults",
}

// TestEscape runs every attack under every profile, where it must be refused
// and leave no trace, and without one, where it must succeed: or the refusal
// would prove nothing.
func TestEscape(t *testing.T) {
	base := sceneBase(t)
	s := scene{
		Workspace: base + "/workspace", Outside: base + "/outside", Secret: base + "/secret",
		Env: base + "/workspace/.env", Protected: base + "/workspace/protected", Server: os.Getpid(),
	}
	s.build(t)
	s.Socket, s.Foreign = s.Secret+"/private.sock", s.Outside+"/foreign.sock"
	s.Abstract = fmt.Sprintf("@proctree-test-%d", os.Getpid())
	listen(t, "unix", s.Socket)
	listen(t, "unix", s.Foreign)
	listen(t, "unix", s.Abstract)
	s.TCP = listen(t, "tcp", "127.0.0.1:0").(*net.TCPAddr).Port
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close() })
	go func() {
		for b := make([]byte, 1); ; {
			_, from, err := udp.ReadFrom(b)
			if err != nil {
				return
			}
			udp.WriteTo(b, from)
		}
	}()
	s.UDP = udp.LocalAddr().(*net.UDPAddr).Port
	s.Terminal = otherTerminal(t)
	var st unix.Stat_t
	if err := unix.Stat(s.Terminal, &st); err != nil {
		t.Fatal(err)
	}
	s.TerminalDev = st.Dev
	victim := exec.Command("sleep", "600")
	victim.Env = []string{"SCENE_KEY=" + secretText}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { victim.Process.Kill(); victim.Wait() })
	s.Victim = victim.Process.Pid
	if mighty() {
		s.Setuid = s.Outside + "/suid"
		self, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(s.Setuid, self, 0o755), os.Chown(s.Setuid, 12345, 12345), unix.Chmod(s.Setuid, 0o4755)); err != nil {
			t.Fatal(err)
		}
	}

	h, weakHost, wrapHost := open(t), open(t), open(t)
	proctree.ForbidBox(weakHost, false)
	proctree.ForbidBox(wrapHost, true)
	full := proctree.Profile{
		Name: proctree.WorkspaceWrite, Network: proctree.NetworkLoopback, Write: []string{s.Workspace}, Protect: []string{s.Protected},
		Hide: []string{s.Secret, s.Env}, Tmp: realDir(t),
	}
	readOnly := full
	readOnly.Name, readOnly.Write = proctree.ReadOnly, nil
	weak := full
	weak.Weak, weak.Hide = true, []string{s.Secret}
	names := slices.Sorted(maps.Keys(attacks))
	worked := map[string]bool{}
	for _, c := range []struct {
		name    string
		host    *proctree.Host
		profile proctree.Profile
		gaps    []string
	}{
		{"none", h, proctree.Profile{Name: proctree.None}, names},
		{"workspace-write", h, full, nil},
		{"read-only", h, readOnly, nil},
		{"bubblewrap", wrapHost, full, nil},
		{"weak", weakHost, weak, weakGaps},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s
			if c.profile.Weak {
				os.Remove(s.Env)
				s.Env = ""
			}
			s.build(t)
			sibling := script("/", "echo ready; sleep 600")
			sibling.Profile = c.profile
			p, err := c.host.Start(context.Background(), sibling)
			var no *proctree.UnavailableError
			if errors.As(err, &no) && (c.host != h || !canBox()) { // no bubblewrap, no Landlock
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			readLine(t, p.Stdout)
			s.Sibling = p.Pid
			t.Logf("active: %+v", p.Active)
			for _, name := range names {
				s.build(t)
				before := listing(t, s.Outside) + listing(t, s.Secret)
				text, code := s.run(t, c.host, c.profile, name)
				expected := slices.Contains(c.gaps, name)
				switch {
				case c.profile.Name == proctree.None && code == attackDone:
					worked[name] = true
				case c.profile.Name == proctree.None && (code == attackNotHere || slices.Contains(uncontrolled, name) || !mighty() && slices.Contains(rootOnly, name) || strings.Contains(text, "not supported")):
					t.Logf("%s: no control: %s", name, text)
				case code == attackDone && !expected:
					t.Errorf("%s: it succeeded", name)
				case code == attackRefused && expected:
					t.Errorf("%s: refused (%s); want success", name, text)
				case code != attackDone && code != attackRefused && code != attackNotHere:
					t.Errorf("%s: exit code %d: %s", name, code, text)
				}
				if testing.Verbose() && code == attackRefused {
					t.Logf("%s: %s", name, text)
				}
				if after := listing(t, s.Outside) + listing(t, s.Secret); after != before && !expected {
					t.Errorf("%s: it left traces:\n%s\nbefore:\n%s", name, after, before)
				}
			}
		})
	}
	// What cannot be had as this user, or with this kernel, has no control; all
	// else must have worked.
	if mighty() && len(worked) < len(names)-6 || len(worked) < len(names)/2 {
		t.Errorf("only %d of %d attacks have a control", len(worked), len(names))
	}
}

func (s *scene) run(t *testing.T, h *proctree.Host, profile proctree.Profile, name string) (string, int) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	// A directory opened outside must not lead outside.
	dir, err := os.Open(s.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	env := []string{attackRole + "=" + name, sceneRole + "=" + string(text)}
	if mighty() {
		env = append(env, mightyRole+"=1")
	}
	p := start(t, h, proctree.Spec{
		Path: "/proc/self/exe", Argv: []string{"attacker"}, Env: env,
		Dir: s.Workspace, DirFile: dir, TTY: &proctree.Size{Cols: 200, Rows: 24}, Profile: profile,
	})
	out, e := finish(t, p)
	p.Close()
	if e.Signal != 0 {
		return e.Signal.String(), -1
	}
	return strings.TrimSpace(out), e.Code
}

// TestUnprivileged runs what differs for a user who is not root.
func TestUnprivileged(t *testing.T) {
	if !mighty() {
		t.Skip("only root with all rights can become another user")
	}
	const nobody = 65534
	var base string
	for _, dir := range []string{"/srv", "/opt", "/var/lib"} {
		d, err := os.MkdirTemp(dir, "proctree-test-")
		if err == nil {
			base = d
			break
		}
	}
	if base == "" {
		t.Skip("no place for the scene")
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	tmp, err := os.MkdirTemp("/tmp", "proctree-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	if err := errors.Join(os.Chown(base, nobody, nobody), os.Chown(tmp, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	args := []string{"-test.run=^(TestEscape|TestProcessLimit|TestPlaces|TestGuardsAreRenewed|TestWorkInside)$"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + base, "TMPDIR=" + tmp, baseRole + "=" + base}
	cmd.Dir = base
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || testing.Verbose() {
		t.Logf("%s", out)
	}
	if err != nil {
		t.Error(err)
	}
}
