package channel

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const supported = true

// Identify names a live process.
func Identify(pid int) (Process, error) {
	p, err := readProc(pid)
	return p.Process, err
}

// readProc reads /proc/PID/stat and status.
func readProc(pid int) (proc, error) {
	stat, err := readSmall(pid, "stat")
	if err != nil {
		return proc{}, err
	}
	p, err := parseStat(stat)
	if err != nil {
		return proc{}, err
	}
	status, err := readSmall(pid, "status")
	if err != nil {
		return proc{}, err
	}
	p.confinement = parseStatus(status)
	return p, nil
}

func readSmall(pid int, name string) ([]byte, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, unix.ESRCH):
		return nil, errGone
	case errors.Is(err, fs.ErrPermission):
		return nil, errHidden
	case errors.Is(err, fs.ErrNotExist):
		// With the mount option hidepid the processes of others seem not to exist.
		if errors.Is(unix.Kill(pid, 0), unix.EPERM) {
			return nil, errHidden
		}
		return nil, errGone
	}
	return nil, err
}

// parseStat reads /proc/PID/stat, see proc_pid_stat(5). The name in parentheses
// is the program's to choose and may hold anything, so fields count from the last
// parenthesis.
func parseStat(b []byte) (proc, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return proc{}, fmt.Errorf("process status of unknown form")
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return proc{}, fmt.Errorf("process status of unknown form")
	}
	var errs []error
	num := func(s string) int {
		n, err := strconv.Atoi(s)
		errs = append(errs, err)
		return n
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	errs = append(errs, err)
	p := proc{
		Process: Process{PID: num(strings.TrimSpace(string(b[:open]))), Start: start},
		parent:  num(f[1]), session: num(f[3]), tty: uint64(uint32(num(f[4]))),
	}
	return p, errors.Join(errs...)
}

// parseStatus reads what we need of /proc/PID/status. Lines that are missing
// (old kernels) count as no confinement.
func parseStatus(b []byte) (c confinement) {
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "NoNewPrivs":
			c.noNewPrivs = strings.TrimSpace(value) == "1"
		case "NSpid":
			c.pidSpaces = len(strings.Fields(value))
		}
	}
	return c
}
