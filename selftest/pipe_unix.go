//go:build unix

package selftest

import "golang.org/x/sys/unix"

func pipe(name string) error { return unix.Mkfifo(name, 0o600) }
