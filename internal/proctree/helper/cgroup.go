//go:build linux && (amd64 || arm64)

package helper

import (
	"os"
	"slices"
	"strconv"
	"syscall"
)

// cgroup is a control group of our own for one reaper's trees. Where one can be
// had, one write kills all its members at once, also while they fork.
type cgroup struct {
	dir   string
	fd    int
	most  uint64 // processes, if it can limit them
	spent bool   // killed: some kernels then kill whatever is born into it
}

// cgroupBase is the folder of this process's own control group; "" where there
// is no version 2, or it is not ours to divide.
func cgroupBase() string {
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	path := ""
	for _, line := range lines(self) {
		if rest, ok := cutPrefix(line, "0::"); ok {
			path = rest
		}
	}
	if path == "" {
		return ""
	}
	for _, line := range lines(mounts) {
		// "id parent device root at options [tags] - type source options"
		f := fields(line)
		i := slices.Index(f, "-")
		if i < 6 || len(f) < i+2 || f[i+1] != "cgroup2" {
			continue
		}
		root, at := f[3], f[4]
		if root != "/" {
			rest, ok := cutPrefix(path, root)
			if !ok {
				continue
			}
			path = rest
		}
		if path == "/" {
			path = ""
		}
		return at + path
	}
	return ""
}

// The package strings has work to do at initialisation; see hook.go.

func lines(b []byte) []string { return split(string(b), '\n') }

func fields(s string) []string {
	return slices.DeleteFunc(split(s, ' '), func(f string) bool { return f == "" })
}

func split(s string, sep byte) (l []string) {
	start := 0
	for i := range len(s) {
		if s[i] == sep {
			l = append(l, s[start:i])
			start = i + 1
		}
	}
	return append(l, s[start:])
}

func cutPrefix(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || s[:len(prefix)] != prefix {
		return s, false
	}
	return s[len(prefix):], true
}

// newCgroup makes a group for the reaper pid; nil where it cannot.
func newCgroup(base string, pid int, processes uint64) *cgroup {
	if base == "" {
		return nil
	}
	g := &cgroup{dir: cgroupDir(base, pid), most: processes}
	if !g.make() {
		return nil
	}
	return g
}

func (g *cgroup) make() bool {
	if syscall.Mkdir(g.dir, 0o755) != nil {
		return false
	}
	fd, err := syscall.Open(g.dir, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil || syscall.Access(g.dir+"/cgroup.kill", 2) != nil {
		syscall.Close(fd)
		syscall.Rmdir(g.dir)
		return false
	}
	if g.most > 0 && writeFile(g.dir+"/pids.max", strconv.FormatUint(g.most, 10)) != nil {
		g.most = 0
	}
	g.fd, g.spent = fd, false
	return true
}

// renew makes a spent group usable; false if there is none any more.
func (g *cgroup) renew() bool {
	if !g.spent {
		return true
	}
	g.remove()
	return g.make()
}

func cgroupDir(base string, pid int) string { return base + "/wasmtools-" + strconv.Itoa(pid) }

func (g *cgroup) kill() {
	g.spent = true
	writeFile(g.dir+"/cgroup.kill", "1")
}

// remove is for an empty group.
func (g *cgroup) remove() {
	syscall.Close(g.fd)
	syscall.Rmdir(g.dir)
}

func writeFile(path, text string) error {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	_, err = syscall.Write(fd, []byte(text))
	return err
}
