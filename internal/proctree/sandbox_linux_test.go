//go:build amd64 || arm64

package proctree_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/wasmtools/wasmtools/internal/proctree"
)

// sandboxed runs bash in a profile and returns what it prints.
func sandboxed(t *testing.T, h *proctree.Host, p proctree.Profile, dir, text string) string {
	t.Helper()
	s := script(dir, text)
	s.Profile = p
	q := start(t, h, s)
	out, _ := finish(t, q)
	if err := q.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replace does what an editor does on saving.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestGuardsAreRenewed: a file that somebody outside replaces loses what was
// mounted on it. The next start, and Refresh, put it back.
func TestGuardsAreRenewed(t *testing.T) {
	needBox(t)
	h := open(t)
	ws := realDir(t)
	write(t, ws+"/.env", "secret")
	write(t, ws+"/config", "first")
	profile := proctree.Profile{
		Name: proctree.WorkspaceWrite, Network: proctree.NetworkOff, Write: []string{ws}, Tmp: realDir(t),
		Hide: []string{ws + "/.env", ws + "/.env.later"}, Protect: []string{ws + "/config"},
	}
	const look = "cat .env .env.* 2>/dev/null; printf mine 2>/dev/null >config; cat config"
	if got := sandboxed(t, h, profile, ws, look); got != "first" {
		t.Fatalf("got %q; want the secret hidden and the file unchanged", got)
	}
	replace(t, ws+"/.env", "secret")
	replace(t, ws+"/config", "second")
	write(t, ws+"/.env.later", "secret") // known to the profile, but not there then
	if got := sandboxed(t, h, profile, ws, look); got != "second" {
		t.Fatalf("the next tree got %q", got)
	}

	s := script(ws, "while read x; do "+look+"; echo; done")
	s.Profile, s.Stdin = profile, true
	p := start(t, h, s)
	step := func() string {
		p.Stdin.WriteString("go\n")
		return readLine(t, p.Stdout)
	}
	if got := step(); got != "second" {
		t.Errorf("in a session: %q", got)
	}
	replace(t, ws+"/.env", "secret")
	replace(t, ws+"/config", "third")
	write(t, ws+"/.env.unknown", "secret")
	if got := step(); !strings.Contains(got, "secretsecret") { // the control: both are bare now
		t.Errorf("before Refresh: %q; the guards seem to hold without it", got)
	}
	replace(t, ws+"/config", "third")
	if err := p.Refresh(context.Background(), []string{ws + "/.env.unknown"}, nil); err != nil {
		t.Fatalf("Refresh() = %v", err)
	}
	if got := step(); got != "third" {
		t.Errorf("after Refresh: %q", got)
	}
	if err := p.Refresh(context.Background(), []string{"relative"}, nil); err == nil {
		t.Error("Refresh takes a relative path")
	}
}

// TestPlaces: what lies in private or hidden places is seen where it was asked
// for, and nothing beside it.
func TestPlaces(t *testing.T) {
	needBox(t)
	h := open(t)
	state := realDir(t) // hidden, and the workspace lies in it; all of it in /tmp
	ws, other := state+"/deep/workspace", state+"/deep/other"
	for _, d := range []string{ws, other} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, d+"/file", "text")
	}
	tmp := realDir(t)
	profile := proctree.Profile{Name: proctree.WorkspaceWrite, Network: proctree.NetworkOff, Write: []string{ws}, Hide: []string{state}, Tmp: tmp}
	got := sandboxed(t, h, profile, ws, "cat file; echo; echo new >made && cat made; cat ../other/file 2>/dev/null || echo hidden; ls "+other+" 2>/dev/null; echo kept >/tmp/kept; cat /var/tmp/kept; pwd")
	if want := "text\nnew\nhidden\nkept\n" + ws + "\n"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if b, err := os.ReadFile(ws + "/made"); err != nil || string(b) != "new\n" {
		t.Errorf("the workspace has %q, %v", b, err)
	}
	if b, err := os.ReadFile(tmp + "/kept"); err != nil || string(b) != "kept\n" {
		t.Errorf("the temporary directory has %q, %v", b, err)
	}
	read := profile
	read.Name, read.Write, read.Read = proctree.ReadOnly, nil, []string{ws}
	if got := sandboxed(t, h, read, ws, "cat file; echo; echo x 2>/dev/null >made || echo refused"); got != "text\nrefused\n" {
		t.Errorf("read-only: %q", got)
	}
	// A /tmp in memory is one tree's own.
	read.Tmp = ""
	for range 2 {
		if got := sandboxed(t, h, read, ws, "ls /tmp/mine 2>/dev/null; echo x >/tmp/mine && echo made"); got != "made\n" {
			t.Errorf("memory: %q", got)
		}
	}
}

// TestPlantedLink: a program in the sandbox must not choose what is writable in
// the next one, by a link where a directory of the profile was.
func TestPlantedLink(t *testing.T) {
	needBox(t)
	h := open(t)
	base := sceneBase(t)
	ws := base + "/workspace"
	os.MkdirAll(ws+"/cache", 0o755)
	os.Mkdir(base+"/outside", 0o755)
	profile := proctree.Profile{Name: proctree.WorkspaceWrite, Network: proctree.NetworkOff, Write: []string{ws}, Tmp: realDir(t)}
	if got := sandboxed(t, h, profile, ws, "rmdir cache && ln -s ../outside cache && echo planted"); got != "planted\n" {
		t.Fatalf("got %q", got)
	}
	profile.Write = append(profile.Write, ws+"/cache")
	s := script(ws, "echo x >cache/escaped")
	s.Profile = profile
	p, err := h.Start(context.Background(), s)
	if err == nil {
		finish(t, p)
		p.Close()
	}
	var no *proctree.UnavailableError
	if !errors.As(err, &no) {
		t.Errorf("Start() = %v; want it to be refused", err)
	}
	if _, err := os.Stat(base + "/outside/escaped"); err == nil {
		t.Error("it has written outside")
	}
}

func TestUnavailable(t *testing.T) {
	needBox(t)
	h, weak := open(t), open(t)
	proctree.ForbidBox(weak, false)
	ws := realDir(t)
	write(t, ws+"/.env", "secret")
	good := proctree.Profile{Name: proctree.WorkspaceWrite, Network: proctree.NetworkOff, Write: []string{ws}, Tmp: realDir(t)}
	for _, c := range []struct {
		name   string
		host   *proctree.Host
		change func(*proctree.Profile)
		reason string
	}{
		{"no name", h, func(p *proctree.Profile) { p.Name = "" }, "no such profile"},
		{"unknown name", h, func(p *proctree.Profile) { p.Name = "readonly" }, "no such profile"},
		{"no network named", h, func(p *proctree.Profile) { p.Network = "" }, "off or loopback"},
		{"host network", h, func(p *proctree.Profile) { p.Network = "host" }, "off or loopback"},
		{"read-only that writes", h, func(p *proctree.Profile) { p.Name = proctree.ReadOnly }, "writes nowhere"},
		{"none with paths", h, func(p *proctree.Profile) { p.Name = proctree.None }, "restricts nothing"},
		{"all writable", h, func(p *proctree.Profile) { p.Write = []string{"/"} }, "without detours"},
		{"relative", h, func(p *proctree.Profile) { p.Hide = []string{"x"} }, "without detours"},
		{"detour", h, func(p *proctree.Profile) { p.Hide = []string{"/a/../b"} }, "without detours"},
		{"missing directory", h, func(p *proctree.Profile) { p.Write = []string{ws + "/none"} }, "no such file"},
		{"missing tmp", h, func(p *proctree.Profile) { p.Tmp = ws + "/none" }, "no such file"},
		{"no namespaces", weak, func(p *proctree.Profile) {}, "refused for a test"},
		{"weak, with a secret in the workspace", weak, func(p *proctree.Profile) { p.Weak, p.Hide = true, []string{ws + "/.env"} }, "cannot be hidden"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script(ws, "echo ran; cat .env")
			s.Profile = good
			c.change(&s.Profile)
			p, err := c.host.Start(context.Background(), s)
			if err == nil {
				p.Close()
			}
			var no *proctree.UnavailableError
			if !errors.As(err, &no) || !strings.Contains(no.Reason, c.reason) || no.Profile != s.Profile.Name {
				t.Errorf("Start() = %v; want UnavailableError with %q", err, c.reason)
			}
			if _, err := c.host.Probe(context.Background(), s.Profile); !errors.As(err, &no) {
				t.Errorf("Probe() = %v", err)
			}
		})
	}
	if got := sandboxed(t, h, good, ws, "echo ran"); got != "ran\n" { // the control
		t.Errorf("got %q", got)
	}
	a, err := h.Probe(context.Background(), good)
	if slices.Contains(a.Means, "bubblewrap") {
		t.Errorf("Probe() = %+v; want a box of our own", a)
	}
	if err != nil || a.Profile != proctree.WorkspaceWrite || a.Network != proctree.NetworkOff || len(a.Means) == 0 || len(a.Gaps) > 0 {
		t.Errorf("Probe() = %+v, %v", a, err)
	}
}

// TestWorkInside: what people do in a sandbox works there.
func TestWorkInside(t *testing.T) {
	needBox(t)
	h := open(t)
	base := sceneBase(t)
	profile := proctree.Profile{Name: proctree.WorkspaceWrite, Network: proctree.NetworkLoopback, Write: []string{base}, Tmp: realDir(t)}
	for _, c := range []struct{ name, text, want string }{
		{"modes", "touch f && chmod +x f && test -x f && echo ok", "ok\n"},
		{"moves between folders", "mkdir a b && touch a/f && mv a/f b/g && ln b/g b/h && ls b", "g\nh\n"},
		{"here documents", "cat <<X\n" + strings.Repeat("long ", 20000) + "\nX", strings.Repeat("long ", 20000) + "\n"},
		{"substitution", "cat <(echo one) <(echo two)", "one\ntwo\n"},
		{"devices", "echo x >/dev/null; head -c 3 /dev/urandom | wc -c; echo e >/dev/stderr", "3\ne\n"},
		{"terminals", "script -qec 'test -t 0 && tty' /dev/null | tr -d '\\r'", "/dev/pts/0\n"},
		{"pipes with names", "mkfifo p; (echo through >p &); cat p", "through\n"},
		{"signals", "sleep 600 & kill $! && wait $!; echo $?", "143\n"},
		{"shared memory", "echo x >/dev/shm/x && cat /dev/shm/x", "x\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sandboxed(t, h, profile, base, c.text); got != c.want {
				t.Errorf("%q: got %.200q; want %.200q", c.text, got, c.want)
			}
		})
	}
}

// TestProcessLimit: a user namespace counts the tree's own processes.
func TestProcessLimit(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("the kernel does not limit root; TestUnprivileged runs this as another user")
	}
	needBox(t)
	h := open(t)
	s := script("/", "for i in $(seq 100); do sleep 600 & done 2>/dev/null; jobs -p | wc -l")
	s.Profile = proctree.Profile{Name: proctree.ReadOnly, Network: proctree.NetworkOff, Tmp: realDir(t)}
	s.Limits.Processes = 40
	p := start(t, h, s)
	if !p.Active.Processes {
		t.Fatalf("Active = %+v; want the limit to hold", p.Active)
	}
	if m := waitMembers(t, p, func(m []proctree.Member) bool { return len(m) > 10 }); len(m) > 40 {
		t.Errorf("%d processes", len(m))
	}
}

// TestBubblewrap: where only bubblewrap may make namespaces, it does.
func TestBubblewrap(t *testing.T) {
	h := open(t)
	proctree.ForbidBox(h, true)
	base := sceneBase(t)
	ws, state := base+"/state/workspace", base+"/state"
	os.MkdirAll(ws+"/git", 0o755)
	write(t, ws+"/.env", "secret")
	write(t, ws+"/git/config", "protected")
	write(t, state+"/key", "secret")
	profile := proctree.Profile{
		Name: proctree.WorkspaceWrite, Network: proctree.NetworkLoopback, Write: []string{ws}, Tmp: realDir(t),
		Hide: []string{state, ws + "/.env"}, Protect: []string{ws + "/git"},
	}
	if _, err := h.Probe(context.Background(), profile); err != nil {
		t.Skip(err)
	}
	const text = `cat .env ../key 2>/dev/null; printf x 2>/dev/null >git/config; cat git/config; echo; echo new >made; cat made; cat /tmp/kept 2>/dev/null; echo kept >/tmp/kept; ps ax | grep -c bash; test -t 0 && tty`
	for _, want := range []string{"protected\nnew\n", "protected\nnew\nkept\n"} {
		s := script(ws, text)
		s.Profile = profile
		p := start(t, h, s)
		out, e := finish(t, p)
		if !strings.HasPrefix(out, want) || e.Code != 1 {
			t.Errorf("got %q, %+v; want %q", out, e, want)
		}
	}
	s := script(ws, "echo ready; sleep 600; true")
	s.Merge, s.TTY, s.Profile = false, &proctree.Size{Cols: 80, Rows: 24}, profile
	p := start(t, h, s)
	readLine(t, p.Terminal)
	m := waitMembers(t, p, func(m []proctree.Member) bool { return len(m) == 2 })
	if m[0].Pid != p.Pid || m[0].Name != "bash" {
		t.Errorf("members %+v; want the leader %d first, and nobody of bubblewrap's", m, p.Pid)
	}
	if err := p.Refresh(context.Background(), nil, nil); err != nil {
		t.Errorf("Refresh() = %v", err)
	}
	replace(t, ws+"/.env", "secret")
	if err := p.Refresh(context.Background(), nil, nil); err == nil {
		t.Error("Refresh says nothing of a secret that is bare")
	}
	kill(t, p, proctree.KillOptions{})
	gone(t, p)
}

// Other programs' sockets come and go while bubblewrap starts, which ends where
// a path that it was told to cover is gone.
func TestWrappedAmongChanges(t *testing.T) {
	h := open(t)
	proctree.ForbidBox(h, true)
	dir, err := os.MkdirTemp("/var/lib", "wasmtools-test-")
	if err != nil {
		t.Skip("needs a folder outside /tmp: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	profile := proctree.Profile{Name: proctree.WorkspaceWrite, Network: proctree.NetworkOff, Write: []string{realDir(t)}}
	begin := func() error {
		s := script("/", "echo ready")
		s.Profile = profile
		p, err := h.Start(context.Background(), s)
		if err == nil {
			readLine(t, p.Stdout)
			err = p.Close()
		}
		return err
	}
	var no *proctree.UnavailableError
	if err := begin(); errors.As(err, &no) {
		t.Skip(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if l, err := net.Listen("unix", dir+"/"+strconv.Itoa(i%100)); err == nil {
				l.Close()
			}
		}
	})
	for range 10 {
		if err := begin(); err != nil {
			t.Fatal(err)
		}
	}
}
