package workspace

import (
	"context"

	"github.com/wasmtools/wasmtools/tool"
)

// Load makes a write set pending again in an empty overlay: what an overlay before
// it has become. It asks no guard, and a set that does not fit the disk any more is
// an error with the code stale that names a path. [Overlay.Diff] leaves out what
// was loaded and not changed since.
func (o *Overlay) Load(ctx context.Context, ws *tool.WriteSet) error {
	if len(o.ops) > 0 {
		return tool.Errorf(tool.Internal, "a write set is loaded into an empty overlay only")
	}
	opts := o.opts
	defer func() { o.opts = opts }()
	o.opts.ReadOnly, o.opts.Seen = false, nil
	o.opts.Guard = o.w.denied.guard(nil)
	stale := func(path string, err error) error {
		return tool.PathErrorf(tool.Stale, path, "it is not what it was when the overlay was begun").
			WithNext("drop the overlay and begin again").Because(err)
	}
	groups := unitsOf(ws.Entries)
	for i, g := range groups {
		e := &g[len(g)-1]
		var err error
		switch e.Op {
		case tool.OpMkdir:
			err = o.Mkdir(ctx, e.Path)
		case tool.OpWrite:
			_, err = o.Write(ctx, e.Path, e.Blob, true)
		case tool.OpDelete:
			if i+1 < len(groups) {
				if next := &groups[i+1][0]; next.Op == tool.OpMove && next.Path == e.Path && next.Replaced != (tool.Identity{}) {
					continue // the move does it
				}
			}
			_, err = o.remove(ctx, e.Path, e.Mode.IsDir(), e.Permanent)
		case tool.OpMove:
			_, err = o.Rename(ctx, e.From, e.Path, e.Replaced != tool.Identity{})
		default:
			err = tool.PathErrorf(tool.InvalidArguments, e.Path, "a write set cannot hold %q", string(e.Op))
		}
		switch tool.CodeOf(err) {
		case "":
			if err != nil {
				return err // the context's
			}
		case tool.Protected, tool.TooLarge:
			return err
		default:
			return stale(e.Path, err)
		}
	}
	got := o.WriteSet()
	for i := range ws.Entries {
		want := ws.Entries[i]
		if i >= len(got.Entries) {
			return stale(want.Path, nil)
		}
		have := got.Entries[i]
		want.Blob, have.Blob = nil, nil
		if !sameWrite(want, have) {
			return stale(want.Path, nil)
		}
	}
	if len(got.Entries) != len(ws.Entries) {
		return stale(got.Entries[len(ws.Entries)].Path, nil)
	}
	for _, c := range o.ops {
		c.loaded = true
	}
	return nil
}

func sameWrite(a, b tool.Write) bool {
	one := tool.WriteSet{Entries: []tool.Write{a}}
	other := tool.WriteSet{Entries: []tool.Write{b}}
	return one.Binding() == other.Binding()
}
