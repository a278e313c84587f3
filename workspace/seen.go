package workspace

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/wasmtools/wasmtools/tool"
)

// Seen remembers what a session knows of the files of a workspace: the digest of
// what it read or wrote last. A file that is to be overwritten as a whole, and is
// not what the session knows, has been changed by somebody whose work the session
// has never seen; see [OverlayOptions.Seen]. Times say nothing, so a file that was
// touched, or changed and changed back, is as it was.
//
// The oldest of more than 10,000 files are forgotten. A Seen is safe for
// concurrent use.
type Seen struct {
	require bool

	mu    sync.Mutex
	tick  uint64
	files map[string]sight // by canonical path
}

type sight struct {
	sum  tool.Digest
	st   stat // of what was read; zero for what was written
	tick uint64
}

const (
	maxSeen      = 10_000
	maxSeenBytes = 64 << 20  // of a file; a guest cannot overwrite a larger one with anything that it holds
	maxSeenTotal = 256 << 20 // that one call reads to digest it
)

// NewSeen begins a session. If require is set, a file that the session knows
// nothing of is not overwritten either.
func NewSeen(require bool) *Seen { return &Seen{require: require, files: map[string]sight{}} }

func (s *Seen) put(path string, sum tool.Digest, st stat) {
	s.tick++
	s.files[path] = sight{sum, st, s.tick}
	if len(s.files) <= maxSeen {
		return
	}
	// Rarely, so that it costs nothing in the mean.
	paths := slices.Collect(maps.Keys(s.files))
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(s.files[a].tick, s.files[b].tick) })
	for _, p := range paths[:maxSeen/10] {
		delete(s.files, p)
	}
}

// Read notes what a call has read. It is for calls that ended well.
func (s *Seen) Read(o *Overlay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, r := range o.reads {
		s.put(path, r.sum, r.st)
	}
}

// Committed notes what the session itself changed.
func (s *Seen) Committed(ws *tool.WriteSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range ws.Entries {
		switch e.Op {
		case tool.OpWrite:
			s.put(e.Path, e.After, stat{})
		case tool.OpDelete:
			delete(s.files, e.Path)
		case tool.OpMove:
			if old, ok := s.files[e.From]; ok {
				delete(s.files, e.From)
				s.files[e.Path] = old
			}
			if e.Mode.IsDir() {
				for p, old := range s.files {
					if under(p, e.From) {
						delete(s.files, p)
						s.files[e.Path+p[len(e.From):]] = old
					}
				}
			}
		}
	}
}

// check says whether a file that holds sum may be overwritten. read is what the
// same call has read of it, if it has.
func (s *Seen) check(asked, path string, sum, read tool.Digest) error {
	if sum == "" || sum == read {
		return nil
	}
	s.mu.Lock()
	known, ok := s.files[path]
	s.mu.Unlock()
	switch {
	case ok && known.sum != sum:
		return tool.PathErrorf(tool.Stale, asked, "the file is not what it was when this session read or wrote it").
			WithNext("read it again, and then decide what it should hold")
	case !ok && s.require:
		return tool.PathErrorf(tool.Stale, asked, "the file was not read in this session, and it must be before it is overwritten").
			WithNext("read it first, give its expected_sha256, or change a part of it with replace_block")
	}
	return nil
}

// same gives the digest of a file that was read before in the very state st.
func (s *Seen) same(path string, st stat) tool.Digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.files[path]; ok && known.st.same(st) {
		return known.sum
	}
	return ""
}

// same reports whether two looks at a file found the same object in the same state,
// and so long after its last change that no write can hide in a tick of the clock.
func (s stat) same(now stat) bool {
	return s.sameState(now) && s.ctime != 0 && s.ctime == now.ctime && !now.racy()
}

// readNote is a file that the call has read.
type readNote struct {
	sum tool.Digest
	st  stat
}

// noteRead digests a file that is about to be read, from the same descriptor: if it
// is changed in place meanwhile, the session knows less than it read, and reads
// again.
func (o *Overlay) noteRead(ctx context.Context, path string, f file, st stat) {
	if o.opts.Seen == nil || st.size > maxSeenBytes || o.digested+st.size > maxSeenTotal {
		return
	}
	if r, ok := o.reads[path]; ok && r.st.same(st) {
		return
	}
	if sum := o.opts.Seen.same(path, st); sum != "" {
		o.noteSum(path, sum, st) // the next page of a large file
		return
	}
	o.digested += st.size
	sum, _, err := digestUpTo(ctx, f, st.size, -1, maxSeenBytes)
	if err != nil {
		return // the read will meet the same
	}
	o.noteSum(path, sum, st)
}

func (o *Overlay) noteSum(path string, sum tool.Digest, st stat) {
	if o.opts.Seen == nil {
		return
	}
	if o.reads == nil {
		o.reads = map[string]readNote{}
	}
	if len(o.reads) < maxSeen {
		o.reads[path] = readNote{sum, st}
	}
}
