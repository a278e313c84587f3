package workspace

import (
	"path/filepath"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// deniedDirs are folders of ours that happen to lie in the tree: keys, locks and
// compiled code must be out of reach of every call, whatever it was granted.
type deniedDirs struct {
	paths []string        // below the root, folded: in another spelling it may be the same folder
	ids   []tool.Identity // of those that exist
}

// deny takes host folders; those outside the root need nothing.
func (w *Workspace) deny(folders []string) {
	for _, f := range folders {
		if f == "" {
			continue
		}
		rel, err := filepath.Rel(w.real, realFolder(f))
		if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			continue
		}
		rel = filepath.ToSlash(rel)
		w.denied.paths = append(w.denied.paths, fold(rel))
		if d, err := w.openDir(rel); err == nil {
			if st, err := d.stat(); err == nil {
				w.denied.ids = append(w.denied.ids, st.id)
			}
			d.close()
		}
	}
}

// realFolder resolves links as far as the folder exists.
func realFolder(p string) string {
	if abs, err := filepath.Abs(p); err == nil {
		p = abs
	}
	rest := ""
	for {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(real, rest)
		}
		up := filepath.Dir(p)
		if up == p {
			return filepath.Join(p, rest)
		}
		rest, p = filepath.Join(filepath.Base(p), rest), up
	}
}

// guard puts the refusal of these folders before the call's own guard. It stays
// nil if there is nothing to refuse.
func (d deniedDirs) guard(next func(Verb, string, tool.Identity) error) func(Verb, string, tool.Identity) error {
	if len(d.paths) == 0 {
		return next
	}
	return func(v Verb, path string, id tool.Identity) error {
		folded := fold(path)
		for _, p := range d.paths {
			if under(folded, p) {
				return ownFolder(path)
			}
		}
		for _, own := range d.ids {
			if id == own && id != (tool.Identity{}) {
				return ownFolder(path)
			}
		}
		if next == nil {
			return nil
		}
		return next(v, path, id)
	}
}

func ownFolder(path string) error {
	return tool.PathErrorf(tool.Protected, path, "wasmtools keeps its own state there").
		WithNext("leave it; no rule can allow this")
}
