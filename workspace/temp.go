package workspace

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

const (
	tempPrefix = ".wasmtools-tmp-"
	tempRandom = 26 // base32 digits of 128 random bits

	// The random part of a staged file begins so: new content, locked until it is
	// published and never anybody else's bytes. Some are not locked, lest a large
	// set takes all descriptors; those have a name of the other kind.
	stagedMark     = "staged"
	maxStagedLocks = 256

	// A commit takes far less. What is older was left by a crash; it may be the
	// only copy of what was taken out of its place, so it stays for a day. A staged
	// file, where there are no locks, does not need to.
	staleStaged = time.Hour
	staleOther  = 24 * time.Hour

	maxSwept = 10_000 // names looked at in one directory
)

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// tempName is a name that nobody can have guessed, and so planted a link at.
func tempName() string {
	var b [16]byte
	for {
		rand.Read(b[:])
		if name := tempPrefix + lowerBase32.EncodeToString(b[:]); !isStaged(name) {
			return name
		}
	}
}

// stagedName makes a temporary name one for a staged file.
func stagedName(temp string) string {
	return tempPrefix + stagedMark + temp[len(tempPrefix)+len(stagedMark):]
}

func isStaged(temp string) bool { return strings.HasPrefix(temp, tempPrefix+stagedMark) }

// IsTemp reports whether name has the form of the files that commits work with.
// Walkers leave such names out.
func IsTemp(name string) bool {
	rest, ok := strings.CutPrefix(name, tempPrefix)
	if !ok || len(rest) != tempRandom {
		return false
	}
	for i := 0; i < len(rest); i++ {
		if c := rest[i]; !('a' <= c && c <= 'z' || '2' <= c && c <= '7') {
			return false
		}
	}
	return true
}

// sweptDirs remembers which directories were searched for leftovers, so that a
// large directory is not read again for every commit in it.
type sweptDirs struct {
	mu   sync.Mutex
	seen map[tool.Identity]bool
}

func (s *sweptDirs) first(id tool.Identity) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[id] {
		return false
	}
	if s.seen == nil || len(s.seen) > 10_000 {
		s.seen = map[tool.Identity]bool{}
	}
	s.seen[id] = true
	return true
}

// sweep removes what crashed commits left in a directory: names of our form,
// owned by us, unchanged for a long time by a clock that nobody but the kernel
// sets. A staged file that nobody has locked goes at once: its commit is dead. It
// is done once per directory and is never a reason to fail.
func (w *Workspace) sweep(d dir, id tool.Identity, now time.Time) {
	if !w.swept.first(id) {
		return
	}
	c, err := d.reread()
	if err != nil {
		return
	}
	defer c.close()
	var names []string
	buf := make([]byte, 16<<10)
	for n := 0; n < maxSwept; {
		end, err := c.readNames(buf, func(name []byte, _ Type) bool {
			n++
			if len(name) == len(tempPrefix)+tempRandom && IsTemp(string(name)) {
				names = append(names, string(name))
			}
			return n < maxSwept
		})
		if err != nil || end {
			break
		}
	}
	for _, name := range names {
		st, err := d.lstat(name)
		if err != nil || !ours(st) || st.ctime == 0 {
			continue
		}
		age := now.Sub(time.Unix(0, st.ctime))
		switch {
		case isStaged(name) && st.typ == File:
			sweepStaged(d, name, age)
		case age <= staleOther:
		case st.typ == Dir:
			removeTree(d, name, nil, "")
		default:
			d.unlink(name)
		}
	}
}

// sweepStaged removes a staged file if it can have its lock. Whoever made it and
// is not yet so far sees that it is gone.
func sweepStaged(d dir, name string, age time.Duration) {
	f, st, err := d.openFile(name)
	if err != nil {
		return
	}
	defer f.close()
	ok, err := f.tryLock()
	if now, e := d.lstat(name); e != nil || !sameID(now.id, st.id) {
		return
	}
	if ok || err != nil && age > staleStaged {
		d.unlink(name)
	}
}

func ours(st stat) bool { return isWindows || int(st.uid) == os.Geteuid() }

// removeTree removes a directory and what is in it, by names in open
// directories. If want is set, only the paths in it go, and path is the one that
// name has in it.
func removeTree(d dir, name string, want map[string]*tool.Write, path string) (err error) {
	sub, err := d.openDir(name)
	if err != nil {
		return err
	}
	defer sub.close()
	names, err := sub.allNames()
	for _, n := range names {
		p := path + "/" + n
		if want != nil && want[p] == nil {
			continue
		}
		if st, e := sub.lstat(n); e == nil && st.typ == Dir {
			err = errors.Join(err, removeTree(sub, n, want, p))
		} else if e == nil {
			err = errors.Join(err, sub.unlink(n))
		}
	}
	return errors.Join(err, d.rmdir(name))
}
