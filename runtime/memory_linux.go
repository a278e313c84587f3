package runtime

import "golang.org/x/sys/unix"

const noReserve = unix.MAP_NORESERVE

// adviseSmallPages keeps the system from giving a guest that touches one page a
// huge one, where that is the default: 2 MiB have to be cleared for it.
func adviseSmallPages(p []byte) { _ = unix.Madvise(p, unix.MADV_NOHUGEPAGE) }
