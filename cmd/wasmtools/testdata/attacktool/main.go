// Command attacktool tries to get out of the terminal's sandbox, one way after
// the other, and prints for each whether it came through. It reads what there is
// to attack from the file "scene.json", and harms nothing: what it writes it
// writes into the scene, and its signals say nothing.
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
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// scene is what there is to attack.
type scene struct {
	Outside   string // a directory
	SSH       string // a file below the home directory
	Cloud     string // another one
	State     string // a file of ours
	Cache     string // another one
	Config    string // our configuration
	Run       string // the folder of our sockets
	Home      string // our folder
	Ticket    string // that waits for a person
	Server    process
	Victim    process // another one of the same user
	Sibling   process // one of another session under the same profile
	Loopback  string  // addresses where somebody listens
	Elsewhere string  // one that is not loopback; "" for none
	UDP       string
	Unix      string // a socket in the file system
	Abstract  string
	Setuid    string // a program of another user; "" for none
	Secret    string // what files hold that nobody may read
}

// process is one; pids alone mean others elsewhere.
type process struct {
	Pid   int
	Start string // as /proc/PID/stat has it
}

// file is one of those that the system has of p.
func (p process) file(name string) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	if err != nil {
		return "", err
	}
	if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(f) < 20 || f[19] != p.Start {
		return "", errors.New("this pid is another process's")
	}
	return fmt.Sprintf("/proc/%d/%s", p.Pid, name), nil
}

// with does something with one of the files that the system has of p.
func (p process) with(name string, do func(path string) error) error {
	path, err := p.file(name)
	if err != nil {
		return err
	}
	return do(path)
}

func (p process) trace() error {
	runtime.LockOSThread()
	return p.with("", func(string) error {
		if err := syscall.PtraceAttach(p.Pid); err != nil {
			return err
		}
		var st syscall.WaitStatus
		_, _ = syscall.Wait4(p.Pid, &st, 0, nil)
		return syscall.PtraceDetach(p.Pid)
	})
}

// errNone: this machine has nothing of the kind.
var errNone = errors.New("there is none here")

type attack struct {
	name string
	do   func(s *scene) error
}

func main() {
	var s scene
	if len(os.Args) > 1 && os.Args[1] == "euid" {
		fmt.Println("euid", os.Geteuid())
		return
	}
	p, err := os.ReadFile("scene.json")
	if err == nil {
		err = json.Unmarshal(p, &s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if len(os.Args) > 1 {
		i := slices.IndexFunc(attacks, func(a attack) bool { return a.name == os.Args[1] })
		if err := attacks[i].do(&s); errors.Is(err, errNone) {
			fmt.Println("none")
		} else if err != nil {
			fmt.Println("refused", err)
		} else {
			fmt.Println("through")
		}
		return
	}
	// Each in a process of its own: one that is killed must not end the others.
	for _, a := range attacks {
		cmd := exec.Command("/proc/self/exe", a.name)
		cmd.Stdin = os.Stdin
		out, err := cmd.Output()
		word := strings.TrimSpace(string(out))
		if err != nil {
			word = "refused " + err.Error()
		}
		fmt.Printf("%s: %s\n", a.name, strings.ReplaceAll(word, "\n", " "))
	}
}

// reads tells whether a file can be read that holds the secret.
func (s *scene) reads(path string) error {
	p, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(p, []byte(s.Secret)) {
		err = errors.New("what it holds is something else")
	}
	return err
}

func writes(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n# attacked\n")
	return errors.Join(err, f.Close())
}

func dials(network, address string) error {
	if address == "" {
		return errNone
	}
	c, err := net.DialTimeout(network, address, 20*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	var b [5]byte
	_, err = c.Read(b[:])
	return err
}

// runs starts a program with a terminal of its own, as a person would have it.
func runs(name string, args ...string) (string, error) {
	m, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer m.Close()
	var n, unlock int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCGPTN: &n, syscall.TIOCSPTLCK: &unlock} {
		if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, m.Fd(), request, uintptr(unsafe.Pointer(arg))); e != 0 {
			return "", e
		}
	}
	t, err := os.OpenFile("/dev/pts/"+strconv.Itoa(int(n)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer t.Close()
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Run()
	return out.String(), err
}

func ioctl(request uintptr, arg unsafe.Pointer) error {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer tty.Close()
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), request, uintptr(arg)); e != 0 {
		return e
	}
	return nil
}

var attacks = []attack{
	// What each profile gives, and is to give.
	{"read the workspace", func(*scene) error { _, err := os.ReadFile("scene.json"); return err }},
	{"read the system", func(*scene) error { _, err := os.ReadFile("/etc/passwd"); return err }},
	{"write in the workspace", func(*scene) error { return writes("made") }},
	{"write in /tmp", func(*scene) error {
		f, err := os.CreateTemp("/tmp", "attacktool-")
		if err != nil {
			return err
		}
		f.Close()
		return os.Remove(f.Name())
	}},
	{"connect to itself", func(*scene) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			c.Close()
		}
		return err
	}},

	// Files.
	{"make a file outside", func(s *scene) error { return writes(s.Outside + "/new") }},
	{"change a file outside", func(s *scene) error { return writes(s.Outside + "/file") }},
	{"remove a file outside", func(s *scene) error { return os.Remove(s.Outside + "/remove") }},
	{"rename a file outside", func(s *scene) error { return os.Rename(s.Outside+"/rename", s.Outside+"/renamed") }},
	{"change a mode outside", func(s *scene) error { return os.Chmod(s.Outside+"/file", 0o777) }},
	{"write through a link", func(s *scene) error { return writes("link-outside/linked") }},
	{"write through the server's root", func(s *scene) error { return s.Server.with("root"+s.Outside+"/by-root", writes) }},
	{"write through the victim's directory", func(s *scene) error { return s.Victim.with("cwd/by-cwd", writes) }},
	{"read a secret of the workspace", func(s *scene) error { return s.reads(".env") }},
	{"read a secret by a link", func(s *scene) error { return s.reads("link-env") }},
	{"read a secret by another name", func(s *scene) error {
		defer os.Remove("other-name")
		if err := os.Link(".env", "other-name"); err != nil {
			return err
		}
		return s.reads("other-name")
	}},
	{"read a secret after moving it", func(s *scene) error {
		if err := os.Rename(".env", "moved"); err != nil {
			return err
		}
		defer os.Rename("moved", ".env")
		return s.reads("moved")
	}},
	{"read a key of the user", func(s *scene) error { return s.reads(s.SSH) }},
	{"read a credential of the user", func(s *scene) error { return s.reads(s.Cloud) }},
	{"read a key through the victim's root", func(s *scene) error { return s.Victim.with("root"+s.SSH, s.reads) }},
	{"read our state", func(s *scene) error { return s.reads(s.State) }},
	{"write our state", func(s *scene) error { return writes(s.State) }},
	{"read our cache", func(s *scene) error { return s.reads(s.Cache) }},
	{"write our cache", func(s *scene) error { return writes(s.Cache) }},
	{"read our configuration", func(s *scene) error { return s.reads(s.Config) }},
	{"write our configuration", func(s *scene) error { return writes(s.Config) }},
	{"add to our configuration", func(s *scene) error { return writes(s.Config + ".added") }},
	{"write what git runs", func(*scene) error { return writes(".git/hooks/pre-commit") }},

	// Network.
	{"connect to loopback", func(s *scene) error { return dials("tcp", s.Loopback) }},
	{"connect elsewhere", func(s *scene) error { return dials("tcp", s.Elsewhere) }},
	{"send to loopback", func(s *scene) error { return dials("udp", s.UDP) }},
	{"connect to a socket file", func(s *scene) error { return dials("unix", s.Unix) }},
	{"connect to an abstract socket", func(s *scene) error { return dials("unix", s.Abstract) }},
	{"open a raw packet socket", func(*scene) error {
		fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0)
		if err == nil {
			syscall.Close(fd)
		}
		return err
	}},

	// The terminal. What is put in takes a line back.
	{"type into the shell", func(*scene) error { c := byte(0x15); return ioctl(syscall.TIOCSTI, unsafe.Pointer(&c)) }},

	// Processes.
	{"trace a process", func(s *scene) error {
		return s.Victim.trace()
	}},
	{"trace a sibling", func(s *scene) error { return s.Sibling.trace() }},
	{"read a sibling's memory", func(s *scene) error {
		return s.Sibling.with("mem", func(path string) error {
			f, err := os.Open(path)
			if err == nil {
				f.Close()
			}
			return err
		})
	}},
	{"read a process's memory", func(s *scene) error {
		return s.Victim.with("mem", func(path string) error {
			f, err := os.Open(path)
			if err == nil {
				f.Close()
			}
			return err
		})
	}},
	{"read a process's environment", func(s *scene) error { return s.Victim.with("environ", s.reads) }},
	{"read the server's environment", func(s *scene) error { return s.Server.with("environ", s.reads) }},
	{"read any environment", func(s *scene) error {
		all, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range all {
			if s.reads(path) == nil {
				return nil
			}
		}
		return errors.New("none of them holds it")
	}},
	{"see the server's descriptors", func(s *scene) error {
		return s.Server.with("fd", func(path string) error { _, err := os.ReadDir(path); return err })
	}},
	{"signal the server", func(s *scene) error {
		return s.Server.with("", func(string) error { return syscall.Kill(s.Server.Pid, syscall.SIGWINCH) })
	}},
	{"signal a process", func(s *scene) error {
		return s.Victim.with("", func(string) error { return syscall.Kill(s.Victim.Pid, syscall.SIGWINCH) })
	}},
	{"become another user", func(s *scene) error {
		if s.Setuid == "" {
			return errNone
		}
		out, err := exec.Command(s.Setuid, "euid").Output()
		if err == nil && strings.TrimSpace(string(out)) == "euid "+strconv.Itoa(os.Geteuid()) {
			err = errors.New("it runs as the same user")
		}
		return err
	}},

	// Our channel.
	{"open our socket", func(s *scene) error {
		names, err := filepath.Glob(s.Run + "/*/*")
		if err != nil || len(names) == 0 {
			return fmt.Errorf("no socket is seen: %v", err)
		}
		for _, name := range names { // whole paths are too long for addresses at times
			if err = os.Chdir(filepath.Dir(name)); err != nil {
				continue
			}
			c, derr := net.Dial("unix", filepath.Base(name))
			if derr == nil {
				c.Close()
				return nil
			}
			err = derr
		}
		return err
	}},
	{"answer for the person", func(s *scene) error {
		cmd := []string{"env", "WASMTOOLS_HOME=" + s.Home, "./wasmtools", "approvals", "allow", s.Ticket}
		out, err := runs(cmd[0], cmd[1:]...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}},
}
