package terminal_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/terminal"
)

// need skips a test of programs that are not installed, unless WASMTOOLS_REQUIRE
// says that all shells are. It returns the path of the last one.
func need(t testing.TB, programs ...string) (path string) {
	t.Helper()
	for _, name := range programs {
		var err error
		if path, err = exec.LookPath(name); err == nil {
			continue
		}
		for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
			if p, serr := exec.LookPath(dir + name); serr == nil {
				path, err = p, nil
				break
			}
		}
		switch {
		case err == nil:
		case strings.Contains(","+os.Getenv("WASMTOOLS_REQUIRE")+",", ",shells,"):
			t.Fatalf("%s is not installed, and WASMTOOLS_REQUIRE names shells", name)
		default:
			t.Skipf("%s is not installed", name)
		}
	}
	return path
}

// TestSSH: a shell on another machine has no marks; the kernel tells how it stands,
// what is typed there is a command, and leaving it ends the command that led there.
func TestSSH(t *testing.T) {
	t.Parallel()
	need(t, "ssh", "ssh-keygen")
	sshd := need(t, "sshd")
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	dir := realDir(t)
	for _, key := range []string{"host", "mine"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir+"/"+key).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	config := fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %[2]s/mine.pub\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nPrintMotd no\nPrintLastLog no\n", port, dir)
	if err := os.WriteFile(dir+"/config", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := exec.Command(sshd, "-D", "-e", "-f", dir+"/config")
	if os.Getuid() == 0 { // a server of root's wants a directory of the system
		serve = exec.Command("unshare", "-m", "sh", "-c", `mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"`, "sh", sshd, "-D", "-e", "-f", dir+"/config")
	}
	var log strings.Builder
	serve.Stderr = &log
	serve.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = serve.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-serve.Process.Pid, syscall.SIGTERM)
		<-ended
	})
	for deadline := time.Now().Add(patience); ; {
		if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
			c.Close()
			break
		}
		select {
		case <-ended:
			t.Skipf("sshd does not run: %s", log.String())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("sshd does not listen")
		}
	}
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	login := fmt.Sprintf("ssh -tt -p %d -i %s/mine -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR %s@127.0.0.1 'PS1=far-off- exec sh -i'", port, dir, me.Username)
	r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: login, Until: until(t, "regex:far-off-"), Yield: patience}, terminal.Feedback{})
	if err != nil || r.Reason != "regex" || !strings.HasPrefix(r.Foreground, "ssh") {
		t.Fatalf("got %+v, %v", r, err)
	}
	x := terminal.NewTool(m, nil)
	if r, _ := call(t, x, `{"op":"send","session":"`+id+`","text":"y\n"}`); !r.IsError {
		t.Error("what is typed into ssh is no command")
	}
	if r, err = m.Send(ctx, terminal.SendRequest{ID: id, Text: "echo over $((40+2)); exit 7\n"}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: patience}, terminal.Feedback{})
	if err != nil || r.State != terminal.Finished || !strings.Contains(r.Output, "over 42\n") || r.ExitCode == nil || *r.ExitCode != 7 {
		t.Errorf("got %+v, %v", r, err)
	}
	if r := run(t, m, id, "echo here"); r.Output != "here\n" {
		t.Errorf("afterwards %+v", r)
	}
}

// TestSudo: what is typed into a program that runs as another user is a command.
func TestSudo(t *testing.T) {
	t.Parallel()
	need(t, "sudo")
	if out, err := exec.Command("sudo", "-n", "true").CombinedOutput(); err != nil {
		t.Skipf("sudo asks: %s", out)
	}
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "sudo sh -c 'echo asks; read x; echo got $x; exit 5'", Until: until(t, "regex:^asks$"), Yield: patience}, terminal.Feedback{})
	if err != nil || r.Reason != "regex" {
		t.Fatalf("got %+v, %v", r, err)
	}
	if r, _ := call(t, terminal.NewTool(m, nil), `{"op":"send","session":"`+id+`","text":"y\n"}`); !r.IsError {
		t.Error("what is typed into sudo is no command")
	}
	if _, err := m.Send(ctx, terminal.SendRequest{ID: id, Text: "it\n"}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: patience}, terminal.Feedback{})
	if err != nil || !strings.Contains(r.Output, "got it\n") || r.ExitCode == nil || *r.ExitCode != 5 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestSecretOfAnotherUser: a program that has another user's rights, as sudo has,
// shows nobody in what call it waits. That it asks for a password is seen all the same.
func TestSecretOfAnotherUser(t *testing.T) {
	if os.Getenv("TERMINAL_TEST_SUID") == "" {
		if os.Getuid() != 0 {
			t.Skip("only root can make a program that runs as root")
		}
		asNobody(t, "^TestSecretOfAnotherUser$")
		return
	}
	m := open(t, terminal.Options{Root: realDir(t), State: realDir(t), Profile: proctree.None, AllowUnsandboxed: true})
	id := session(t, m, terminal.OpenRequest{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := os.Getenv("TERMINAL_TEST_SUID") + ` -p -c 'read -s -p "password: " x; echo; echo ${#x} $EUID'`
	r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: command, Until: until(t, "input"), Yield: patience}, terminal.Feedback{})
	if err != nil || r.State != terminal.WaitingForSecret || r.Output != "password: " {
		t.Fatalf("got %+v, %v", r, err)
	}
	if _, err := m.Send(ctx, terminal.SendRequest{ID: id, Text: "12345\n"}, terminal.Feedback{}); err == nil {
		t.Error("a secret is taken as text")
	}
	j, err := m.Join(id, func([]byte) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Leave()
	if err := j.Type([]byte("12345\r")); err != nil { // a person may
		t.Fatal(err)
	}
	r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: patience}, terminal.Feedback{})
	if err != nil || r.Output != "password: \n5 0\n" {
		t.Errorf("got %+v, %v; want the program to have run as root", r, err)
	}
}

// asNobody runs a test once more as a user without rights, who finds a bash that
// runs as root.
func asNobody(t *testing.T, test string) {
	t.Helper()
	const nobody = 65534
	dir, err := os.MkdirTemp("", "terminal-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(bash)
	if err != nil {
		t.Fatal(err)
	}
	suid := dir + "/suid"
	if err := errors.Join(os.WriteFile(suid, text, 0o755), os.Chmod(suid, 0o755|os.ModeSetuid), os.Mkdir(dir+"/home", 0o700), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir+"/home", nobody, nobody); err != nil {
		t.Skipf("there are no other users here: %v", err)
	}
	as := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	who := exec.Command(suid, "-p", "-c", "echo $EUID")
	who.SysProcAttr = as
	if out, err := who.CombinedOutput(); err != nil || string(out) != "0\n" {
		t.Skipf("no program can run as root here: %s%v", out, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run="+test)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir + "/home", "TMPDIR=" + dir + "/home", "TERMINAL_TEST_SUID=" + suid}
	cmd.Dir, cmd.SysProcAttr = dir+"/home", as
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as another user: %v\n%s", err, out)
	}
}
