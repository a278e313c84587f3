package wasihost

import (
	"errors"

	"github.com/tetratelabs/wazero/experimental/sys"

	"github.com/wasmtools/wasmtools/tool"
)

// errno is the one place where what the overlay says becomes what a WASI guest
// reads. The text is kept for the person who looks at a call that failed.
func (h *Host) errno(err error) sys.Errno {
	if err == nil {
		return 0
	}
	h.Check() // a call whose time is over ends here
	var e *tool.Error
	if !errors.As(err, &e) {
		return sys.EIO
	}
	switch e.Code {
	case tool.NoChange:
		return 0
	case tool.NotFound:
		return sys.ENOENT
	case tool.Exists:
		return sys.EEXIST
	case tool.NotRegular:
		return sys.ENOTDIR
	case tool.InvalidArguments:
		return sys.EINVAL
	}
	h.refused = e
	switch e.Code {
	case tool.OutsideRoot:
		return sys.EPERM
	case tool.GrantMissing, tool.Protected, tool.Permission, tool.Denied:
		return sys.EACCES
	case tool.Busy:
		return sys.EAGAIN
	}
	return sys.EIO
}

// Refusal is the last thing that the guest was refused, or nil: a guest itself
// only says that it was.
func (h *Host) Refusal() *tool.Error { return h.refused }
