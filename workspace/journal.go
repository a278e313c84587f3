package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	gopath "path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// The journal says what each commit took away, so that it can be put back. It
// lies in the state folder, in a directory for each workspace:
//
//	open/N   a commit that has begun; if nobody holds its locks, it died
//	late/N   one that is in place, and clears away what it replaced
//	done/N   a commit, or a checkpoint
//	kept/H   content that a commit took away, under its SHA-256
//
// N is the number of the commit, in twenty digits. A record is written, and
// synced, before the first name changes, and goes on to the next folder when that
// much is done. What was taken away is then still there under a temporary name: it gets a
// second name in kept before the first goes, which costs no copying. On another
// file system it is copied.

// JournalOptions bounds what is kept for undo.
type JournalOptions struct {
	Off      bool          // keep nothing
	MaxBytes int64         // of kept content; the oldest commits go. 0 means 2 GiB
	MaxAge   time.Duration // of a commit; 0 means 30 days
}

const (
	defaultKeptBytes = 2 << 30
	defaultKeptAge   = 30 * 24 * time.Hour
	maxLogged        = 5000    // commits; each is a small file
	maxCopied        = 1 << 30 // bytes that one commit copies to another file system
	pruneEvery       = 256     // commits of one process
	maxRecordBytes   = 256 << 20
	maxCheckpoint    = 100 // bytes of a name
)

// By says on whose behalf a commit is made.
type By struct {
	Session string `json:"session,omitempty"`
	Turn    string `json:"turn,omitempty"`
	Call    string `json:"call,omitempty"`
	Tool    string `json:"tool,omitempty"`
}

// Logged is a commit as the journal has it, or a checkpoint.
type Logged struct {
	Seq        uint64         `json:"seq"` // counts up in one workspace
	At         time.Time      `json:"at"`
	By         By             `json:"by,omitzero"`
	Checkpoint string         `json:"checkpoint,omitempty"` // its name; there are no changes then
	Undoes     []uint64       `json:"undoes,omitempty"`     // the commits that this one took back
	Changes    []LoggedChange `json:"changes,omitempty"`

	UndoneBy uint64 `json:"undone_by,omitempty"` // the commit that took this one back; found out when the journal is read
}

// LoggedChange is one entry of a committed write set, and what it takes to put
// back what was there.
type LoggedChange struct {
	Op     tool.WriteOp  `json:"op"`
	Path   string        `json:"path"`
	From   string        `json:"from,omitempty"`
	Was    Type          `json:"was,omitempty"` // of what stood there, or was moved; empty for a new name
	ID     tool.Identity `json:"id,omitzero"`
	Before tool.Digest   `json:"before,omitempty"`
	After  tool.Digest   `json:"after,omitempty"`
	Mode   fs.FileMode   `json:"mode"`
	Size   int64         `json:"size,omitempty"` // of what stood there
	UID    uint32        `json:"uid,omitempty"`
	GID    uint32        `json:"gid,omitempty"`
	Target string        `json:"target,omitempty"` // of a removed link
	Kept   string        `json:"kept,omitempty"`   // the name of the content in kept
	Lost   string        `json:"lost,omitempty"`   // why nothing is kept, if something was taken away
}

// folders of records, in the order in which a record goes through them.
var folders = []string{"open", "late", "done"}

// journal is that of one workspace. The zero directory means that there is none.
type journal struct {
	w   *Workspace
	dir string

	mu      sync.Mutex
	next    uint64     // the number to try; 0: not known yet
	kept    *Workspace // the folder of kept content as a root of its own; nil: not opened yet
	commits int        // since what is old was removed
}

// journalDir is where the journal of a workspace lies.
func journalDir(state, real string) string {
	sum := sha256.Sum256([]byte(real))
	return filepath.Join(state, "undo", hex.EncodeToString(sum[:16]))
}

func (w *Workspace) openJournal() {
	if w.opts.StateDir == "" || w.opts.Journal.Off {
		return
	}
	w.journal = &journal{w: w, dir: journalDir(w.opts.StateDir, w.real)}
}

// errNoJournal is the answer to who asks for an undo where none is kept.
func errNoJournal() error {
	return tool.Errorf(tool.NotAvailable, "no journal is kept for this workspace").
		WithNext("use version control, or let the journal be kept: it needs a state folder, and undo that is not switched off")
}

func (j *journal) path(parts ...string) string {
	return filepath.Join(append([]string{j.dir}, parts...)...)
}

func recordName(seq uint64) string { return fmt.Sprintf("%020d", seq) }

func recordSeq(name string) (uint64, bool) {
	if len(name) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(name, 10, 64)
	return n, err == nil
}

// seqs lists the numbers of the records in a folder, ascending.
func (j *journal) seqs(folder string) ([]uint64, error) {
	f, err := os.Open(j.path(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	out := make([]uint64, 0, len(names))
	for _, n := range names {
		if seq, ok := recordSeq(n); ok {
			out = append(out, seq)
		}
	}
	slices.Sort(out)
	return out, nil
}

// open makes the folders and finds the next number. j.mu is held.
func (j *journal) open() error {
	if j.kept != nil {
		return nil
	}
	for _, d := range append([]string{"kept"}, folders...) {
		if err := os.MkdirAll(j.path(d), 0o700); err != nil {
			return err
		}
	}
	kept, err := openKept(j.path("kept"))
	if err != nil {
		return err
	}
	for _, folder := range folders {
		list, err := j.seqs(folder)
		if err != nil {
			kept.Close()
			return err
		}
		if n := len(list); n > 0 {
			j.next = max(j.next, list[n-1])
		}
	}
	j.next++
	j.kept = kept
	return nil
}

// openNow is open for who does not hold j.mu.
func (j *journal) openNow() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.open()
}

// openKept opens the folder of kept content with the means that the workspace
// itself is opened with.
func openKept(path string) (*Workspace, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	k := &Workspace{real: real, sysOpenat2: defaultOpenat2, tempName: tempName}
	if err := k.openRoot(real); err != nil {
		return nil, err
	}
	k.probe(Options{})
	return k, nil
}

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.kept == nil {
		return nil
	}
	k := j.kept
	j.kept = nil
	return k.Close()
}

// write puts a record into open under the next free number, and syncs it. Other
// processes take numbers too.
func (j *journal) write(r *Logged) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(); err != nil {
		return err
	}
	for {
		r.Seq = j.next
		j.next++
		name := recordName(r.Seq)
		f, err := os.OpenFile(j.path("open", name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if j.taken(name) {
			f.Close()
			os.Remove(f.Name())
			continue
		}
		for i := range r.Changes {
			c := &r.Changes[i]
			if c.Was == File && c.Op != tool.OpMove && c.Before == "" && c.Lost == "" {
				c.Kept = name + "-" + strconv.Itoa(i) // content that was too large to digest
			}
		}
		b, err := json.Marshal(r)
		if err == nil {
			err = j.w.fault("journal")
		}
		if err == nil {
			_, err = f.Write(b)
		}
		if err == nil && !j.w.opts.NoSync {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			os.Remove(f.Name())
			return err
		}
		return nil
	}
}

// taken reports whether a number was used before.
func (j *journal) taken(name string) bool {
	for _, folder := range folders[1:] {
		if _, err := os.Lstat(j.path(folder, name)); err == nil {
			return true
		}
	}
	return false
}

// advance brings a record from one folder to another.
func (j *journal) advance(seq uint64, from, to string) error {
	return os.Rename(j.path(from, recordName(seq)), j.path(to, recordName(seq)))
}

// forget removes the record of a commit that was taken back.
func (j *journal) forget(seq uint64) {
	os.Remove(j.path("open", recordName(seq)))
}

func (j *journal) read(folder string, seq uint64) (Logged, error) {
	var r Logged
	path := j.path(folder, recordName(seq))
	if fi, err := os.Lstat(path); err != nil {
		return r, err
	} else if !fi.Mode().IsRegular() || fi.Size() > maxRecordBytes {
		return r, fmt.Errorf("%s: not a record", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, err
	}
	if r.Seq != seq {
		return r, fmt.Errorf("%s: it says that it is %d", path, r.Seq)
	}
	for _, c := range r.Changes {
		for _, p := range []string{c.Path, c.From} {
			if p != "" && gopath.Clean("/"+p) != "/"+p {
				return r, fmt.Errorf("%s: %s is no canonical path", path, tool.QuotePath(p))
			}
		}
		if strings.ContainsAny(c.Kept, "/\\") {
			return r, fmt.Errorf("%s: content is not kept under %s", path, tool.QuotePath(c.Kept))
		}
	}
	return r, nil
}

// lock holds what is kept against those who remove what nobody needs.
func (j *journal) lock(ctx context.Context) (unlock func(), err error) {
	f, err := openLock(j.path("lock"))
	if err != nil {
		return nil, err
	}
	if err := waitLock(ctx, f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// Log lists the commits and checkpoints of the workspace, oldest first. Records
// that cannot be read are left out.
func (w *Workspace) Log(ctx context.Context) ([]Logged, error) {
	j := w.journal
	if j == nil {
		return nil, errNoJournal()
	}
	list, err := j.seqs("done")
	late, err2 := j.seqs("late")
	if err := errors.Join(err, err2); err != nil {
		return nil, journalError(err)
	}
	list = append(list, late...)
	slices.Sort(list)
	list = slices.Compact(list)
	out := make([]Logged, 0, len(list))
	at := map[uint64]int{}
	for _, seq := range list {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := j.read("late", seq)
		if errors.Is(err, fs.ErrNotExist) {
			r, err = j.read("done", seq)
		}
		if err != nil {
			continue // removed meanwhile, or torn by a power cut
		}
		at[seq] = len(out)
		out = append(out, r)
	}
	// An undo that was itself undone left its commits in place again.
	for i := len(out) - 1; i >= 0; i-- {
		if out[i].UndoneBy != 0 {
			continue
		}
		for _, seq := range out[i].Undoes {
			if k, ok := at[seq]; ok {
				out[k].UndoneBy = out[i].Seq
			}
		}
	}
	return out, nil
}

// Kept tells how many commits and checkpoints the journal has, and how many bytes
// it keeps of what they took away; ok is false if there is no journal.
func (w *Workspace) Kept() (commits int, bytes int64, ok bool) {
	j := w.journal
	if j == nil {
		return 0, 0, false
	}
	list, _ := j.seqs("done")
	entries, _ := os.ReadDir(j.path("kept"))
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			bytes += fi.Size()
		}
	}
	return len(list), bytes, true
}

// Checkpoint puts a mark into the journal, to which [Workspace.Undo] can go back
// and since which [Workspace.Changes] can look. The name is for people; an empty
// one is made up.
func (w *Workspace) Checkpoint(ctx context.Context, name string, by By) (Logged, error) {
	if w.journal == nil {
		return Logged{}, errNoJournal()
	}
	if len(name) > maxCheckpoint || !plainName(name) {
		return Logged{}, tool.Errorf(tool.InvalidArguments, "a checkpoint's name has at most %d bytes, of letters, digits, and - _ . between them, and is no number", maxCheckpoint).
			WithNext("choose another name")
	}
	log, err := w.Log(ctx)
	if err != nil {
		return Logged{}, err
	}
	for _, l := range log {
		if name != "" && l.Checkpoint == name {
			return Logged{}, tool.Errorf(tool.Exists, "a checkpoint of this name exists, number %d", l.Seq).WithNext("choose another name")
		}
	}
	r := Logged{At: time.Now().UTC(), By: by, Checkpoint: name}
	if name == "" {
		r.Checkpoint = "at-" + r.At.Format("20060102-150405.000")
	}
	if err := w.journal.write(&r); err != nil {
		return Logged{}, journalError(err)
	}
	return r, journalError(w.journal.advance(r.Seq, "open", "done"))
}

// plainName keeps names apart from numbers, flags and what a terminal obeys.
func plainName(s string) bool {
	if _, err := strconv.ParseUint(s, 10, 64); err == nil {
		return false
	}
	for i, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return true
}

func journalError(err error) error {
	if err == nil {
		return nil
	}
	if te := (*tool.Error)(nil); errors.As(err, &te) {
		return te
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	_, text, _ := explain(err)
	if text == "" {
		text = "the operating system failed"
	}
	return tool.Errorf(tool.Internal, "the undo journal cannot be used: %s", text).
		WithNext("a person must look at the state folder, or switch undo off").Because(err)
}

// prune removes the oldest commits if there are too many, or too old ones, or too
// much is kept for them, and then the content that no commit needs. It makes some
// room beyond that, so that it has to read all records only now and again. Commits
// that have begun are left alone.
func (j *journal) prune(ctx context.Context, now time.Time) error {
	if err := j.openNow(); err != nil {
		return err
	}
	unlock, err := j.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	maxBytes, maxAge, count := j.w.opts.Journal.MaxBytes, j.w.opts.Journal.MaxAge, maxLogged
	if maxBytes <= 0 {
		maxBytes = defaultKeptBytes
	}
	if maxAge <= 0 {
		maxAge = defaultKeptAge
	}
	entries, err := os.ReadDir(j.path("kept"))
	if err != nil {
		return err
	}
	size, total := make(map[string]int64, len(entries)), int64(0)
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			size[e.Name()] = fi.Size()
			total += fi.Size()
		}
	}
	done, err := j.seqs("done")
	if err != nil || len(done) == 0 {
		return err
	}
	oldest, err := j.read("done", done[0])
	if err == nil && total <= maxBytes && len(done) <= count && now.Sub(oldest.At) <= maxAge {
		return nil
	}
	if total > maxBytes {
		maxBytes = maxBytes / 5 * 4
	}
	if len(done) > count {
		count = count / 5 * 4
	}
	needed := map[string]bool{}
	need := func(r Logged) {
		for _, c := range r.Changes {
			needed[c.Kept] = true
		}
	}
	total = 0
	left, full := 0, false
	for _, seq := range slices.Backward(done) {
		r, err := j.read("done", seq)
		if err != nil {
			os.Remove(j.path("done", recordName(seq))) // torn
			continue
		}
		more := int64(0)
		for _, c := range r.Changes {
			if !needed[c.Kept] {
				more += size[c.Kept]
			}
		}
		// The newest commit stays whatever it takes: it is the likeliest to be undone.
		if !full && (left == 0 || left < count && now.Sub(r.At) <= maxAge && total+more <= maxBytes) {
			left, total = left+1, total+more
			need(r)
			continue
		}
		full = true // what is older goes as well, lest a gap makes an undo impossible
		os.Remove(j.path("done", recordName(seq)))
	}
	// Others may have begun, or ended, since the list was made.
	for _, folder := range folders { // in the order in which a record goes through them
		list, err := j.seqs(folder)
		if err != nil {
			return err
		}
		for _, seq := range list {
			if _, seen := slices.BinarySearch(done, seq); seen && folder == "done" {
				continue
			}
			if r, err := j.read(folder, seq); err == nil {
				need(r)
			}
		}
	}
	for name := range size {
		if !needed[name] {
			os.Remove(j.path("kept", name))
		}
	}
	return nil
}

// due says whether it is time to prune: at the first commit of a process and
// then now and again.
func (j *journal) due() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.commits++
	return j.commits%pruneEvery == 1
}
