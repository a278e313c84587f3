//go:build linux && (amd64 || arm64)

// Package helper is what the server's process helpers do: the zygote, which
// only starts other helpers, and the reapers, each of which starts one tree of
// processes at a time, below the sandbox it was told, and ends all of it.
//
// A helper is the server's own program, started again with a hidden first
// argument. It never reaches main: the package's init sees the argument and
// runs the helper to its end. Go initialises packages in the order of their
// import paths once their own imports are done, so that this happens before
// the heavy packages of the program if this package imports little. Hence it
// imports little, not even strings, and knows the numbers of newer system calls
// itself. TestImports holds it to that.
package helper

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/wasmtools/wasmtools/internal/proctree/wire"
)

// Arg is the hidden first argument; the second is a role.
const Arg = "__proctree"

// Socket is the descriptor by which a helper is told what to do.
const Socket = 3

// Roles.
const (
	RoleZygote  = "zygote"
	RoleBox     = "box"     // a zygote in namespaces of its own
	RoleReaper  = "reaper"  // of the zygote
	RoleBoxed   = "boxed"   // of a box
	RoleWrapped = "wrapped" // of the zygote, in bubblewrap
)

func init() {
	if len(os.Args) == 3 && os.Args[1] == Arg && isSocket(Socket) {
		os.Exit(run(os.Args[2]))
	}
}

func isSocket(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFSOCK
}

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func run(role string) int {
	// Programs get the default dispositions, whatever the server ignores, and a
	// helper outlives the signals that end a server: it has to end the trees
	// first. Nobody receives from the channel: one waits there, the others are dropped.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCHLD, syscall.SIGWINCH)
	syscall.Umask(0o022)
	closeInherited()
	conn, err := wire.NewConn(Socket)
	if err != nil {
		return exitFailed
	}
	switch role {
	case RoleZygote, RoleBox:
		return runZygote(conn, role == RoleBox)
	case RoleReaper, RoleBoxed, RoleWrapped:
		return runReaper(conn, role)
	}
	return exitUsage
}

// closeInherited closes what a careless parent of the server left open. What
// came through an exec is not closed on exec; all that this process has opened
// itself by now, in the Go runtime, is.
func closeInherited() {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= Socket {
			continue
		}
		flags, _, e := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if e == 0 && flags&syscall.FD_CLOEXEC == 0 {
			syscall.Close(fd)
		}
	}
}
