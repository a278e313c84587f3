package terminal

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// control runs do with the descriptor of f, which stays as it is: Fd would make
// its reads wait where Close cannot reach them.
func control(f *os.File, do func(fd int)) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return c.Control(func(fd uintptr) { do(int(fd)) })
}

// modes are those of the other side of a terminal.
func modes(master *os.File) (canonical, echo, ok bool) {
	err := control(master, func(fd int) {
		if t, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
			canonical, echo, ok = t.Lflag&unix.ICANON != 0, t.Lflag&unix.ECHO != 0, true
		}
	})
	return canonical, echo, ok && err == nil
}

// setUp lets ^S be a key as any other, and ^? take back whole code points.
func setUp(master *os.File) {
	_ = control(master, func(fd int) {
		if t, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
			t.Iflag = t.Iflag&^unix.IXON | unix.IUTF8
			_ = unix.IoctlSetTermios(fd, unix.TCSETS, t)
		}
	})
}

// discard throws away what was typed and not read.
func discard(master *os.File) {
	_ = control(master, func(fd int) { _ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCOFLUSH) })
}

// readLocked reads once, and returns with mu held. It is taken before the read, so
// that what was read is nowhere in between.
func readLocked(f *os.File, mu *sync.Mutex, p []byte) (n int, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		mu.Lock()
		return 0, err
	}
	held := false
	closed := c.Read(func(fd uintptr) bool {
		mu.Lock()
		for {
			if n, err = unix.Read(int(fd), p); err != unix.EINTR {
				break
			}
		}
		if err == unix.EAGAIN {
			mu.Unlock()
			return false
		}
		held = true
		return true
	})
	if !held {
		mu.Lock()
		return 0, closed
	}
	return n, err
}

// readable tells whether there is something to read. For a terminal the kernel
// first delivers what it holds back.
func readable(f *os.File) bool {
	yes := false
	_ = control(f, func(fd int) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		yes = err == nil && n > 0 && p[0].Revents&unix.POLLIN != 0
	})
	return yes
}

// tellsRunning: the state of a process says whether it runs or waits.
const tellsRunning = true

// maxThreads bounds the threads of a program that are looked at.
const maxThreads = 256

// blocked tells whether a thread of the process waits for a terminal's input:
// surely, in read, or perhaps, among other things. hidden: nobody may see what it
// does, since it has another user's rights.
func blocked(pid int) (reading, polling, hidden bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	f, err := os.Open(dir + "/task")
	if err != nil {
		return false, false, false
	}
	defer f.Close()
	tasks, _ := f.Readdirnames(maxThreads)
	for _, t := range tasks {
		b, err := os.ReadFile(dir + "/task/" + t + "/syscall")
		if err != nil {
			hidden = hidden || errors.Is(err, fs.ErrPermission)
			continue
		}
		words := strings.Fields(string(b))
		if len(words) < 2 {
			continue // it runs
		}
		nr, err := strconv.Atoi(words[0])
		if err != nil {
			continue
		}
		fd, err := strconv.ParseUint(strings.TrimPrefix(words[1], "0x"), 16, 64)
		if err != nil {
			continue
		}
		switch {
		case nr == unix.SYS_READ || nr == unix.SYS_READV:
			reading = reading || isTerminal(dir, fd)
		case nr == unix.SYS_EPOLL_PWAIT || nr == sysEpollWait || nr == unix.SYS_EPOLL_PWAIT2:
			polling = polling || watches(dir, fd)
		case nr == unix.SYS_PSELECT6 || nr == unix.SYS_PPOLL || nr == sysSelect || nr == sysPoll:
			polling = true // what for stands in its memory
		}
	}
	return reading, polling, hidden
}

// Numbers of calls that only amd64 has; arm64 has others for them.
var sysPoll, sysSelect, sysEpollWait = func() (int, int, int) {
	if goruntime.GOARCH == "amd64" {
		return 7, 23, 232
	}
	return -1, -1, -1
}()

// isTerminal tells whether a descriptor of a process is a pseudo terminal, or
// /dev/tty. All that a unit has are its own.
func isTerminal(dir string, fd uint64) bool {
	var st unix.Stat_t
	if unix.Stat(dir+"/fd/"+strconv.FormatUint(fd, 10), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return false
	}
	major := unix.Major(st.Rdev)
	return major >= 136 && major <= 143 || major == 5 && unix.Minor(st.Rdev) == 0
}

// watches tells whether an epoll descriptor has a terminal among what it waits for.
func watches(dir string, fd uint64) bool {
	b, err := os.ReadFile(dir + "/fdinfo/" + strconv.FormatUint(fd, 10))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if len(words) > 1 && words[0] == "tfd:" {
			if n, err := strconv.ParseUint(words[1], 10, 32); err == nil && isTerminal(dir, n) {
				return true
			}
		}
	}
	return false
}

// directory is where a process is, in its own view; "" if nobody can tell. gone:
// the directory was removed.
func directory(pid int) (dir string, gone bool) {
	if pid == 0 {
		return "", false
	}
	dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err != nil {
		return "", false
	}
	return strings.CutSuffix(dir, " (deleted)")
}

func executable(pid int) string {
	file, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(file, " (deleted)")
}

// openPath opens a directory for no more than being named.
func openPath(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

func tryLock(f *os.File) bool {
	locked := false
	_ = control(f, func(fd int) { locked = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil })
	return locked
}

// endLeft kills what still runs of entries: their leaders, and whatever has their
// mark in its environment.
func endLeft(open map[string]entry, tags map[string]bool) {
	if len(open) == 0 {
		return
	}
	boot := bootID()
	leaders := map[int]uint64{}
	for _, e := range open {
		if e.Boot == boot && e.Pid > 1 {
			leaders[e.Pid] = e.Start
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		left := marked(leaders, tags)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = unix.Kill(pid, syscall.SIGKILL)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func marked(leaders map[int]uint64, tags map[string]bool) []int {
	var left []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid <= 1 || pid == os.Getpid() {
			continue
		}
		start, ours := leaders[pid]
		if ours && start == startOf(pid) {
			left = append(left, pid)
			continue
		}
		env, err := os.ReadFile(dir + "/environ")
		if err != nil {
			continue
		}
		if slices.ContainsFunc(bytes.Split(env, []byte{0}), func(kv []byte) bool {
			tag, ok := bytes.CutPrefix(kv, []byte(tagName+"="))
			return ok && tags[string(tag)]
		}) {
			left = append(left, pid)
		}
	}
	return left
}

// startOf is when a process began, in clock ticks since boot; 0 if it is gone, or
// dead and not buried.
func startOf(pid int) uint64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	words := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(words) < 20 || words[0] == "Z" {
		return 0
	}
	n, _ := strconv.ParseUint(words[19], 10, 64)
	return n
}
