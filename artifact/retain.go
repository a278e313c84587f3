package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// stale is the age at which a temporary file belongs to nobody any more, also
// where files cannot be locked: none is open for longer than a call.
const stale = 24 * time.Hour

// young is the age below which content stays although the one handle that named
// it was removed: another process may be about to give the same content a new one.
const young = time.Minute

// Retention says what may be removed.
type Retention struct {
	MaxAge   time.Duration // 0: any age stays
	MaxBytes int64         // 0: any size stays; below 0: nothing does

	// now removes content that is young as well. Another process that stores the
	// very same bytes in this moment then loses them, and its handle says so.
	now bool
}

// Plan is what Prune would remove.
func (s *Store) Plan(r Retention, now time.Time) ([]Info, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	var chosen []Info
	choose(all, r, now, func(i *Info, why string) {
		i.Removed, i.Gone = why, now.UTC()
		chosen = append(chosen, *i)
	})
	return chosen, nil
}

// choose calls remove for what r lets go.
func choose(all []Info, r Retention, now time.Time, remove func(*Info, string)) {
	for i := range all {
		if a := &all[i]; a.Removed == "" && r.MaxAge > 0 && now.Sub(a.Created) > r.MaxAge {
			remove(a, fmt.Sprintf("it was older than %s", r.MaxAge))
		}
	}
	if r.MaxBytes != 0 {
		makeRoom(all, r.MaxBytes, remove)
	}
	live := 0
	for _, i := range all {
		if i.Removed == "" {
			live++
		}
	}
	for i := range all {
		if a := &all[i]; a.Removed == "" && live > maxLive {
			live--
			remove(a, "it made room for newer ones")
		}
	}
}

// maxLive is how many artifacts a workspace has at most, whatever their size:
// equal content costs no room, but the file of each handle does.
var maxLive = 10_000

// Prune removes content by age, and then the oldest until the rest fits. What
// was removed stays listed, without content, for as long again as MaxAge. It
// returns what it removed.
func (s *Store) Prune(r Retention, now time.Time) ([]Info, error) {
	root, err := s.there()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return prune(root, r, now)
}

func prune(root *os.Root, r Retention, now time.Time) ([]Info, error) {
	all, err := list(root)
	if err != nil {
		return nil, err
	}
	var removed []Info
	var errs []error
	remove := func(i *Info, why string) {
		i.Removed, i.Gone = why, now.UTC()
		if err := writeInfo(root, *i); err != nil {
			errs = append(errs, err)
			return
		}
		removed = append(removed, *i)
	}
	for _, a := range all {
		if a.Removed != "" && r.MaxAge > 0 && now.Sub(a.Gone) > r.MaxAge {
			errs = append(errs, gone(root.Remove(path.Join(handles, a.Handle))))
		}
	}
	choose(all, r, now, remove)
	errs = append(errs, forget(root, all), sweep(root, all, now, r.now))
	return removed, errors.Join(errs...)
}

// gone passes over that another process removed it first.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// makeRoom removes the oldest content until the rest takes at most max bytes.
func makeRoom(all []Info, max int64, remove func(*Info, string)) {
	users := map[tool.Digest]int{}
	var n int64
	for _, i := range all {
		if i.Removed == "" {
			if users[i.Digest]++; users[i.Digest] == 1 {
				n += i.Bytes
			}
		}
	}
	for i := range all {
		if a := &all[i]; a.Removed == "" && n > max {
			remove(a, "it made room for newer ones")
			if users[a.Digest]--; users[a.Digest] == 0 {
				n -= a.Bytes
			}
		}
	}
}

// maxTombstones is how many removed artifacts stay listed, so that a handle says
// what became of it; the oldest are forgotten first.
const maxTombstones = 1000

func forget(root *os.Root, all []Info) error {
	n := 0
	for _, i := range all {
		if i.Removed != "" {
			n++
		}
	}
	var errs []error
	for _, i := range all {
		if i.Removed != "" && n > maxTombstones {
			n--
			errs = append(errs, gone(root.Remove(path.Join(handles, i.Handle))))
		}
	}
	return errors.Join(errs...)
}

// stored is how many bytes the content of all takes; equal content counts once.
func stored(all []Info) int64 {
	var n int64
	seen := map[tool.Digest]bool{}
	for _, i := range all {
		if i.Removed == "" && !seen[i.Digest] {
			seen[i.Digest] = true
			n += i.Bytes
		}
	}
	return n
}

// sweep removes content that nobody names any more, and temporary files that
// their process left. Content that is young may be about to get its handle.
func sweep(root *os.Root, all []Info, now time.Time, atOnce bool) error {
	wanted := map[string]bool{}
	for _, i := range all {
		if i.Removed == "" {
			wanted[objectName(i.Digest)] = true
		}
	}
	removed := map[string]bool{}
	for _, i := range all {
		if i.Removed != "" {
			removed[objectName(i.Digest)] = true
		}
	}
	var errs []error
	for _, dir := range []string{objects, handles} {
		d, err := root.Open(dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		names, err := d.Readdirnames(-1)
		d.Close()
		errs = append(errs, err)
		for _, n := range names {
			tmp := strings.HasPrefix(n, ".tmp-")
			if !tmp && (dir == handles || wanted[n]) {
				continue
			}
			fi, err := root.Lstat(path.Join(dir, n))
			if err != nil {
				continue // somebody else removed it
			}
			age := now.Sub(fi.ModTime())
			if age > stale || (age > young || atOnce) && !tmp && removed[n] || age > young && tmp && abandoned(root, path.Join(dir, n)) {
				errs = append(errs, gone(root.Remove(path.Join(dir, n))))
			}
		}
	}
	return errors.Join(errs...)
}

// abandoned reports whether the process that wrote a temporary file has ended:
// nobody holds its lock.
func abandoned(root *os.Root, name string) bool {
	f, err := root.OpenFile(name, os.O_RDWR|openFlags, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	fi, err := f.Stat()
	return err == nil && fi.Mode().IsRegular() && unheld(f)
}

// room lets the oldest content make room for n more bytes. What is there is
// counted now and then only: other processes store too, so the bound holds to
// within what they store meanwhile.
func (s *Store) room(root *os.Root, n int64) error {
	if n > s.opts.MaxStored {
		return tool.Errorf(tool.Quota, "the output has %d bytes, and %d may be archived", n, s.opts.MaxStored)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.puts == 0 {
		// What is left of others may be in the way of nobody; it is no reason to
		// refuse an artifact.
		_, _ = prune(root, Retention{MaxAge: s.opts.MaxAge}, time.Now())
	}
	if s.puts%recount == 0 || s.counted+n > s.opts.MaxStored {
		all, err := list(root)
		if err != nil {
			return unavailable(err)
		}
		s.counted = stored(all)
		if len(all) > maxLive+maxTombstones || s.opts.MaxAge > 0 {
			_, _ = prune(root, Retention{MaxAge: s.opts.MaxAge}, time.Now())
		}
		if s.counted+n > s.opts.MaxStored {
			left := s.opts.MaxStored - n
			if left == 0 {
				left = -1
			}
			if _, err := prune(root, Retention{MaxBytes: left, now: true}, time.Now()); err != nil {
				return unavailable(err)
			}
			s.counted = s.opts.MaxStored - n
		}
	}
	s.puts++
	s.counted += n
	return nil
}

// recount is after how many artifacts everything that is there is counted.
const recount = 256
