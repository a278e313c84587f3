package workspace

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// view lists everything an overlay shows, in the form of diskView.
func overlayView(t testing.TB, o *Overlay, dir string, out *[]string) {
	t.Helper()
	page, err := o.List(t.Context(), dir, ListOptions{MaxResults: 1000})
	if err != nil {
		t.Fatalf("List(%q): %v", dir, err)
	}
	for _, e := range page.Entries {
		switch e.Type {
		case Dir:
			*out = append(*out, fmt.Sprintf("%q dir %o", e.Path, e.Mode))
			overlayView(t, o, e.Path, out)
		case File:
			text, err := readAll(t, o, e.Path)
			if err != nil {
				t.Fatalf("ReadAt(%q): %v", e.Path, err)
			}
			*out = append(*out, fmt.Sprintf("%q file %o %q", e.Path, e.Mode, text))
		default:
			*out = append(*out, fmt.Sprintf("%q %s", e.Path, e.Type))
		}
	}
}

func diskView(t testing.TB, root, dir string, out *[]string) {
	t.Helper()
	entries, err := os.ReadDir(root + "/" + dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		p := join(dir, e.Name())
		fi, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.IsDir():
			*out = append(*out, fmt.Sprintf("%q dir %o", p, fi.Mode().Perm()))
			diskView(t, root, p, out)
		case e.Type().IsRegular():
			c, err := os.ReadFile(root + "/" + p)
			if err != nil {
				t.Fatal(err)
			}
			*out = append(*out, fmt.Sprintf("%q file %o %q", p, fi.Mode().Perm(), c))
		default:
			*out = append(*out, fmt.Sprintf("%q link", p))
		}
	}
}

// randomPath names something that exists or is near it, now and then something
// hostile.
func randomPath(r *rand.Rand, known []string) string {
	if len(known) > 0 && r.IntN(2) == 0 {
		p := known[r.IntN(len(known))]
		if r.IntN(4) == 0 {
			p += "/" + string(rune('a'+r.IntN(4)))
		}
		return p
	}
	names := []string{"a", "b", "c", "d"}
	odd := []string{"in", "out", "up", "dang", "abs", "..", ".", "self", "outfile", "loop"}
	n := 1 + r.IntN(3)
	parts := make([]string, n)
	for i := range parts {
		if r.IntN(6) == 0 {
			parts[i] = odd[r.IntN(len(odd))]
		} else {
			parts[i] = names[r.IntN(len(names))]
		}
	}
	p := strings.Join(parts, "/")
	if r.IntN(20) == 0 {
		p += "/"
	}
	return p
}

func randomTree(b *box, r *rand.Rand) {
	for range 4 + r.IntN(10) {
		parts := make([]string, 1+r.IntN(3))
		for i := range parts {
			parts[i] = string(rune('a' + r.IntN(4)))
		}
		p := b.W + "/" + strings.Join(parts, "/")
		if i := strings.LastIndex(p, "/"); os.MkdirAll(p[:i], 0o755) != nil {
			continue
		}
		switch r.IntN(8) {
		case 0:
			os.Mkdir(p, 0o755)
		case 1:
			targets := []string{"a", "../a", "b/c", "../O", "../../O", b.O, b.O + "/secret", "nowhere", "../O/new", b.W + "/a", "."}
			os.Symlink(targets[r.IntN(len(targets))], p)
		default:
			os.WriteFile(p, fmt.Appendf(nil, "file %d\nline\n", r.IntN(100)), 0o644)
		}
	}
	for name, target := range map[string]string{
		"in": "a", "out": "../O", "up": "..", "dang": "nope", "abs": b.O, "self": ".", "outfile": "../O/secret", "loop": "loop",
	} {
		os.Symlink(target, b.W+"/"+name)
	}
}

// TestRandomCalls does random calls on random trees, with links in and out, and
// holds three things against each other: what the overlay shows before the
// commit, what is on disk after it, and that nothing outside ever changes or is
// read.
func TestRandomCalls(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 10
	}
	eachWay(t, func(t *testing.T, first *box) {
		ok, committed := 0, 0
		for seed := range uint64(rounds) {
			n, c := randomRound(t, first.opts, seed, nil)
			ok, committed = ok+n, committed+c
		}
		if ok < 5*rounds || committed < rounds/2 {
			t.Errorf("only %d calls and %d commits of %d rounds did anything: the test tests little", ok, committed, rounds)
		}
	})
}

func randomRound(t *testing.T, opts Options, seed uint64, prepare func(b *box)) (ok, committed int) {
	r := rand.New(rand.NewPCG(seed, 1))
	opts.AllowHardLinks = false
	b := newBox(t, opts)
	b.w.noExchange, b.w.noReplace = seed%5 >= 3, seed%5 == 4
	randomTree(b, r)
	if prepare != nil {
		prepare(b)
	}
	outside := tree(t, b.O)
	defer b.w.Close()
	for range 3 { // commits on one tree
		o := b.overlay()
		var log, known []string
		for range 1 + r.IntN(20) {
			known = known[:0]
			var shown []string
			overlayView(t, o, ".", &shown)
			for _, s := range shown {
				q, _ := strconv.QuotedPrefix(s)
				q, _ = strconv.Unquote(q)
				known = append(known, q)
			}
			p, q := randomPath(r, known), randomPath(r, known)
			var err error
			var what string
			switch r.IntN(10) {
			case 0, 1, 2:
				what = fmt.Sprintf("write %s", p)
				_, err = o.Write(t.Context(), p, fmt.Appendf(nil, "new %d\n", r.IntN(100)), r.IntN(2) == 0)
			case 3:
				what = fmt.Sprintf("edit %s", p)
				_, err = o.Edit(t.Context(), p, []Edit{{Old: "line", New: fmt.Sprint("row", r.IntN(9)), All: true}})
			case 4:
				what = fmt.Sprintf("remove %s", p)
				_, err = o.Remove(t.Context(), p, r.IntN(2) == 0)
			case 5, 6:
				what = fmt.Sprintf("rename %s %s", p, q)
				_, err = o.Rename(t.Context(), p, q, r.IntN(2) == 0)
			case 7:
				what = fmt.Sprintf("mkdir %s", p)
				err = o.Mkdir(t.Context(), p)
			case 8:
				var text string
				if text, err = readAll(t, o, p); strings.Contains(text, topSecret) {
					t.Fatalf("seed %d: read %s leaks", seed, p)
				}
			case 9:
				var page Page
				if page, err = o.List(t.Context(), p, ListOptions{}); err == nil {
					for _, e := range page.Entries {
						if e.Name == "secret" {
							t.Fatalf("seed %d: list %s leaks", seed, p)
						}
					}
				}
			}
			if err == nil {
				ok++
			} else if code := tool.CodeOf(err); code == tool.Internal || code == tool.Busy {
				t.Fatalf("seed %d: %s: %v\n%s", seed, what, err, strings.Join(log, "\n"))
			}
			log = append(log, fmt.Sprintf("%s: %v", what, err))
		}
		var want, got []string
		overlayView(t, o, ".", &want)
		before := tree(t, b.W)
		err := b.commit(o)
		if err != nil {
			t.Fatalf("seed %d: commit: %v (%v)\n%s\n%s\nwas\n%s", seed, err, tool.AsError(err).Err, strings.Join(log, "\n"), o.Diff(0), before)
		}
		if !o.WriteSet().Empty() {
			committed++
		}
		o.Close()
		diskView(t, b.W, ".", &got)
		sort.Strings(want)
		sort.Strings(got)
		if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
			t.Fatalf("seed %d: on disk\n%s\nthe overlay showed\n%s\ncalls\n%s\nset\n%s", seed, g, w, strings.Join(log, "\n"), o.Diff(0))
		}
		if after := tree(t, b.O); after != outside {
			t.Fatalf("seed %d: the outside changed:\n%s\ncalls\n%s", seed, after, strings.Join(log, "\n"))
		}
	}
	return ok, committed
}

// FuzzCalls looks for a tree and calls that break what TestRandomCalls holds.
func FuzzCalls(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, noOpenat2 bool) {
		randomRound(t, Options{NoOpenat2: noOpenat2, NoSync: true}, seed, nil)
	})
}
