//go:build unix

package runtime

import "golang.org/x/sys/unix"

// limitSelf bounds what this process may allocate. Where the system does not
// count data, the time limit is what remains.
func limitSelf(bytes uint64) {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_DATA, &l) == nil {
		l.Cur = min(l.Cur, bytes)
		l.Max = l.Cur
		_ = unix.Setrlimit(unix.RLIMIT_DATA, &l)
	}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
