//go:build linux && (amd64 || arm64)

package helper

import (
	"syscall"
	"unsafe"
)

// filter is a BPF program over one system call: its number, the architecture
// it was made for, and its arguments.
type filter []struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

const (
	bpfLoad = 0x20 // A = 32 bits at k
	bpfJeq  = 0x15
	bpfJge  = 0x35
	bpfJset = 0x45 // jump if A & k
	bpfRet  = 0x06

	retAllow = 0x7fff0000
	retErrno = 0x00050000
	retKill  = 0x80000000

	dataNumber = 0
	dataArch   = 4

	setModeFilter = 1
)

// dataArg is where the low half of argument i is. The kernel looks at nothing
// else of the arguments compared here, so comparing 64 bits would be a hole.
func dataArg(i int) uint32 { return uint32(16 + 8*i) }

func (f *filter) add(code uint16, jt, jf uint8, k uint32) {
	*f = append(*f, struct {
		code   uint16
		jt, jf uint8
		k      uint32
	}{code, jt, jf, k})
}

// deny refuses system call nr.
func (f *filter) deny(nr uintptr, e syscall.Errno) {
	f.add(bpfJeq, 0, 1, uint32(nr))
	f.add(bpfRet, 0, 0, retErrno|uint32(e))
}

// denyEqual refuses nr if argument i is one of values.
func (f *filter) denyEqual(nr uintptr, i int, e syscall.Errno, values ...uint32) {
	f.add(bpfJeq, 0, uint8(2+2*len(values)), uint32(nr))
	f.add(bpfLoad, 0, 0, dataArg(i))
	for _, v := range values {
		f.add(bpfJeq, 0, 1, v)
		f.add(bpfRet, 0, 0, retErrno|uint32(e))
	}
	f.add(bpfRet, 0, 0, retAllow)
}

// denyUnless refuses nr unless argument i is one of values.
func (f *filter) denyUnless(nr uintptr, i int, e syscall.Errno, values ...uint32) {
	f.add(bpfJeq, 0, uint8(2+2*len(values)), uint32(nr))
	f.add(bpfLoad, 0, 0, dataArg(i))
	for _, v := range values {
		f.add(bpfJeq, 0, 1, v)
		f.add(bpfRet, 0, 0, retAllow)
	}
	f.add(bpfRet, 0, 0, retErrno|uint32(e))
}

// denyBits refuses nr if argument i has one of bits.
func (f *filter) denyBits(nr uintptr, i int, e syscall.Errno, bits uint32) {
	f.add(bpfJeq, 0, 4, uint32(nr))
	f.add(bpfLoad, 0, 0, dataArg(i))
	f.add(bpfJset, 0, 1, bits)
	f.add(bpfRet, 0, 0, retErrno|uint32(e))
	f.add(bpfRet, 0, 0, retAllow)
}

// Requests of ioctl that put bytes into a terminal's input, or reach a
// console's keyboard, screen or line discipline.
const (
	tiocsti   = 0x5412
	tiocsetd  = 0x5423
	tiocl     = 0x541c // TIOCLINUX
	tioccons  = 0x541d
	kdskbmode = 0x4b45
	kdskbent  = 0x4b47
	kdskbsent = 0x4b49
)

// newNamespaces is every flag of clone and unshare that makes one.
const newNamespaces = syscall.CLONE_NEWNS | 0x02000000 | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET

// newTime is CLONE_NEWTIME, for unshare only: clone takes it for a signal.
const newTime = 0x80

// sandboxFilter refuses what no program in a sandbox needs and what would lead
// out of one: other processes' memory, terminals' input, keys, namespaces and
// mounts, kernel interfaces that other guards do not see, and sockets but of
// the given families.
//
// It is a list of what is refused. Landlock, mounts and namespaces are the
// walls; this closes their windows.
func sandboxFilter(families ...uint32) filter {
	var f filter
	f.add(bpfLoad, 0, 0, dataArch)
	f.add(bpfJeq, 1, 0, auditArch)
	f.add(bpfRet, 0, 0, retKill) // another architecture has other numbers
	f.add(bpfLoad, 0, 0, dataNumber)
	if x32Bit != 0 {
		f.add(bpfJge, 0, 1, x32Bit)
		f.add(bpfRet, 0, 0, retErrno|uint32(syscall.ENOSYS))
	}
	for _, nr := range deniedCalls {
		f.deny(nr, syscall.EPERM)
	}
	// Programs have a way without these, which they take if the kernel seems old:
	// the first keeps its flags in memory, where a filter cannot look.
	for _, nr := range []uintptr{sysClone3, sysIoUringSetup, sysIoUringEnter, sysIoUringRegister} {
		f.deny(nr, syscall.ENOSYS)
	}
	f.denyEqual(syscall.SYS_IOCTL, 1, syscall.EPERM, tiocsti, tiocl, tiocsetd, tioccons, kdskbmode, kdskbent, kdskbsent)
	f.denyBits(syscall.SYS_CLONE, 0, syscall.EPERM, newNamespaces)
	f.denyBits(syscall.SYS_UNSHARE, 0, syscall.EPERM, newNamespaces|newTime)
	// Limits of others: a first argument that is not "myself" and a new value.
	f.add(bpfJeq, 0, 8, syscall.SYS_PRLIMIT64)
	f.add(bpfLoad, 0, 0, dataArg(0))
	f.add(bpfJeq, 4, 0, 0)
	f.add(bpfLoad, 0, 0, dataArg(2))
	f.add(bpfJeq, 0, 3, 0) // the low half of a pointer that is not nil may be 0
	f.add(bpfLoad, 0, 0, dataArg(2)+4)
	f.add(bpfJeq, 0, 1, 0)
	f.add(bpfRet, 0, 0, retAllow)
	f.add(bpfRet, 0, 0, retErrno|uint32(syscall.EPERM))
	f.denyUnless(syscall.SYS_SOCKET, 0, syscall.EAFNOSUPPORT, families...)
	f.denyUnless(syscall.SYS_SOCKETPAIR, 0, syscall.EAFNOSUPPORT, syscall.AF_UNIX)
	f.add(bpfRet, 0, 0, retAllow)
	return f
}

// install puts the calling thread, and what it starts, below the filter for
// ever. no_new_privs must be set.
func (f filter) install() error {
	program := struct {
		length uint16
		code   unsafe.Pointer
	}{uint16(len(f)), unsafe.Pointer(&f[0])}
	if _, _, e := syscall.RawSyscall(sysSeccomp, setModeFilter, 0, uintptr(unsafe.Pointer(&program))); e != 0 {
		return e
	}
	return nil
}
