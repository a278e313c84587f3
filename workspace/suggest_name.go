package workspace

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

const (
	lookedAt   = 3 // pages of a directory, of maxListed names
	lookAlikes = 3 // names that an error gives
)

// lookAlike completes an error that says that nothing of a name exists: with
// names that differ from it in what is not seen, such as how letters are
// composed, blanks of other kinds, or case. None is opened in its place.
func (o *Overlay) lookAlike(ctx context.Context, asked string, err error) error {
	e, ok := err.(*tool.Error)
	if !ok || e.Code != tool.NotFound {
		return err
	}
	clean, _, bad := o.w.CheckPath(asked)
	if bad != nil || clean == "." {
		return err
	}
	dir, parts := ".", strings.Split(clean, "/")
	for i, name := range parts {
		pl, bad := o.find(join(dir, name), true)
		if bad != nil {
			return err
		}
		if pl.exists() {
			dir = join(dir, name)
			continue
		}
		var found, shown []string
		for _, n := range o.alike(ctx, dir, name) {
			path := strings.Join(append([]string{join(dir, n)}, parts[i+1:]...), "/")
			found = append(found, path)
			shown = append(shown, strconv.QuoteToASCII(path))
		}
		if found == nil {
			return err
		}
		c := *e
		c.Next = "did you mean " + strings.Join(shown, " or ") + "? it only looks the same (other code points, blanks or case); give exactly that path"
		return c.With("look_alikes", found)
	}
	return err
}

// alike lists the names in a directory that look like name, as far as the call
// may know them.
func (o *Overlay) alike(ctx context.Context, dir, name string) (out []string) {
	want, cursor := fold(name), ""
	for range lookedAt {
		page, err := o.List(ctx, dir, ListOptions{MaxResults: maxListed, Cursor: cursor})
		if err != nil {
			return out
		}
		for _, in := range page.Entries {
			if in.Name != name && in.Secret == "" && utf8.ValidString(in.Name) && fold(in.Name) == want && o.Shows(in) == nil {
				if out = append(out, in.Name); len(out) == lookAlikes {
					return out
				}
			}
		}
		if cursor = page.Next; cursor == "" {
			return out
		}
	}
	return out
}
