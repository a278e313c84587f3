package workspace

import (
	"context"
	"io/fs"

	"github.com/wasmtools/wasmtools/tool"
)

// What a walker over an overlay needs besides [Overlay.Pending] and the handles
// of [Workspace.OpenDir].

// Workspace is the tree that the overlay lies on.
func (o *Overlay) Workspace() *Workspace { return o.w }

// Allows puts a question to the overlay's guard, as every operation of the
// overlay does itself: may the call do v to what it sees at path? disk is where
// that stands on disk, "" if nowhere. It may be called from several goroutines
// as far as the guard may.
func (o *Overlay) Allows(v Verb, path, disk string, id tool.Identity) error {
	return o.guard(v, path, disk, disk != "", id)
}

// AllowsFile is Allows for a file that is open or was looked at: one that has
// other names is a secret if one of them is.
func (o *Overlay) AllowsFile(ctx context.Context, v Verb, path, disk string, in Info) error {
	st := stat{typ: in.Type, nlink: in.Links, ctime: in.ctime, id: in.ID}
	return o.guardFile(ctx, v, path, disk, disk != "", st)
}

// Shows puts the name of an entry of [Overlay.List] to the overlay's own guard. A
// secret's name may be shown: List has left out everything else of it.
func (o *Overlay) Shows(in Info) error {
	if o.opts.Guard == nil {
		return nil
	}
	return o.opts.Guard(VerbStat, in.Path, in.ID)
}

// Lstat tells what stands at a canonical path, as [Overlay.Stat] does, but
// follows no link at its end. Of a link it tells where it points.
func (o *Overlay) Lstat(path string) (Info, error) {
	pl, err := o.find(path, false)
	if err == nil && !pl.exists() {
		err = pathError(path, fs.ErrNotExist)
	}
	if err != nil {
		return Info{}, err
	}
	if err := o.guardFile(context.Background(), VerbStat, pl.path, pl.disk, pl.onDisk, pl.st); err != nil {
		return Info{}, pathError(path, err)
	}
	in := pl.st.info(pl.path)
	if pl.st.typ == Link {
		o.linkInfo(&in)
	}
	return in, nil
}
