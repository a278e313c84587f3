package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/tool"
)

// swapper exchanges names in W with links that lead outside, all the time, by
// system calls of its own, as another process does. What it takes away it parks in
// a directory beside W and O, and puts back when it is stopped.
type swapper struct {
	stop chan struct{}
	wg   sync.WaitGroup
}

func startSwapper(t *testing.T, b *box, r *rand.Rand, known []string) *swapper {
	t.Helper()
	park := filepath.Dir(b.W) + "/P"
	must(t, os.Mkdir(park, 0o755))
	type pair struct{ a, b string }
	var pairs []pair
	for i := range 1 + r.IntN(3) {
		if len(known) == 0 {
			break
		}
		target := []string{b.O, b.O + "/secret", b.O + "/new", b.W, "/"}[r.IntN(4)]
		link := fmt.Sprintf("%s/%d", park, i)
		must(t, os.Symlink(target, link))
		pairs = append(pairs, pair{b.W + "/" + known[r.IntN(len(known))], link})
	}
	s := &swapper{stop: make(chan struct{})}
	for _, p := range pairs {
		s.wg.Go(func() {
			swapped := false
			for {
				if unix.Renameat2(unix.AT_FDCWD, p.a, unix.AT_FDCWD, p.b, unix.RENAME_EXCHANGE) == nil {
					swapped = !swapped
				}
				select {
				case <-s.stop:
					if swapped {
						unix.Renameat2(unix.AT_FDCWD, p.a, unix.AT_FDCWD, p.b, unix.RENAME_EXCHANGE)
					}
					return
				default:
				}
			}
		})
	}
	return s
}

func (s *swapper) end() {
	close(s.stop)
	s.wg.Wait()
}

// treeRound makes a random tree and random calls on it, some of them while
// another process swaps names for links that lead outside. Whatever happens, the
// outside stays as it is, and its secret is never seen. Where nobody swaps, an
// edit changes its spans and no other byte, every commit succeeds, and an undo of
// everything restores the start exactly; where somebody does, an undo that meets
// a conflict changes nothing.
func treeRound(t *testing.T, seed uint64, swaps bool) (commits int) {
	r := rand.New(rand.NewPCG(seed, 2))
	opts := Options{NoOpenat2: seed%4 == 3}
	if seed%7 == 6 {
		opts.StateDir = otherDevice(t)
	}
	b := journaled(t, opts.StateDir, opts)
	b.w.noExchange, b.w.noReplace, b.w.noLink = seed%5 >= 3, seed%5 == 4, seed%11 == 10
	defer b.w.Close()
	randomTree(b, r)
	outside, start := tree(t, b.O), tree(t, b.W)
	names := func() (known []string) {
		filepath.WalkDir(b.W, func(p string, _ fs.DirEntry, err error) error {
			if err == nil && p != b.W && !IsTemp(filepath.Base(p)) {
				known = append(known, strings.TrimPrefix(p, b.W+"/"))
			}
			return nil
		})
		return known
	}
	var s *swapper
	if swaps {
		s = startSwapper(t, b, r, names())
	}
	var log []string
	for range 1 + r.IntN(4) {
		o := b.overlay()
		for range 1 + r.IntN(8) {
			known := names()
			p, q := randomPath(r, known), randomPath(r, known)
			what, err := randomCall(t, o, r, p, q, !swaps)
			if code := tool.CodeOf(err); err != nil && (code == tool.Internal || code == tool.Busy) && !swaps {
				t.Fatalf("seed %d: %s: %v\n%s", seed, what, err, strings.Join(log, "\n"))
			}
			log = append(log, fmt.Sprintf("%s: %v", what, err))
		}
		protected, err := o.Protected(t.Context())
		if err == nil {
			err = b.w.CommitBy(t.Context(), By{Call: "c"}, o.WriteSet(), protected...)
		}
		log = append(log, fmt.Sprintf("commit: %v", err))
		switch {
		case err == nil && !o.WriteSet().Empty():
			commits++
		case err != nil && !swaps && !(b.w.noLink && b.w.noExchange && tool.CodeOf(err) == tool.NotAvailable):
			t.Fatalf("seed %d: commit: %v (%v)\n%s", seed, err, errors.Unwrap(err), strings.Join(log, "\n"))
		}
		o.Close()
	}
	if s != nil {
		s.end()
	}
	if now := tree(t, b.O); now != outside {
		t.Fatalf("seed %d: the outside changed:\n%s\ncalls\n%s", seed, now, strings.Join(log, "\n"))
	}
	if commits == 0 {
		return 0
	}
	must(t, os.WriteFile(b.w.journal.path("done", recordName(0)), []byte(`{"seq":0,"checkpoint":"start"}`), 0o600))
	end := tree(t, b.W)
	u, err := b.w.Undo(t.Context(), UndoOptions{To: "start"})
	switch now := tree(t, b.W); {
	case err != nil && !swaps && !(b.w.noLink && tool.CodeOf(err) == tool.NotAvailable):
		t.Fatalf("seed %d: undo: %v\n%s", seed, err, strings.Join(log, "\n"))
	case (err != nil || len(u.Conflicts) > 0) && now != end:
		t.Fatalf("seed %d: an undo that failed (%v %+v) changed something:\n%s\nwas\n%s", seed, err, u.Conflicts, now, end)
	case err == nil && !swaps && now != start && !b.w.noLink:
		t.Fatalf("seed %d: after the undo\n%s\nwant\n%s\nconflicts %+v, notes %q\ncalls\n%s", seed, now, start, u.Conflicts, u.Notes, strings.Join(log, "\n"))
	}
	if now := tree(t, b.O); now != outside {
		t.Fatalf("seed %d: the undo changed the outside:\n%s\ncalls\n%s", seed, now, strings.Join(log, "\n"))
	}
	return commits
}

// randomCall makes one call, and fails the test if it sees the secret, or if an
// edit changes a byte that is not its own.
func randomCall(t *testing.T, o *Overlay, r *rand.Rand, p, q string, quiet bool) (what string, err error) {
	t.Helper()
	switch r.IntN(9) {
	case 0, 1:
		what = "write " + p
		_, err = o.Write(t.Context(), p, fmt.Appendf(nil, "new %d\r\nline\nx\x00%d", r.IntN(100), r.IntN(9)), r.IntN(3) > 0)
	case 2, 3:
		what = "edit " + p
		before, readErr := readAll(t, o, p)
		all := r.IntN(2) == 0
		_, err = o.Edit(t.Context(), p, []Edit{{Old: "line", New: "LI\nNE", All: all}, {Old: "file", New: "", All: true}}[:1+r.IntN(2)])
		if err == nil && readErr == nil && quiet {
			after, e := readAll(t, o, p)
			want := strings.ReplaceAll(before, "line", "LI\nNE")
			if e != nil || after != want && after != strings.ReplaceAll(want, "file", "") {
				t.Fatalf("%s: %q became %q", what, before, after)
			}
		}
	case 4:
		what = "remove " + p
		_, err = o.Remove(t.Context(), p, r.IntN(2) == 0)
	case 5:
		what = fmt.Sprintf("rename %s %s", p, q)
		_, err = o.Rename(t.Context(), p, q, r.IntN(2) == 0)
	case 6:
		what = "mkdir " + p
		err = o.Mkdir(t.Context(), p)
	case 7:
		what = "read " + p
		var text string
		if text, err = readAll(t, o, p); strings.Contains(text, topSecret) {
			t.Fatalf("%s shows the secret", what)
		}
	case 8:
		what = "list " + p
		var page Page
		if page, err = o.List(t.Context(), p, ListOptions{}); err == nil {
			for _, e := range page.Entries {
				if e.Name == "secret" {
					t.Fatalf("%s shows the outside", what)
				}
			}
		}
	}
	if strings.Contains(o.Diff(0), topSecret) {
		t.Fatalf("%s: the diff shows the secret", what)
	}
	return what, err
}

func TestTree(t *testing.T) {
	rounds := 80
	if testing.Short() {
		rounds = 20
	}
	for _, swaps := range []bool{false, true} {
		t.Run(fmt.Sprintf("swaps=%v", swaps), func(t *testing.T) {
			commits := 0
			for seed := range uint64(rounds) {
				commits += treeRound(t, seed, swaps)
			}
			if commits < rounds/2 {
				t.Errorf("only %d commits of %d rounds: the test tests little", commits, rounds)
			}
		})
	}
}

// FuzzTree looks for a tree, calls and swaps that break what TestTree holds.
func FuzzTree(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, swaps bool) { treeRound(t, seed, swaps) })
}
