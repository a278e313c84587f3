package linmem

import "golang.org/x/sys/unix"

const reserveFlags = unix.MAP_NORESERVE

// adviseReserved keeps huge pages out: a guest that touches one byte would pay
// for clearing 2 MiB. Kernels without huge pages answer EINVAL.
func adviseReserved(b []byte) { _ = unix.Madvise(b, unix.MADV_NOHUGEPAGE) }

func abandon(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) }
