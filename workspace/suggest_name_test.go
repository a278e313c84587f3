package workspace

import (
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// TestLookAlikes: a name that differs only in what is not seen is told and never
// taken. The control is a name that differs in what is seen.
func TestLookAlikes(t *testing.T) {
	const composed, apart = "caf\u00e9", "cafe\u0301"
	b := newBox(t, Options{})
	b.build(apart+".txt = x\n", "Screen\u202fShot.txt = x\n", apart+"-dir/f = x\n", "plain.txt = x\n", "Makefile = x\n", ".ENV = x\n", "hidden/"+apart+" = x\n")
	for asked, want := range map[string]string{
		composed + ".txt":    `"cafe\u0301.txt"`,
		"Screen Shot.txt":    `"Screen\u202fShot.txt"`,
		composed + "-dir/f":  `"cafe\u0301-dir/f"`,
		"makefile":           `"Makefile"`,
		"plain2.txt":         "",
		"none/" + composed:   "",
		".\u200bENV":         "",
		"hidden/" + composed: "",
	} {
		o := b.w.Overlay(OverlayOptions{Guard: func(_ Verb, path string, _ tool.Identity) error {
			if path == "hidden/"+apart {
				return tool.PathErrorf(tool.GrantMissing, path, "")
			}
			return nil
		}})
		_, read := o.ReadAt(t.Context(), asked, make([]byte, 9), 0)
		_, text := o.ReadText(t.Context(), asked, "", 1<<20)
		_, stat := o.Stat(t.Context(), asked)
		_, edit := o.Edit(t.Context(), asked, []Edit{{Old: "x", New: "y"}})
		for what, err := range map[string]error{"ReadAt": read, "ReadText": text, "Stat": stat, "Edit": edit} {
			e := tool.AsError(err)
			if err == nil || want != "" && e.Code != tool.NotFound || want == "" && strings.Contains(e.Next, "did you mean") || !strings.Contains(e.Next, want) {
				t.Errorf("%s(%q) = %v; want not_found and %s", what, asked, err, want)
			}
		}
		if !o.WriteSet().Empty() {
			t.Errorf("an edit of %q changed something", asked)
		}
	}
}
