package guest

import (
	"math"
	"runtime"
	"unsafe"
)

// The host's functions, by the names and types of docs/abi.md. A string or a
// pointer with a length goes over as two i32.

//go:wasmimport wasmtools_v1 result_read
func hostResultRead(buf unsafe.Pointer, n, off uint32) int64

//go:wasmimport wasmtools_v1 error_read
func hostErrorRead(buf unsafe.Pointer, n uint32) int64

//go:wasmimport wasmtools_v1 fs_stat
func hostStat(path string) int64

//go:wasmimport wasmtools_v1 fs_list
func hostList(path string, opts unsafe.Pointer, optsLen uint32) int64

//go:wasmimport wasmtools_v1 fs_read
func hostRead(path string, off int64, buf unsafe.Pointer, n uint32) int64

//go:wasmimport wasmtools_v1 fs_write
func hostWrite(path string, data unsafe.Pointer, dataLen, flags uint32) int64

//go:wasmimport wasmtools_v1 fs_edit
func hostEdit(path string, edits unsafe.Pointer, editsLen uint32) int64

//go:wasmimport wasmtools_v1 fs_remove
func hostRemove(path string, flags uint32) int64

//go:wasmimport wasmtools_v1 fs_rename
func hostRename(from, to string, flags uint32) int64

//go:wasmimport wasmtools_v1 fs_mkdir
func hostMkdir(path string) int64

//go:wasmimport wasmtools_v1 fs_diff
func hostDiff(limit uint32) int64

//go:wasmimport wasmtools_v1 fs_discard
func hostDiscard() int64

//go:wasmimport wasmtools_v1 search
func hostSearch(req unsafe.Pointer, reqLen uint32) int64

//go:wasmimport wasmtools_v1 emit
func hostEmit(stream uint32, data unsafe.Pointer, dataLen uint32) int64

//go:wasmimport wasmtools_v1 progress
func hostProgress(done, total int64, note string) int64

//go:wasmimport wasmtools_v1 log
func hostLog(level uint32, text string) int64

// wasmABI is the ABI of a module. Go's collector moves nothing, so a pointer
// that is passed as an argument stays good for the time of the call.
type wasmABI struct{}

// word gives a number to the host that it refuses if ours does not fit, where
// uint32 alone would give another number.
func word(n int) uint32 {
	if n < 0 || int64(n) > math.MaxUint32 {
		return math.MaxUint32
	}
	return uint32(n)
}

func ptr(p []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(p)) }

func (wasmABI) ResultRead(buf []byte, off int) int64 {
	return hostResultRead(ptr(buf), uint32(len(buf)), uint32(off))
}
func (wasmABI) ErrorRead(buf []byte) int64 { return hostErrorRead(ptr(buf), uint32(len(buf))) }
func (wasmABI) Stat(path string) int64     { return hostStat(path) }
func (wasmABI) List(path string, opts []byte) int64 {
	return hostList(path, ptr(opts), uint32(len(opts)))
}
func (wasmABI) Read(path string, off int64, buf []byte) int64 {
	return hostRead(path, off, ptr(buf), uint32(len(buf)))
}
func (wasmABI) Write(path string, data []byte, flags int) int64 {
	return hostWrite(path, ptr(data), uint32(len(data)), uint32(flags))
}
func (wasmABI) Edit(path string, edits []byte) int64 {
	return hostEdit(path, ptr(edits), uint32(len(edits)))
}
func (wasmABI) Remove(path string, flags int) int64 { return hostRemove(path, uint32(flags)) }
func (wasmABI) Rename(from, to string, flags int) int64 {
	return hostRename(from, to, uint32(flags))
}
func (wasmABI) Mkdir(path string) int64 { return hostMkdir(path) }
func (wasmABI) Diff(limit int) int64    { return hostDiff(word(limit)) }
func (wasmABI) Discard() int64          { return hostDiscard() }
func (wasmABI) Search(req []byte) int64 { return hostSearch(ptr(req), uint32(len(req))) }
func (wasmABI) Log(level int, text string) int64 {
	return hostLog(word(level), text)
}
func (wasmABI) Emit(stream int, data []byte) int64 {
	return hostEmit(word(stream), ptr(data), uint32(len(data)))
}
func (wasmABI) Progress(done, total int64, note string) int64 {
	return hostProgress(done, total, note)
}

// What the host holds pointers into is kept here, out of the collector's reach:
// the buffers that it asked for, until the call they were for has returned, and
// the last response, until the next export is called.
var (
	requests [][]byte
	response []byte
)

// slack is how much heap a call finds ready, in bytes. A module whose memory
// grows during a call costs the host a new instance; Go collects garbage from
// 4 MiB on.
const slack = 4 << 20

// Before the module's first call the heap is made as large as most calls need
// it, and empty. Pages that were never written cost nothing in a snapshot.
func init() {
	response = make([]byte, slack)
	response = nil
	runtime.GC()
}

// maxRequest bounds one buffer that the host may ask for.
const maxRequest = 32 << 20

//go:wasmexport wt_alloc
func wtAlloc(n int32) int32 {
	if n <= 0 || n > maxRequest || len(requests) >= 8 {
		return 0
	}
	buf := make([]byte, n)
	requests = append(requests, buf)
	return int32(uintptr(ptr(buf)))
}

//go:wasmexport wt_call
func wtCall(at, n int32) int64 {
	response = Serve(wasmABI{}, take(at, n))
	requests = nil
	return packed(response)
}

//go:wasmexport wt_describe
func wtDescribe() int64 {
	response = Manifest()
	return packed(response)
}

// take returns the first n bytes of the buffer at an address that wt_alloc
// gave out; anything else is no request.
func take(at, n int32) []byte {
	for _, buf := range requests {
		if int32(uintptr(ptr(buf))) == at && n >= 0 && int(n) <= len(buf) {
			return buf[:n]
		}
	}
	return nil
}

func packed(p []byte) int64 {
	return int64(uint64(uintptr(ptr(p)))<<32 | uint64(len(p)))
}
