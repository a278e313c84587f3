package workspace

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestSweep(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("d/f = x")
		young, other := tempName(), ".wasmtools-tmp-note"
		for _, n := range []string{young, other} {
			must(t, os.WriteFile(b.W+"/d/"+n, nil, 0o644))
		}
		d, err := b.w.openDir("d")
		must(t, err)
		defer d.close()
		st, err := d.stat()
		must(t, err)
		b.w.sweep(d, st.id, time.Now().Add(staleFile/2))
		if _, err := os.Stat(b.W + "/d/" + young); err != nil {
			t.Error("a young file was removed")
		}
		b.w.swept.seen = nil
		must(t, os.Mkdir(b.W+"/d/"+strings.Repeat("x", 3), 0o755))
		tmpDir := tempName()
		must(t, os.MkdirAll(b.W+"/d/"+tmpDir+"/sub", 0o755), os.Symlink(b.O, b.W+"/d/"+tmpDir+"/sub/l"))
		b.guardOutside()
		b.w.sweep(d, st.id, time.Now().Add(2*staleFile))
		_, err1 := os.Stat(b.W + "/d/" + young)
		_, err2 := os.Stat(b.W + "/d/" + other)
		_, err3 := os.Stat(b.W + "/d/" + tmpDir)
		if err1 == nil || err2 != nil || err3 != nil {
			t.Errorf("old file: %v, a user's file: %v, a removed tree: %v; want the first gone", err1, err2, err3)
		}
		b.w.swept.seen = nil
		b.w.sweep(d, st.id, time.Now().Add(2*staleDir))
		if _, err := os.Stat(b.W + "/d/" + tmpDir); err == nil {
			t.Error("an old removed tree stays")
		}
		if b.read("d/f") != "x" {
			t.Error("a user's file changed")
		}
	})
}
