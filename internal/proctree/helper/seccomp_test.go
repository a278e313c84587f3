//go:build linux && (amd64 || arm64)

package helper

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNumbers compares what this package knows by itself with x/sys/unix, which
// it may not import.
func TestNumbers(t *testing.T) {
	for name, n := range map[string][2]uintptr{
		"open_tree": {sysOpenTree, unix.SYS_OPEN_TREE}, "move_mount": {sysMoveMount, unix.SYS_MOVE_MOUNT}, "fsopen": {sysFsopen, unix.SYS_FSOPEN},
		"fsconfig": {sysFsconfig, unix.SYS_FSCONFIG}, "fsmount": {sysFsmount, unix.SYS_FSMOUNT}, "fspick": {sysFspick, unix.SYS_FSPICK},
		"clone3": {sysClone3, unix.SYS_CLONE3}, "openat2": {sysOpenat2, unix.SYS_OPENAT2}, "pidfd_getfd": {sysPidfdGetfd, unix.SYS_PIDFD_GETFD},
		"process_madvise": {sysProcessMadvise, unix.SYS_PROCESS_MADVISE}, "mount_setattr": {sysMountSetattr, unix.SYS_MOUNT_SETATTR},
		"quotactl_fd": {sysQuotactlFd, unix.SYS_QUOTACTL_FD}, "landlock_create_ruleset": {sysLandlockCreateRuleset, unix.SYS_LANDLOCK_CREATE_RULESET},
		"landlock_add_rule": {sysLandlockAddRule, unix.SYS_LANDLOCK_ADD_RULE}, "landlock_restrict_self": {sysLandlockRestrictSelf, unix.SYS_LANDLOCK_RESTRICT_SELF},
		"open_tree_attr": {sysOpenTreeAttr, unix.SYS_OPEN_TREE_ATTR}, "io_uring_setup": {sysIoUringSetup, unix.SYS_IO_URING_SETUP},
		"io_uring_enter": {sysIoUringEnter, unix.SYS_IO_URING_ENTER}, "io_uring_register": {sysIoUringRegister, unix.SYS_IO_URING_REGISTER},
		"seccomp": {sysSeccomp, unix.SYS_SECCOMP}, "fanotify_init": {sysFanotifyInit, unix.SYS_FANOTIFY_INIT},
		"open_by_handle_at": {sysOpenByHandleAt, unix.SYS_OPEN_BY_HANDLE_AT}, "clock_adjtime": {sysClockAdjtime, unix.SYS_CLOCK_ADJTIME},
		"setns": {sysSetns, unix.SYS_SETNS}, "process_vm_readv": {sysProcessVMReadv, unix.SYS_PROCESS_VM_READV},
		"process_vm_writev": {sysProcessVMWritev, unix.SYS_PROCESS_VM_WRITEV}, "kcmp": {sysKcmp, unix.SYS_KCMP},
		"finit_module": {sysFinitModule, unix.SYS_FINIT_MODULE}, "kexec_file_load": {sysKexecFileLoad, unix.SYS_KEXEC_FILE_LOAD},
		"bpf": {sysBpf, unix.SYS_BPF}, "userfaultfd": {sysUserfaultfd, unix.SYS_USERFAULTFD},

		"TIOCSTI": {tiocsti, unix.TIOCSTI}, "TIOCSETD": {tiocsetd, unix.TIOCSETD}, "TIOCCONS": {tioccons, unix.TIOCCONS},
		"TIOCSPTLCK": {tiocsptlck, unix.TIOCSPTLCK}, "TIOCGPTPEER": {tiocgptpeer, unix.TIOCGPTPEER}, "TIOCSWINSZ": {tiocswinsz, unix.TIOCSWINSZ},
		"O_PATH": {oPath, unix.O_PATH}, "RESOLVE_NO_SYMLINKS": {resolveNoSymlinks, unix.RESOLVE_NO_SYMLINKS},
		"OPEN_TREE_CLONE": {openTreeClone, unix.OPEN_TREE_CLONE}, "MOVE_MOUNT_F_EMPTY_PATH": {moveEmptyPath, unix.MOVE_MOUNT_F_EMPTY_PATH},
		"MOVE_MOUNT_T_EMPTY_PATH": {moveToEmptyPath, unix.MOVE_MOUNT_T_EMPTY_PATH}, "MOUNT_ATTR_RDONLY": {attrReadOnly, unix.MOUNT_ATTR_RDONLY},
		"MOUNT_ATTR_NOSUID": {attrNoSuid, unix.MOUNT_ATTR_NOSUID}, "MOUNT_ATTR_NODEV": {attrNoDev, unix.MOUNT_ATTR_NODEV},
		"AT_RECURSIVE": {atRecursive, unix.AT_RECURSIVE}, "AT_EMPTY_PATH": {atEmptyPath, unix.AT_EMPTY_PATH}, "ST_RDONLY": {readOnlyMount, unix.ST_RDONLY},
		"PR_SET_DUMPABLE": {prSetDumpable, unix.PR_SET_DUMPABLE}, "PR_CAPBSET_DROP": {prCapbsetDrop, unix.PR_CAPBSET_DROP},
		"PR_SET_CHILD_SUBREAPER": {prSetChildSubreaper, unix.PR_SET_CHILD_SUBREAPER}, "PR_SET_NO_NEW_PRIVS": {prSetNoNewPrivs, unix.PR_SET_NO_NEW_PRIVS},
		"PR_CAP_AMBIENT": {prCapAmbient, unix.PR_CAP_AMBIENT}, "PR_CAP_AMBIENT_CLEAR_ALL": {prCapAmbientClear, unix.PR_CAP_AMBIENT_CLEAR_ALL},
		"CAP_CHOWN": {capChown, unix.CAP_CHOWN}, "CAP_DAC_OVERRIDE": {capDacOverride, unix.CAP_DAC_OVERRIDE}, "CAP_FOWNER": {capFowner, unix.CAP_FOWNER},
		"CAP_FSETID": {capFsetid, unix.CAP_FSETID}, "CAP_SETPCAP": {capSetpcap, unix.CAP_SETPCAP}, "CAP_NET_ADMIN": {capNetAdmin, unix.CAP_NET_ADMIN},
		"CAP_SYS_ADMIN": {capSysAdmin, unix.CAP_SYS_ADMIN},
		"namespaces":    {newNamespaces, unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET},
		"time":          {newTime, unix.CLONE_NEWTIME}, "RLIMIT_CORE": {rlimitCore, unix.RLIMIT_CORE}, "RLIMIT_FSIZE": {rlimitFsize, unix.RLIMIT_FSIZE},
		"RLIMIT_NOFILE": {rlimitNofile, unix.RLIMIT_NOFILE}, "RLIMIT_NPROC": {rlimitNproc, unix.RLIMIT_NPROC},
		"LANDLOCK_ACCESS_FS_EXECUTE": {llExecute, unix.LANDLOCK_ACCESS_FS_EXECUTE}, "LANDLOCK_ACCESS_FS_MAKE_BLOCK": {llMakeBlock, unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK},
		"LANDLOCK_ACCESS_FS_REFER": {llRefer, unix.LANDLOCK_ACCESS_FS_REFER}, "LANDLOCK_ACCESS_FS_TRUNCATE": {llTruncate, unix.LANDLOCK_ACCESS_FS_TRUNCATE},
		"LANDLOCK_SCOPE_SIGNAL":               {llScopeSignal, unix.LANDLOCK_SCOPE_SIGNAL},
		"LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET": {llScopeAbstractSocket, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET},
		"SECCOMP_RET_ALLOW":                   {retAllow, unix.SECCOMP_RET_ALLOW}, "SECCOMP_RET_ERRNO": {retErrno, unix.SECCOMP_RET_ERRNO},
		"SECCOMP_RET_KILL_PROCESS": {retKill, unix.SECCOMP_RET_KILL_PROCESS}, "SECCOMP_SET_MODE_FILTER": {setModeFilter, unix.SECCOMP_SET_MODE_FILTER},
		"load": {bpfLoad, unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, "jeq": {bpfJeq, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K},
		"jge": {bpfJge, unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K}, "jset": {bpfJset, unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K}, "ret": {bpfRet, unix.BPF_RET | unix.BPF_K},
	} {
		if n[0] != n[1] {
			t.Errorf("%s is %#x; want %#x", name, n[0], n[1])
		}
	}
}

// run is a slow, plain reading of a filter, as the kernel would read it.
func (f filter) run(t *testing.T, arch uint32, nr uint64, args ...uint64) uint32 {
	t.Helper()
	words := map[uint32]uint32{dataNumber: uint32(nr), dataArch: arch}
	for i := range 6 {
		v := uint64(0)
		if i < len(args) {
			v = args[i]
		}
		words[uint32(16+8*i)], words[uint32(20+8*i)] = uint32(v), uint32(v>>32)
	}
	var a uint32
	for pc := 0; pc < len(f); pc++ {
		in := f[pc]
		jump := false
		switch in.code {
		case bpfLoad:
			v, ok := words[in.k]
			if !ok {
				t.Fatalf("instruction %d loads from %d", pc, in.k)
			}
			a = v
			continue
		case bpfRet:
			return in.k
		case bpfJeq:
			jump = a == in.k
		case bpfJge:
			jump = a >= in.k
		case bpfJset:
			jump = a&in.k != 0
		default:
			t.Fatalf("instruction %d has code %#x", pc, in.code)
		}
		if jump {
			pc += int(in.jt)
		} else {
			pc += int(in.jf)
		}
	}
	t.Fatal("the filter runs off its end")
	return 0
}

func TestFilter(t *testing.T) {
	refused := func(e syscall.Errno) uint32 { return retErrno | uint32(e) }
	box := sandboxFilter(unix.AF_UNIX, unix.AF_INET, unix.AF_INET6)
	weak := sandboxFilter()
	if len(box) > 4096 {
		t.Errorf("%d instructions; the kernel takes 4096", len(box))
	}
	const high = 1 << 32 // what the kernel does not look at
	for _, c := range []struct {
		name string
		f    filter
		nr   uint64
		args []uint64
		want uint32
	}{
		{"read", box, unix.SYS_READ, nil, retAllow},
		{"execve", box, unix.SYS_EXECVE, nil, retAllow},
		{"the last known call", box, 471, nil, retAllow},
		{"ptrace", box, unix.SYS_PTRACE, nil, refused(unix.EPERM)},
		{"mount", weak, unix.SYS_MOUNT, nil, refused(unix.EPERM)},
		{"clone3", box, unix.SYS_CLONE3, nil, refused(unix.ENOSYS)},
		{"io_uring_setup", box, unix.SYS_IO_URING_SETUP, nil, refused(unix.ENOSYS)},
		{"fork", box, unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, retAllow},
		{"thread", box, unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_FS | unix.CLONE_FILES}, retAllow},
		{"clone of a user namespace", box, unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, refused(unix.EPERM)},
		{"clone of a cgroup namespace", box, unix.SYS_CLONE, []uint64{unix.CLONE_NEWCGROUP}, refused(unix.EPERM)},
		{"unshare of files", box, unix.SYS_UNSHARE, []uint64{unix.CLONE_FILES}, retAllow},
		{"unshare of time", box, unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWTIME}, refused(unix.EPERM)},
		{"TCGETS", box, unix.SYS_IOCTL, []uint64{0, unix.TCGETS}, retAllow},
		{"TIOCSTI", box, unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, refused(unix.EPERM)},
		{"TIOCSTI, disguised", box, unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI | high}, refused(unix.EPERM)},
		{"TIOCLINUX", weak, unix.SYS_IOCTL, []uint64{3, 0x541c}, refused(unix.EPERM)},
		{"own limits", box, unix.SYS_PRLIMIT64, []uint64{0, 7, 0x7fff_1234_5678}, retAllow},
		{"looking at another's limits", box, unix.SYS_PRLIMIT64, []uint64{99, 7, 0}, retAllow},
		{"another's limits", box, unix.SYS_PRLIMIT64, []uint64{99, 7, 0x1000}, refused(unix.EPERM)},
		{"another's limits, by a pointer with a low half of 0", box, unix.SYS_PRLIMIT64, []uint64{99, 7, 0x7fff << 32}, refused(unix.EPERM)},
		{"own limits, with a disguised number", box, unix.SYS_PRLIMIT64, []uint64{high, 7, 1}, retAllow},
		{"a unix socket", box, unix.SYS_SOCKET, []uint64{unix.AF_UNIX}, retAllow},
		{"an internet socket", box, unix.SYS_SOCKET, []uint64{unix.AF_INET6}, retAllow},
		{"a netlink socket", box, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK}, refused(unix.EAFNOSUPPORT)},
		{"a packet socket", box, unix.SYS_SOCKET, []uint64{unix.AF_PACKET}, refused(unix.EAFNOSUPPORT)},
		{"a packet socket, disguised", box, unix.SYS_SOCKET, []uint64{unix.AF_PACKET | high}, refused(unix.EAFNOSUPPORT)},
		{"a unix socket without a box", weak, unix.SYS_SOCKET, []uint64{unix.AF_UNIX}, refused(unix.EAFNOSUPPORT)},
		{"a pair of sockets without a box", weak, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX}, retAllow},
		{"a pair of others", box, unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC}, refused(unix.EAFNOSUPPORT)},
	} {
		if got := c.f.run(t, auditArch, c.nr, c.args...); got != c.want {
			t.Errorf("%s: %#x; want %#x", c.name, got, c.want)
		}
	}
	for _, nr := range deniedCalls {
		if got := box.run(t, auditArch, uint64(nr)); got != refused(unix.EPERM) {
			t.Errorf("call %d: %#x", nr, got)
		}
	}
	if got := box.run(t, 0x40000003, unix.SYS_READ); got != retKill {
		t.Errorf("another architecture: %#x; want the process to be killed", got)
	}
	if x32Bit != 0 {
		if got := box.run(t, auditArch, x32Bit|unix.SYS_READ); got != refused(unix.ENOSYS) {
			t.Errorf("the x32 table: %#x", got)
		}
	}
}

func TestCanonical(t *testing.T) {
	for path, want := range map[string]bool{
		"/a": true, "/a/b": true, "/a b/..c": true, "/.a": true,
		"": false, "/": false, "a": false, "/a/": false, "//a": false, "/a//b": false, "/a/./b": false, "/a/..": false, "/..": false, "/.": false, "/a\x00b": false,
	} {
		if got := canonical(path); got != want {
			t.Errorf("canonical(%q) = %v; want %v", path, got, want)
		}
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		want      bool
	}{
		{"/a/b", "/a", true}, {"/a", "/a", true}, {"/a", "/", true}, {"/ab", "/a", false}, {"/a", "/a/b", false},
	} {
		if got := below(c.path, c.dir); got != c.want {
			t.Errorf("below(%q, %q) = %v; want %v", c.path, c.dir, got, c.want)
		}
	}
}

func TestWholeMap(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": true, "         0     100000      65536\n": false, "": false,
		"0 0 1\n1 100000 65536\n": false,
	} {
		if got := wholeMap([]byte(text)); got != want {
			t.Errorf("wholeMap(%q) = %v; want %v", text, got, want)
		}
	}
}

// TestHookWantsASocket: the hidden argument alone does not take a program over.
func TestHookWantsASocket(t *testing.T) {
	const reached = 42
	if os.Getenv("HELPER_TEST_REACHED") != "" {
		os.Exit(reached)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, files := range [][]*os.File{{nil, nil, nil}, {nil, nil, nil, null}} {
		p, err := os.StartProcess("/proc/self/exe", []string{"helper.test", Arg, "zygote"}, &os.ProcAttr{
			Env: append(os.Environ(), "HELPER_TEST_REACHED=1"), Files: files,
		})
		if err != nil {
			t.Fatal(err)
		}
		st, err := p.Wait()
		if err != nil || st.ExitCode() != reached {
			t.Errorf("with %d files: %v, %v; want the program itself to run", len(files), st, err)
		}
	}
}
