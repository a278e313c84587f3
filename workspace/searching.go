package workspace

import (
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
	if err := o.guard(VerbStat, pl.path, pl.disk, pl.onDisk, pl.st.id); err != nil {
		return Info{}, err
	}
	in := pl.st.info(pl.path)
	if pl.st.typ == Link {
		o.linkInfo(&in)
	}
	return in, nil
}
