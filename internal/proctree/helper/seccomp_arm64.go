//go:build linux

package helper

import "syscall"

const (
	auditArch = 0xc00000b7
	x32Bit    = 0 // there is no such thing

	sysSeccomp         = 277
	sysFanotifyInit    = 262
	sysOpenByHandleAt  = 265
	sysClockAdjtime    = 266
	sysSetns           = 268
	sysProcessVMReadv  = 270
	sysProcessVMWritev = 271
	sysKcmp            = 272
	sysFinitModule     = 273
	sysBpf             = 280
	sysUserfaultfd     = 282
	sysKexecFileLoad   = 294
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
}
