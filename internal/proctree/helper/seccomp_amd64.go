//go:build linux

package helper

import "syscall"

const (
	auditArch = 0xc000003e
	x32Bit    = 0x40000000

	sysSeccomp         = 317
	sysFanotifyInit    = 300
	sysOpenByHandleAt  = 304
	sysClockAdjtime    = 305
	sysSetns           = 308
	sysProcessVMReadv  = 310
	sysProcessVMWritev = 311
	sysKcmp            = 312
	sysFinitModule     = 313
	sysKexecFileLoad   = 320
	sysBpf             = 321
	sysUserfaultfd     = 323
)

// deniedCalls are refused whatever their arguments are.
var deniedCalls = [...]uintptr{
	syscall.SYS_PTRACE, sysProcessVMReadv, sysProcessVMWritev, sysKcmp, sysPidfdGetfd, sysProcessMadvise,
	syscall.SYS_KEYCTL, syscall.SYS_ADD_KEY, syscall.SYS_REQUEST_KEY,
	sysBpf, syscall.SYS_PERF_EVENT_OPEN, sysUserfaultfd, sysFanotifyInit,
	syscall.SYS_MOUNT, syscall.SYS_UMOUNT2, syscall.SYS_PIVOT_ROOT, syscall.SYS_CHROOT, sysSetns,
	sysOpenTree, sysOpenTreeAttr, sysMoveMount, sysFsopen, sysFsconfig, sysFsmount, sysFspick, sysMountSetattr,
	sysOpenByHandleAt, syscall.SYS_QUOTACTL, sysQuotactlFd, syscall.SYS_ACCT, syscall.SYS_SWAPON, syscall.SYS_SWAPOFF,
	syscall.SYS_REBOOT, syscall.SYS_KEXEC_LOAD, sysKexecFileLoad, syscall.SYS_INIT_MODULE, sysFinitModule, syscall.SYS_DELETE_MODULE,
	syscall.SYS_SETTIMEOFDAY, syscall.SYS_CLOCK_SETTIME, sysClockAdjtime, syscall.SYS_ADJTIMEX,
	syscall.SYS_SYSLOG, syscall.SYS_VHANGUP, syscall.SYS_SETHOSTNAME, syscall.SYS_SETDOMAINNAME, syscall.SYS_LOOKUP_DCOOKIE,
	syscall.SYS_IOPL, syscall.SYS_IOPERM, syscall.SYS_MODIFY_LDT, syscall.SYS_USELIB, syscall.SYS__SYSCTL,
}
