package workspace

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/wasmtools/wasmtools/tool"
)

// pathError is the one place where what the system says becomes what a model
// reads. path is the requested path; the error's own text is kept as the cause
// only, because it may name host paths.
func pathError(path string, err error) error {
	if err == nil {
		return nil
	}
	if g, ok := err.(*guardError); ok {
		return g.err
	}
	var te *tool.Error
	if errors.As(err, &te) {
		if te.Path == "" {
			c := *te
			c.Path = path
			return &c
		}
		return te
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	code, text, next := explain(err)
	e := tool.PathErrorf(code, path, "%s", text).Because(err)
	e.Next = next
	return e
}

func explain(err error) (code tool.Code, text, next string) {
	switch {
	case errors.Is(err, errLink):
		return tool.Busy, "the path kept changing while it was opened", "try again when nothing else renames directories there"
	case errors.Is(err, errOtherMount):
		return tool.OutsideRoot, "the path lies on another file system that is mounted inside the workspace", "use a path on the workspace's own file system"
	case errors.Is(err, errNotRegular):
		return tool.NotRegular, "not a regular file (a device, FIFO or socket)", ""
	case errors.Is(err, syscall.ENAMETOOLONG):
		return tool.InvalidArguments, "a name or the path is too long for the file system", "use a shorter path"
	case errors.Is(err, syscall.ENOTDIR):
		return tool.NotRegular, "a component of the path is not a directory", ""
	case errors.Is(err, syscall.EISDIR):
		return tool.NotRegular, "a directory, not a file", ""
	case errors.Is(err, syscall.EXDEV):
		return tool.Permission, "the file system does not move it from one of these directories to the other", "copy it, or a person must move it"
	case errors.Is(err, syscall.ENOSPC), isQuota(err):
		return tool.Permission, "no space is left on the file system", "a person must make room"
	case errors.Is(err, syscall.EROFS):
		return tool.Permission, "the file system is mounted read-only", ""
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return tool.Busy, "too many files are open", "try again later"
	case errors.Is(err, syscall.EBUSY):
		return tool.Busy, "the system is using it (a mount point, or a file that is being swapped)", "leave it"
	case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP):
		return tool.NotAvailable, "the file system cannot do this", "a person must do it"
	case errors.Is(err, syscall.EFBIG):
		return tool.TooLarge, "the file system does not hold files of this size", ""
	case errors.Is(err, syscall.EINVAL):
		return tool.InvalidArguments, "the file system does not accept this name or operation", "use another name"
	case errors.Is(err, fs.ErrNotExist):
		return tool.NotFound, "", ""
	case errors.Is(err, fs.ErrExist):
		return tool.Exists, "", ""
	case errors.Is(err, fs.ErrPermission):
		return tool.Permission, "", ""
	}
	return tool.Internal, "the operating system failed", ""
}

var (
	// errLink says that a component of a path that should be canonical is a
	// link: resolve again.
	errLink       = errors.New("a component is a symbolic link")
	errOtherMount = errors.New("another file system")
	errNotRegular = errors.New("not a regular file")
)

// guardError carries the guard's own answer past everything that would explain
// it.
type guardError struct{ err error }

func (g *guardError) Error() string { return g.err.Error() }
func (g *guardError) Unwrap() error { return g.err }
