//go:build linux && (amd64 || arm64)

package helper

import (
	"syscall"
	"unsafe"
)

// Rights of Landlock, with the version that brought them.
const (
	llExecute = 1 << iota
	llWriteFile
	llReadFile
	llReadDir
	llRemoveDir
	llRemoveFile
	llMakeChar
	llMakeDir
	llMakeReg
	llMakeSock
	llMakeFifo
	llMakeBlock
	llMakeSym
	llRefer    // 2
	llTruncate // 3

	// llWrites is all that changes a tree; devices are never made.
	llWrites = llWriteFile | llRemoveDir | llRemoveFile | llMakeDir | llMakeReg | llMakeSock | llMakeFifo | llMakeSym | llRefer | llTruncate
	// llOnFile is what a rule on a file, instead of a directory, may hold.
	llOnFile = llExecute | llWriteFile | llReadFile | llTruncate

	llScopeAbstractSocket = 1 << 0 // 6
	llScopeSignal         = 1 << 1 // 6

	llRulePathBeneath = 1
)

// Versions of Landlock: from the first on truncating is guarded, from the
// second on signals are.
const (
	llTruncates = 3
	llSignals   = 6
)

// landlockVersion is 0 where the kernel has none.
func landlockVersion() int {
	v, _, e := syscall.RawSyscall(sysLandlockCreateRuleset, 0, 0, 1)
	if e != 0 {
		return 0
	}
	return int(v)
}

// ruleset is a Landlock ruleset in the making.
type ruleset struct {
	fd      int
	handled uint64
}

// newRuleset handles the rights in handled, as far as version knows them, and
// with the scopes that it has.
func newRuleset(version int, handled uint64) (*ruleset, error) {
	attr := struct{ fs, net, scoped uint64 }{fs: handled}
	size := uintptr(8)
	if version < 2 {
		attr.fs &^= llRefer
	}
	if version < llTruncates {
		attr.fs &^= llTruncate
	}
	if version >= llSignals {
		attr.scoped = llScopeAbstractSocket | llScopeSignal
		size = unsafe.Sizeof(attr)
	}
	fd, _, e := syscall.RawSyscall(sysLandlockCreateRuleset, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return nil, e
	}
	return &ruleset{fd: int(fd), handled: attr.fs}, nil
}

// allow gives rights to path and all below it. The kernel takes the object that
// path names now.
func (r *ruleset) allow(path string, rights uint64) error {
	fd, err := openPath(path, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		rights &= llOnFile
	}
	if rights &= r.handled; rights == 0 {
		return nil
	}
	var attr [12]byte // packed: rights, then the descriptor
	*(*uint64)(unsafe.Pointer(&attr[0])) = rights
	*(*int32)(unsafe.Pointer(&attr[8])) = int32(fd)
	if _, _, e := syscall.RawSyscall6(sysLandlockAddRule, uintptr(r.fd), llRulePathBeneath, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

// restrict puts the calling thread, and what it starts, below the rules for
// ever. no_new_privs must be set.
func (r *ruleset) restrict() error {
	if _, _, e := syscall.RawSyscall(sysLandlockRestrictSelf, uintptr(r.fd), 0, 0); e != 0 {
		return e
	}
	return nil
}

func (r *ruleset) close() { syscall.Close(r.fd) }
