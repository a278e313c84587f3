package linmem

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seals: no byte changes, none is added or taken away, and no seal is broken.
const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// sealed is a file in memory that nobody can change.
type sealed struct{ fd int }

// store makes the image's file from data, which ends with a page that is not
// zero. Pages of zeroes are left out and become holes.
func (i *Image) store(data []byte) error {
	fd, err := createMemfd()
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		// An old kernel or a filter on system calls: slower, not less exact.
		i.keep(data)
		return nil
	case err != nil:
		return err
	}
	if i.data, err = i.fill(fd, data, seals); err != nil {
		unix.Close(fd)
		return err
	}
	i.file.fd = fd
	return nil
}

func createMemfd() (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("wasmtools-image", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3
		fd, err = unix.MemfdCreate("wasmtools-image", flags)
	}
	return fd, err
}

// fill writes data to the file, seals it and maps it for reading.
func (i *Image) fill(fd int, data []byte, seals int) ([]byte, error) {
	if err := unix.Ftruncate(fd, int64(len(data))); err != nil {
		return nil, err
	}
	err := i.runs(data, func(off uint64, run []byte) error {
		for len(run) > 0 {
			n, err := unix.Pwrite(fd, run, int64(off))
			if err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
			if n > 0 {
				run, off = run[n:], off+uint64(n)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, err
	}
	// A shared mapping of a file sealed against writing is refused before Linux
	// 6.7, even for reading. A private one that is never written is the same.
	p, err := unix.MmapPtr(fd, 0, nil, uintptr(len(data)), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), len(data)), nil
}

// mapAt puts a private, writable view of the file at p, over what is there.
func (i *Image) mapAt(p unsafe.Pointer) error {
	_, err := unix.MmapPtr(i.file.fd, 0, p, uintptr(len(i.data)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}

// discard gives the file back.
func (i *Image) discard() error {
	data := i.data
	i.data = nil
	if i.copied || len(data) == 0 {
		return nil
	}
	return errors.Join(
		unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(data)), uintptr(len(data))),
		unix.Close(i.file.fd))
}

// runs calls f for each longest run of pages of data that are not zero.
func (i *Image) runs(data []byte, f func(off uint64, run []byte) error) error {
	end := uint64(len(data))
	for off := uint64(0); off < end; {
		if !i.filledAt(off) {
			off += pageSize
			continue
		}
		from := off
		for off < end && i.filledAt(off) {
			off += pageSize
		}
		if err := f(from, data[from:off]); err != nil {
			return err
		}
	}
	return nil
}
