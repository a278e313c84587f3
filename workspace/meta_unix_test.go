//go:build linux || darwin

package workspace

import (
	"io/fs"
	"syscall"
)

func links(fi fs.FileInfo) uint64  { return uint64(fi.Sys().(*syscall.Stat_t).Nlink) }
func device(fi fs.FileInfo) uint64 { return uint64(fi.Sys().(*syscall.Stat_t).Dev) }
