package hostfuncs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
	"github.com/wasmtools/wasmtools/workspace/search"
)

// maxEdits bounds the edits of one call of Edit: a refactoring of a large file
// has some hundred.
const maxEdits = 10_000

// files gives the overlay that file functions work on.
func (c *Call) files() (*workspace.Overlay, error) {
	if c.Files == nil {
		return nil, tool.Errorf(tool.GrantMissing, "no access to files was granted").
			WithNext("ask a person to grant fs.read or fs.write")
	}
	return c.Files, nil
}

// Stat tells what stands at path.
func (c *Call) Stat(ctx context.Context, path string) (_ workspace.Info, err error) {
	defer func() { c.saw("fs", path, err) }()
	o, err := c.files()
	if err != nil {
		return workspace.Info{}, err
	}
	in, err := o.Stat(ctx, path)
	in.Path, in.Escaped = workspace.ShownPath(in.Path)
	in.Name, _ = workspace.ShownPath(in.Name)
	return in, err
}

// List returns a page of a directory. Names that the grant does not let the
// guest look at are left out and counted.
func (c *Call) List(ctx context.Context, path string, opts workspace.ListOptions) (_ workspace.Page, err error) {
	defer func() { c.saw("fs", path, err) }()
	o, err := c.files()
	if err != nil {
		return workspace.Page{}, err
	}
	page, err := o.List(ctx, path, opts)
	if err != nil {
		return page, err
	}
	kept := page.Entries[:0]
	for _, e := range page.Entries {
		if err := o.Shows(e); err == nil {
			kept = append(kept, e)
		} else {
			page.Skipped.Refused(err)
		}
	}
	page.Entries = kept
	if len(kept) > 0 {
		// path may lead through links; the entries' own paths do not.
		dir := strings.TrimSuffix(strings.TrimSuffix(kept[0].Path, kept[0].Name), "/")
		search.MarkIgnored(o, cmp.Or(dir, "."), kept)
	}
	for i := range kept {
		kept[i].Path, kept[i].Escaped = workspace.ShownPath(kept[i].Path)
		kept[i].Name, _ = workspace.ShownPath(kept[i].Name)
	}
	return page, nil
}

// ReadAt copies bytes of a file into p, which may be a view into the guest's
// memory: it is written before ReadAt returns and not kept. It returns 0 at the
// end of the file.
func (c *Call) ReadAt(ctx context.Context, path string, p []byte, off int64) (_ int, err error) {
	defer func() { c.saw("fs", path, err) }()
	o, err := c.files()
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, tool.PathErrorf(tool.InvalidArguments, path, "offset %d is below zero", off).
			WithNext("read from offset 0 or above")
	}
	n, err := o.ReadAt(ctx, path, p, off)
	c.used.BytesRead += int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Write creates a file, or replaces its content if overwrite is set. data must
// stay unchanged afterwards.
func (c *Call) Write(ctx context.Context, path string, data []byte, overwrite bool) (_ workspace.Change, err error) {
	defer func() { c.saw("fs", path, err) }()
	o, err := c.files()
	if err != nil {
		return workspace.Change{}, err
	}
	return o.Write(ctx, path, data, overwrite)
}

// MaxText bounds a file that ReadText decodes, and with it what a guest finds
// room for.
const MaxText = 8 << 20

// ReadText gives a whole file as text, as [workspace.Overlay.ReadText] tells.
func (c *Call) ReadText(ctx context.Context, path, encoding string) (_ workspace.Text, err error) {
	defer func() { c.saw("fs", path, err) }()
	o, err := c.files()
	if err != nil {
		return workspace.Text{}, err
	}
	t, err := o.ReadText(ctx, path, encoding, MaxText)
	c.used.BytesRead += t.Size
	return t, err
}

// WriteText is Write for text, in an encoding, as [workspace.Overlay.WriteText]
// tells.
func (c *Call) WriteText(ctx context.Context, path, text, encoding string, overwrite bool) (_ workspace.Change, err error) {
	defer func() { c.saw("fs", path, err) }()
	o, err := c.files()
	if err != nil {
		return workspace.Change{}, err
	}
	return o.WriteText(ctx, path, text, encoding, overwrite)
}

// Edit replaces literal text in a file whose encoding its bytes tell.
func (c *Call) Edit(ctx context.Context, path string, edits []workspace.Edit) (workspace.Change, error) {
	return c.EditText(ctx, path, edits, "")
}

// EditText replaces literal text in a file, as [workspace.Overlay.EditText]
// tells.
func (c *Call) EditText(ctx context.Context, path string, edits []workspace.Edit, encoding string) (_ workspace.Change, err error) {
	defer func() { c.saw("fs", path, err) }()
	o, err := c.files()
	if err != nil {
		return workspace.Change{}, err
	}
	if len(edits) > maxEdits {
		return workspace.Change{}, tool.PathErrorf(tool.TooLarge, path, "%d edits; at most %d are allowed", len(edits), maxEdits)
	}
	return o.EditText(ctx, path, edits, encoding)
}

// Remove removes a name, or a tree if recursive is set.
func (c *Call) Remove(ctx context.Context, path string, recursive bool) (_ workspace.Change, err error) {
	defer func() { c.saw("fs", path, err) }()
	o, err := c.files()
	if err != nil {
		return workspace.Change{}, err
	}
	return o.Remove(ctx, path, recursive)
}

// RemovePermanently is Remove for what is not to be kept for an undo.
func (c *Call) RemovePermanently(ctx context.Context, path string, recursive bool) (_ workspace.Change, err error) {
	defer func() { c.saw("fs", path, err) }()
	o, err := c.files()
	if err != nil {
		return workspace.Change{}, err
	}
	return o.RemovePermanently(ctx, path, recursive)
}

// Rename moves a name; both ends must be granted.
func (c *Call) Rename(ctx context.Context, from, to string, overwrite bool) (_ workspace.Change, err error) {
	defer func() { c.saw("fs", from, err) }()
	o, err := c.files()
	if err != nil {
		return workspace.Change{}, err
	}
	return o.Rename(ctx, from, to, overwrite)
}

// Mkdir makes a directory and its parents.
func (c *Call) Mkdir(ctx context.Context, path string) (err error) {
	defer func() { c.saw("fs", path, err) }()
	o, err := c.files()
	if err != nil {
		return err
	}
	return o.Mkdir(ctx, path)
}

// Diff shows the call's changes so far, at most limit bytes.
func (c *Call) Diff(limit int) (string, error) {
	o, err := c.files()
	if err != nil {
		return "", err
	}
	if limit <= 0 || limit > maxDiff {
		return "", tool.Errorf(tool.InvalidArguments, "a diff of %d bytes; it must be 1 to %d", limit, maxDiff)
	}
	return o.Diff(limit), nil
}

// maxDiff bounds a diff: more than any result may hold.
const maxDiff = 4 << 20

// Discard forgets the call's changes.
func (c *Call) Discard() error {
	o, err := c.files()
	if err != nil {
		return err
	}
	o.Discard()
	return nil
}

// saw notes an access that was refused.
func (c *Call) saw(what, path string, err error) {
	if err == nil || len(c.used.Refused) >= tool.MaxUsagePaths {
		return
	}
	code := tool.CodeOf(err)
	switch code {
	case tool.GrantMissing, tool.Protected, tool.OutsideRoot, tool.Denied:
	case tool.NotAvailable:
		if what != "net" {
			return
		}
	default:
		return
	}
	if len(path) > 256 {
		path = path[:256]
	}
	if r := (tool.Refusal{What: what, Path: path, Code: code}); !slices.Contains(c.used.Refused, r) {
		c.used.Refused = append(c.used.Refused, r)
	}
}
