//go:build linux

// Package walk finds the descendants of a process in /proc and signals them
// without hitting a stranger that has inherited a number.
//
// A list is a picture: what is forked while it is taken may be missing. Who
// must have all of them takes pictures until one is empty.
package walk

import (
	"io"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// Max is how many processes a list holds at most.
const Max = 4096

// Process is one process as /proc/PID/stat has it.
type Process struct {
	Pid, Parent, Group, Session int
	Start                       uint64 // clock ticks since boot
	State                       byte
	Name                        string
}

// Stat reads one process; false if there is none.
func Stat(pid int) (Process, bool) {
	var buf [1024]byte
	b := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	p, ok := parseStat(b)
	return p, ok && p.Pid == pid
}

// parseStat reads "pid (name) state ppid pgrp session ... start ...": the name
// may hold anything, also spaces and parentheses, so its end is the last one.
func parseStat(b []byte) (p Process, ok bool) {
	open, end := -1, -1
	for i, c := range b {
		if c == '(' && open < 0 {
			open = i
		}
		if c == ')' {
			end = i
		}
	}
	if open < 2 || end < open || end+2 >= len(b) || b[open-1] != ' ' || b[end+1] != ' ' {
		return p, false
	}
	if p.Pid, ok = number(b[:open-1]); !ok {
		return p, false
	}
	p.Name = string(b[open+1 : end])
	field, rest := 2, b[end+2:]
	for len(rest) > 0 {
		n := 0
		for n < len(rest) && rest[n] != ' ' && rest[n] != '\n' {
			n++
		}
		word := rest[:n]
		rest = rest[min(n+1, len(rest)):]
		field++
		switch field {
		case 3:
			if len(word) != 1 || word[0] < 'A' || word[0] > 'z' {
				return p, false
			}
			p.State = word[0]
		case 4:
			p.Parent, ok = number(word)
		case 5:
			p.Group, ok = number(word)
		case 6:
			p.Session, ok = number(word)
		case 22:
			var s int
			s, ok = number(word)
			p.Start = uint64(s)
			return p, ok
		}
		if !ok {
			return p, false
		}
	}
	return p, false
}

func number(b []byte) (int, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	n := 0
	for i, c := range b {
		if i == 0 && c == '-' && len(b) > 1 { // a group of another namespace reads as -1
			continue
		}
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	if b[0] == '-' {
		n = -n
	}
	return n, true
}

// readSmall reads one file of /proc into buf; nil if it cannot.
func readSmall(path string, buf []byte) []byte {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	for {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n < 0 {
			return nil
		}
		return buf[:n]
	}
}

// Children returns the numbers of the children of root, up to Max.
func Children(root int) []int {
	dir := "/proc/" + strconv.Itoa(root) + "/task"
	tasks, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer tasks.Close()
	var pids []int
	for {
		names, err := tasks.Readdirnames(256)
		for _, tid := range names {
			f, err := os.Open(dir + "/" + tid + "/children")
			if err != nil {
				if _, ok := Stat(root); ok && !kernelLists() {
					return scan(root)
				}
				continue // the thread has ended
			}
			b, _ := io.ReadAll(io.LimitReader(f, 12*Max))
			f.Close()
			pids = appendNumbers(pids, b)
		}
		if err != nil || len(names) == 0 || len(pids) >= Max {
			return pids[:min(len(pids), Max)]
		}
	}
}

// kernelLists tells whether the kernel lists children at all, which is a matter
// of its configuration.
func kernelLists() bool {
	_, err := os.Lstat("/proc/thread-self/children")
	return err == nil
}

// scan finds the children of root the slow way: it asks every process for its
// parent.
func scan(root int) (pids []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, ok := number([]byte(name))
		if !ok || len(pids) >= Max {
			continue
		}
		if p, ok := Stat(pid); ok && p.Parent == root {
			pids = append(pids, pid)
		}
	}
	return pids
}

func appendNumbers(pids []int, b []byte) []int {
	for i := 0; i < len(b); {
		j := i
		for j < len(b) && b[j] != ' ' {
			j++
		}
		if n, ok := number(b[i:j]); ok && j < len(b) { // a number without its blank may be cut
			pids = append(pids, n)
		}
		i = j + 1
	}
	return pids
}

// Descendants lists those below root, parents before children, without root;
// at most Max. Dead ones that nobody has waited for are left out unless
// zombies is set.
func Descendants(root int, zombies bool) []Process {
	var all []Process
	seen := map[int]bool{root: true}
	queue := []int{root}
	for len(queue) > 0 && len(seen) <= Max {
		parent := queue[0]
		queue = queue[1:]
		for _, pid := range Children(parent) {
			if seen[pid] || len(seen) > Max {
				continue
			}
			seen[pid] = true
			p, ok := Stat(pid)
			if !ok {
				continue
			}
			queue = append(queue, pid)
			if zombies || p.State != 'Z' && p.State != 'X' {
				all = append(all, p)
			}
		}
	}
	return all
}

// Numbers of system calls that are the same on all architectures.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
)

// Signal sends sig to p unless its number has gone to another process; ESRCH
// then. The process is held by a descriptor while its start time is compared.
func Signal(p Process, sig syscall.Signal) error {
	fd, _, e := syscall.RawSyscall(sysPidfdOpen, uintptr(p.Pid), 0, 0)
	if e == syscall.ENOSYS {
		if now, ok := Stat(p.Pid); !ok || now.Start != p.Start {
			return syscall.ESRCH
		}
		return syscall.Kill(p.Pid, sig)
	}
	if e != 0 {
		return e
	}
	defer syscall.Close(int(fd))
	if now, ok := Stat(p.Pid); !ok || now.Start != p.Start {
		return syscall.ESRCH
	}
	_, _, e = syscall.RawSyscall6(sysPidfdSendSignal, fd, uintptr(sig), uintptr(unsafe.Pointer(nil)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}
