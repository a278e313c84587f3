package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/tool"
)

// swap exchanges two names as fast as it can until stop is called.
func swap(t testing.TB, a, b string) (stop func()) {
	t.Helper()
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-quit:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	})
	return func() {
		close(quit)
		wg.Wait()
	}
}

// naive is the way that does not work: judge the real path, then use the name.
type naive struct{ root string }

func (n naive) check(path string) error {
	real, err := filepath.EvalSymlinks(n.root + "/" + path)
	if errors.Is(err, fs.ErrNotExist) {
		real, err = filepath.EvalSymlinks(filepath.Dir(n.root + "/" + path))
	}
	if err == nil && !strings.HasPrefix(real+"/", n.root+"/") {
		err = fs.ErrPermission
	}
	return err
}

// raceCase is one attack: names that are swapped, and a call that must never
// reach through them. hit says whether the outside was reached; it also puts
// the outside back for the next try.
type raceCase struct {
	name   string
	build  []string
	a, b   string
	call   func(b *box) error
	naive  func(n naive) error
	hit    func(b *box) bool
	repair func(b *box)
}

func outsideUntouched(names ...string) func(b *box) bool {
	return func(b *box) bool {
		for _, n := range names {
			if n, ok := strings.CutPrefix(n, "!"); ok {
				if _, err := os.Lstat(b.O + "/" + n); err == nil {
					os.Remove(b.O + "/" + n)
					return true
				}
				continue
			}
			if p, err := os.ReadFile(b.O + "/" + n); string(p) != topSecret {
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					continue
				}
				os.WriteFile(b.O+"/"+n, []byte(topSecret), 0o644)
				return true
			}
		}
		return false
	}
}

var leaked bool // set by calls that read

func noteLeak(text string) {
	if strings.Contains(text, topSecret) {
		leaked = true
	}
}

func sawSecret(*box) bool {
	l := leaked
	leaked = false
	return l
}

func raceCases() []raceCase {
	dirs := []string{"d/x = okdata", "lnk => ../O"}
	file := []string{"f = okdata", "lnk => ../O/x"}
	commit := func(b *box, f func(o *Overlay) error) error {
		o := b.overlay()
		defer o.Close()
		if err := f(o); err != nil {
			return err
		}
		return b.commit(o)
	}
	read := func(path string) func(b *box) error {
		return func(b *box) error {
			o := b.overlay()
			defer o.Close()
			text, err := readAll(b.t, o, path)
			noteLeak(text)
			return err
		}
	}
	naiveRead := func(path string) func(n naive) error {
		return func(n naive) error {
			if err := n.check(path); err != nil {
				return err
			}
			p, err := os.ReadFile(n.root + "/" + path)
			noteLeak(string(p))
			return err
		}
	}
	do := func(path string, f func(host string) error) func(n naive) error {
		return func(n naive) error {
			if err := n.check(path); err != nil {
				return err
			}
			return f(n.root + "/" + path)
		}
	}
	return []raceCase{
		{name: "read, parent swapped", build: dirs, a: "d", b: "lnk", call: read("d/x"), naive: naiveRead("d/x"), hit: sawSecret},
		{name: "read, file swapped", build: file, a: "f", b: "lnk", call: read("f"), naive: naiveRead("f"), hit: sawSecret},
		{
			name: "list", build: dirs, a: "d", b: "lnk",
			call: func(b *box) error {
				page, err := b.overlay().List(b.t.Context(), "d", ListOptions{})
				for _, e := range page.Entries {
					if e.Name == "secret" {
						leaked = true
					}
				}
				return err
			},
			naive: do("d", func(host string) error {
				entries, err := os.ReadDir(host)
				for _, e := range entries {
					if e.Name() == "secret" {
						leaked = true
					}
				}
				return err
			}),
			hit: sawSecret,
		},
		{
			name: "stat", build: append(dirs, "d/secret = four"), a: "d", b: "lnk",
			call: func(b *box) error {
				in, err := b.overlay().Stat(b.t.Context(), "d/secret")
				leaked = leaked || in.Size == int64(len(topSecret))
				return err
			},
			naive: do("d/secret", func(host string) error {
				fi, err := os.Lstat(host)
				leaked = leaked || err == nil && fi.Size() == int64(len(topSecret))
				return err
			}),
			hit: sawSecret,
		},
		{
			name: "write a new file, parent swapped", build: dirs, a: "d", b: "lnk",
			call: func(b *box) error {
				return commit(b, func(o *Overlay) error {
					_, err := o.Write(b.t.Context(), "d/new.txt", []byte("x"), true)
					return err
				})
			},
			naive: do("d/new.txt", func(host string) error { return os.WriteFile(host, []byte("x"), 0o644) }),
			hit:   outsideUntouched("!new.txt", "x"),
		},
		{
			name: "overwrite, file swapped", build: file, a: "f", b: "lnk",
			call: func(b *box) error {
				return commit(b, func(o *Overlay) error {
					_, err := o.Write(b.t.Context(), "f", []byte("PWN"), true)
					return err
				})
			},
			naive: do("f", func(host string) error { return os.WriteFile(host, []byte("PWN"), 0o644) }),
			hit:   outsideUntouched("x"),
		},
		{
			name: "overwrite, parent swapped", build: dirs, a: "d", b: "lnk",
			call: func(b *box) error {
				return commit(b, func(o *Overlay) error {
					_, err := o.Write(b.t.Context(), "d/x", []byte("PWN"), true)
					return err
				})
			},
			naive: do("d/x", func(host string) error { return os.WriteFile(host, []byte("PWN"), 0o644) }),
			hit:   outsideUntouched("x"),
		},
		{
			name: "edit", build: dirs, a: "d", b: "lnk",
			call: func(b *box) error {
				return commit(b, func(o *Overlay) error {
					_, err := o.Edit(b.t.Context(), "d/x", []Edit{{Old: "S", New: "Z", All: true}})
					if err != nil {
						noteLeak(err.Error())
						_, err = o.Edit(b.t.Context(), "d/x", []Edit{{Old: "k", New: "K", All: true}})
					}
					return err
				})
			},
			naive: do("d/x", func(host string) error {
				p, err := os.ReadFile(host)
				if err != nil {
					return err
				}
				return os.WriteFile(host, []byte(strings.ReplaceAll(string(p), "S", "Z")), 0o644)
			}),
			hit: func(b *box) bool { return outsideUntouched("x")(b) || sawSecret(b) },
		},
		{
			name: "delete", build: dirs, a: "d", b: "lnk",
			call: func(b *box) error {
				return commit(b, func(o *Overlay) error {
					_, err := o.Remove(b.t.Context(), "d/x", false)
					return err
				})
			},
			naive:  do("d/x", os.Remove),
			hit:    outsideUntouched("x"),
			repair: func(b *box) { b.real.WriteFile("x", []byte("okdata"), 0o644) },
		},
		{
			name: "delete a tree", build: []string{"d/t/x = a", "lnk => ../O"}, a: "d", b: "lnk",
			call: func(b *box) error {
				return commit(b, func(o *Overlay) error {
					_, err := o.Remove(b.t.Context(), "d/t", true)
					return err
				})
			},
			naive: do("d/t", os.RemoveAll),
			hit: func(b *box) bool {
				if _, err := os.Stat(b.O + "/t/x"); err != nil {
					os.Mkdir(b.O+"/t", 0o755)
					os.WriteFile(b.O+"/t/x", []byte("outside"), 0o644)
					return true
				}
				return false
			},
			repair: func(b *box) {
				b.real.Mkdir("t", 0o755)
				b.real.WriteFile("t/x", []byte("a"), 0o644)
			},
		},
		{
			name: "move out", build: append(dirs, "m = moved"), a: "d", b: "lnk",
			call: func(b *box) error {
				err := commit(b, func(o *Overlay) error {
					_, err := o.Rename(b.t.Context(), "m", "d/m", false)
					return err
				})
				if err != nil {
					return err
				}
				return commit(b, func(o *Overlay) error {
					_, err := o.Rename(b.t.Context(), "d/m", "m", false)
					return err
				})
			},
			naive: func(n naive) error {
				if err := n.check("d/m"); err != nil {
					return err
				}
				if err := os.Rename(n.root+"/m", n.root+"/d/m"); err != nil {
					return err
				}
				if n.check("d/m") == nil {
					os.Rename(n.root+"/d/m", n.root+"/m")
				}
				return nil
			},
			hit: outsideUntouched("!m", "x"),
			repair: func(b *box) {
				os.WriteFile(b.W+"/m", []byte("moved"), 0o644)
				b.real.Remove("m")
			},
		},
		{
			name: "make a directory", build: dirs, a: "d", b: "lnk",
			call: func(b *box) error {
				return commit(b, func(o *Overlay) error { return o.Mkdir(b.t.Context(), "d/new") })
			},
			naive:  do("d/new", func(host string) error { return os.Mkdir(host, 0o755) }),
			hit:    outsideUntouched("!new", "x"),
			repair: func(b *box) { b.real.Remove("new") },
		},
	}
}

// TestSwapRace attacks every verb with a name that is swapped for a link to the
// outside all the time. No call may reach through it; whether a call succeeds is
// left open, but some must, or the test would test nothing.
func TestSwapRace(t *testing.T) {
	calls := 1500
	if testing.Short() {
		calls = 150
	}
	for _, c := range raceCases() {
		t.Run(c.name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, b *box) {
				setUpRace(t, b, c)
				stop := swap(t, b.W+"/"+c.a, b.W+"/"+c.b)
				defer stop()
				done, refused := 0, 0
				for i := 0; i < calls || done == 0 && i < 100*calls; i++ {
					err := c.call(b)
					switch tool.CodeOf(err) {
					case "":
						done++
					case tool.Internal:
						t.Fatalf("call %d: %v (%v)", i, err, errors.Unwrap(err))
					default:
						refused++
					}
					if c.hit(b) {
						t.Fatalf("call %d reached the outside", i)
					}
					if c.repair != nil {
						c.repair(b)
					}
				}
				if done == 0 {
					t.Errorf("no call of %d did anything", calls)
				}
			})
		})
	}
}

// TestSwapRaceControl runs the same attacks against a check of the real path
// followed by the use of the name, and wants to see it fail: otherwise the
// attack proves nothing.
func TestSwapRaceControl(t *testing.T) {
	for _, c := range raceCases() {
		t.Run(c.name, func(t *testing.T) {
			b := newBox(t, Options{NoSync: true})
			setUpRace(t, b, c)
			stop := swap(t, b.W+"/"+c.a, b.W+"/"+c.b)
			defer stop()
			n := naive{b.W}
			deadline := time.Now().Add(30 * time.Second)
			for i := 0; ; i++ {
				c.naive(n)
				if c.hit(b) {
					return
				}
				if c.repair != nil {
					c.repair(b)
				}
				if time.Now().After(deadline) {
					t.Fatalf("the naive way withstood %d attacks: this race is no test", i)
				}
			}
		})
	}
}

func setUpRace(t *testing.T, b *box, c raceCase) {
	leaked = false
	b.build(c.build...)
	for name, text := range map[string]string{"/x": topSecret} {
		if err := os.WriteFile(b.O+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	os.Mkdir(b.O+"/t", 0o755)
	os.WriteFile(b.O+"/t/x", []byte("outside"), 0o644)
	if r, err := os.OpenRoot(b.W + "/d"); err == nil {
		b.real = r
		t.Cleanup(func() { r.Close() })
	}
}

// TestCommitRace prepares a write set in peace and swaps while it is committed:
// the window between what was approved and what happens.
func TestCommitRace(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("d/x = okdata", "lnk => ../O", "d/k = keep")
		os.WriteFile(b.O+"/x", []byte(topSecret), 0o644)
		b.guardOutside()
		rounds := 400
		if testing.Short() {
			rounds = 50
		}
		done := 0
		for i := range rounds {
			o := b.overlay()
			text := fmt.Sprint("round ", i)
			if _, err := o.Write(t.Context(), "d/x", []byte(text), true); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Write(t.Context(), "d/sub/new", []byte(text), true); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Remove(t.Context(), "d/k", false); err != nil {
				t.Fatal(err)
			}
			stop := swap(t, b.W+"/d", b.W+"/lnk")
			err := b.commit(o)
			stop()
			if fi, err := os.Lstat(b.W + "/d"); err != nil || !fi.IsDir() {
				os.Rename(b.W+"/d", b.W+"/tmp")
				os.Rename(b.W+"/lnk", b.W+"/d")
				os.Rename(b.W+"/tmp", b.W+"/lnk")
			}
			entries, _ := os.ReadDir(b.W + "/d")
			for _, e := range entries {
				if IsTemp(e.Name()) {
					t.Fatalf("round %d left %s behind (%v)", i, e.Name(), err)
				}
			}
			_, keep := os.Stat(b.W + "/d/k")
			wrote := b.read("d/x") == text
			if err == nil {
				done++
				if keep == nil || !wrote {
					t.Fatalf("round %d: committed, but not all of it", i)
				}
				b.build("d/k = keep")
			} else if keep != nil || wrote {
				t.Fatalf("round %d: half of the set is there: %v", i, err)
			}
			os.RemoveAll(b.W + "/d/sub")
		}
		t.Logf("%d of %d commits went through", done, rounds)
	})
}
