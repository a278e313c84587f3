// Package artifact keeps outputs that are too large to be shown: content once,
// behind handles that are random and belong to one session in one workspace.
//
// A handle opens only for the session and workspace that it was given to; to
// anybody else it does not exist. What was stored is checked against its digest
// before it is read. What did not fit is counted. An artifact that made room
// for others says so, it is never silently another one or half of one.
//
// The edge: content is stored as it is, readable by whoever can read the
// folder, so a result that is marked sensitive is refused. Files of the folder
// are private to the user, not to the session: no tool of this runtime can
// reach it, but programs of the same user can.
package artifact

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

// Limits of a store that sets none.
const (
	MaxBytes  = 64 << 20 // of one artifact; what is beyond is dropped and counted
	MaxStored = 2 << 30  // of one workspace; the oldest artifacts make room

	// LongLine is the length in code points from which a line counts as long: a
	// reader by lines cannot page through it.
	LongLine = 2000
)

// Options of a store. The zero value works.
type Options struct {
	MaxBytes  int64 // 0 means [MaxBytes]
	MaxStored int64 // 0 means [MaxStored]

	// MaxAge is how long an artifact is kept; 0 means for any time. What is older
	// goes when something is stored, at the first time and now and then.
	MaxAge time.Duration
}

// Scope is who an artifact belongs to.
type Scope struct {
	Session string
	Call    string // that made it; not compared
	Tool    string // that made it; not compared
}

// Info is what is known of an artifact without reading it.
type Info struct {
	Handle   string      `json:"handle"`
	Session  string      `json:"session"`
	Call     string      `json:"call,omitempty"`
	Tool     string      `json:"tool,omitempty"`
	Title    string      `json:"title,omitempty"`
	MIMEType string      `json:"mime_type,omitempty"`
	Created  time.Time   `json:"created"`
	Digest   tool.Digest `json:"digest"`
	Bytes    int64       `json:"bytes"`             // stored
	Dropped  int64       `json:"dropped,omitempty"` // not stored, at the end
	Lines    int64       `json:"lines"`             // of what is stored
	Longest  int64       `json:"longest,omitempty"` // code points of the longest line
	Removed  string      `json:"removed,omitempty"` // why the content is gone; empty while it is there
	Gone     time.Time   `json:"gone_at,omitzero"`  // when it was removed
}

// Store is the store of one workspace. It is safe for concurrent use, also by
// several processes.
type Store struct {
	dir  string
	opts Options

	mu       sync.Mutex
	root     *os.Root         // nil until something is stored
	verified map[string]stamp // objects whose bytes were checked, as they were then
	puts     int
	counted  int64 // bytes that are stored, as far as is known
}

// Dir is the folder of the artifacts of the workspace at realPath, below the
// folder that holds wasmtools' state.
func Dir(stateDir, realPath string) string {
	sum := sha256.Sum256([]byte(realPath))
	return filepath.Join(stateDir, "artifacts", hex.EncodeToString(sum[:16]))
}

// Open gives the store in dir, which is made with mode 0700 when something is
// stored; until then nothing is touched. Use one folder a workspace. What
// processes left that were killed is cleared away at the first artifact.
func Open(dir string, o Options) *Store {
	if o.MaxBytes <= 0 {
		o.MaxBytes = MaxBytes
	}
	if o.MaxStored <= 0 {
		o.MaxStored = MaxStored
	}
	return &Store{dir: dir, opts: o, verified: map[string]stamp{}}
}

// ValidHandle reports whether s can be a handle: 26 letters a-z and digits 2-7,
// which is 130 random bits.
func ValidHandle(s string) bool {
	if len(s) != 26 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

const (
	objects = "objects"
	handles = "handles"
	maxInfo = 16 << 10 // bytes of one handle's file
	maxText = 512      // bytes of a title or type
)

// Put stores what r gives. Beyond the limit of one artifact it goes on reading
// and counts what it drops. An error of r ends it, and nothing is stored.
func (s *Store) Put(scope Scope, about tool.ArtifactInfo, r io.Reader) (tool.ArtifactRef, error) {
	if about.Sensitive {
		return tool.ArtifactRef{}, tool.Errorf(tool.NotAvailable, "a sensitive result is not archived")
	}
	root, err := s.make()
	if err != nil {
		return tool.ArtifactRef{}, unavailable(err)
	}
	tmp := path.Join(objects, ".tmp-"+strings.ToLower(rand.Text()))
	f, err := root.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return tool.ArtifactRef{}, unavailable(err)
	}
	defer func() {
		f.Close()
		_ = root.Remove(tmp) // gone already if it was given its name
	}()
	if err := hold(f); err != nil {
		return tool.ArtifactRef{}, unavailable(err)
	}
	info := Info{
		Handle: strings.ToLower(rand.Text()), Session: scope.Session, Call: cut(scope.Call), Tool: cut(scope.Tool),
		Title: cut(about.Title), MIMEType: cut(about.MIMEType), Created: time.Now().UTC(),
	}
	m := &meter{max: s.opts.MaxBytes, to: f, sum: sha256.New()}
	if _, err := io.Copy(m, r); err != nil {
		if m.failed != nil {
			err = unavailable(m.failed)
		}
		return tool.ArtifactRef{}, err
	}
	m.end()
	info.Digest = tool.SumDigest([sha256.Size]byte(m.sum.Sum(nil)))
	info.Bytes, info.Dropped, info.Lines, info.Longest = m.bytes, m.dropped, m.lines, m.longest
	if err := s.room(root, info.Bytes); err != nil {
		return tool.ArtifactRef{}, err
	}
	if err := root.Rename(tmp, s.object(info.Digest)); err != nil {
		return tool.ArtifactRef{}, unavailable(err)
	}
	if err := writeInfo(root, info); err != nil {
		return tool.ArtifactRef{}, unavailable(err)
	}
	return info.ref(), nil
}

func (i Info) ref() tool.ArtifactRef {
	return tool.ArtifactRef{Handle: i.Handle, Bytes: i.Bytes, Lines: i.Lines, Digest: i.Digest, Dropped: i.Dropped, LongestLine: i.Longest}
}

func unavailable(err error) error {
	return tool.Errorf(tool.NotAvailable, "the output cannot be archived").Because(err)
}

// cut bounds a text that comes from elsewhere.
func cut(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "�")
}

// object is where content stands. Its name has its digest, so equal content is
// stored once, and replacing it by itself changes nothing.
func (*Store) object(d tool.Digest) string { return path.Join(objects, objectName(d)) }

// objectName can be told from the digest itself, where both stand in one text.
func objectName(d tool.Digest) string { return strings.TrimPrefix(string(d), "sha256:") + ".txt" }

// Contents is the folder in which the files of opened artifacts stand, each
// under its [File.Name], for readers that take a folder and a name. They open
// the file anew: that it was the one that was verified shows if Open, asked
// again afterwards, gives the [File.Same] file.
func (s *Store) Contents() string { return filepath.Join(s.dir, objects) }

// make opens the folder, and makes it if it is not there.
func (s *Store) make() (*os.Root, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root != nil {
		return s.root, nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	root, err := openRoot(s.dir)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{objects, handles} {
		if err := root.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			root.Close()
			return nil, err
		}
	}
	s.root = root
	return root, nil
}

// openRoot opens the folder if it is one that nobody else can have filled.
func openRoot(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	fi, err := os.Lstat(dir)
	if err == nil && !fi.IsDir() {
		err = errors.New("the folder of the artifacts is a link")
	}
	for _, d := range []string{".", objects, handles} {
		if err == nil {
			err = checkDir(root, d)
		}
		if d != "." && errors.Is(err, fs.ErrNotExist) {
			err = nil // it is made in this moment
		}
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// checkDir refuses what is no directory, or one that others may touch.
func checkDir(root *os.Root, name string) error {
	fi, err := root.Lstat(name)
	switch {
	case err != nil:
		return err
	case !fi.IsDir():
		return fmt.Errorf("%s of the folder of the artifacts is no directory", name)
	}
	return checkPrivate(fi)
}

// there opens the folder if it is there.
func (s *Store) there() (*os.Root, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		root, err := openRoot(s.dir)
		if err != nil {
			return nil, err
		}
		s.root = root
	}
	return s.root, nil
}

// Close gives the folder up. Files that are open stay so.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		return nil
	}
	err := s.root.Close()
	s.root = nil
	return err
}

// File is the content of an artifact, open for reading.
type File struct {
	Info
	f     *os.File
	stamp stamp
}

// Same reports whether two times of opening gave one file, in which nobody wrote
// between them.
func (f *File) Same(o *File) bool { return f.stamp.same(o.stamp) }

// settled is the age from which a file's times tell whether it was changed again:
// two changes within one tick of the system's clock have the same time, and some
// file systems count whole seconds.
var settled = 2 * time.Second

// stamp says which file it was, and when it was changed last.
type stamp struct {
	fi      fs.FileInfo
	changed int64 // which no program can set, where the system has such a time
}

func (s stamp) same(o stamp) bool {
	return s.fi != nil && o.fi != nil && os.SameFile(s.fi, o.fi) && s.fi.Size() == o.fi.Size() && s.fi.ModTime().Equal(o.fi.ModTime()) && s.changed == o.changed
}

func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.f.ReadAt(p, off) }

// Name is that of the file in [Store.Contents].
func (f *File) Name() string { return objectName(f.Digest) }

// Size is the number of bytes that are stored.
func (f *File) Size() int64 { return f.Info.Bytes }

// Close gives the file up.
func (f *File) Close() error { return f.f.Close() }

// Open opens an artifact of the session. It is not_found for a handle that was
// not given to this session, lost if its content is not there any more, or is
// not what was stored.
func (s *Store) Open(session, handle string) (*File, error) {
	info, err := s.find(session, handle)
	if err != nil {
		return nil, err
	}
	if info.Removed != "" {
		return nil, tool.Errorf(tool.Lost, "the artifact %s was removed: %s", handle, info.Removed).
			WithNext("make the call again if its output is still needed")
	}
	root, err := s.there()
	if err != nil {
		return nil, unavailable(err)
	}
	name := s.object(info.Digest)
	var st stamp
	f, err := root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err == nil {
		st, err = s.verify(name, f, info)
	}
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, tool.Errorf(tool.Lost, "the content of the artifact %s is not what was stored", handle).
			WithNext("make the call again if its output is still needed").Because(err)
	}
	return &File{Info: info, f: f, stamp: st}, nil
}

// verify checks the bytes of f once, and again if the file has changed.
func (s *Store) verify(name string, f *os.File, info Info) (now stamp, err error) {
	if now, err = stampOf(f); err != nil {
		return now, err
	}
	if !now.fi.Mode().IsRegular() || now.fi.Size() != info.Bytes {
		return now, fmt.Errorf("the file has %d bytes; want %d", now.fi.Size(), info.Bytes)
	}
	s.mu.Lock()
	before := s.verified[name]
	s.mu.Unlock()
	if before.same(now) {
		return now, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, info.Bytes)); err != nil {
		return now, err
	}
	if got := tool.SumDigest([sha256.Size]byte(h.Sum(nil))); got != info.Digest {
		return now, fmt.Errorf("the file's digest is %s", got)
	}
	if time.Since(time.Unix(0, now.changed)) < settled {
		return now, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.verified) >= 1024 {
		clear(s.verified)
	}
	s.verified[name] = now
	return now, nil
}

func stampOf(f *os.File) (stamp, error) {
	fi, err := f.Stat()
	if err != nil {
		return stamp{}, err
	}
	changed, err := changedAt(f)
	return stamp{fi, changed}, err
}

// Find is what is known of an artifact of the session.
func (s *Store) Find(session, handle string) (Info, error) { return s.find(session, handle) }

// NotFound is the answer to a handle that was not given to a session, whether it
// exists or not.
func NotFound() *tool.Error {
	return tool.Errorf(tool.NotFound, "no artifact of this session has this handle").
		WithNext("use the handle that a receipt gave in this session")
}

func (s *Store) find(session, handle string) (Info, error) {
	info, err := s.FindAny(handle)
	if err != nil || info.Session != session {
		return Info{}, NotFound().Because(err)
	}
	return info, nil
}

// FindAny is Find whatever session the artifact belongs to. It is for a person.
func (s *Store) FindAny(handle string) (Info, error) {
	if !ValidHandle(handle) {
		return Info{}, fs.ErrNotExist
	}
	root, err := s.there()
	if err != nil {
		return Info{}, err
	}
	return readInfo(root, handle)
}

func readInfo(root *os.Root, handle string) (Info, error) {
	f, err := root.OpenFile(path.Join(handles, handle), os.O_RDONLY|openFlags, 0)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	p, err := io.ReadAll(io.LimitReader(f, maxInfo))
	if err != nil {
		return Info{}, err
	}
	var i Info
	if err := json.Unmarshal(p, &i); err != nil {
		return Info{}, err
	}
	if i.Handle != handle || !validDigest(i.Digest) || i.Bytes < 0 {
		return Info{}, errors.New("not the file of this handle")
	}
	return i, nil
}

func validDigest(d tool.Digest) bool {
	p, err := hex.DecodeString(strings.TrimPrefix(string(d), "sha256:"))
	return err == nil && len(p) == sha256.Size && strings.ToLower(string(d)) == string(d)
}

// writeInfo puts the file of a handle in place, whole or not at all.
func writeInfo(root *os.Root, i Info) error {
	p, err := json.Marshal(i)
	if err != nil {
		return err
	}
	tmp := path.Join(handles, ".tmp-"+strings.ToLower(rand.Text()))
	if err := root.WriteFile(tmp, p, 0o600); err != nil {
		return err
	}
	if err := root.Rename(tmp, path.Join(handles, i.Handle)); err != nil {
		_ = root.Remove(tmp)
		return err
	}
	return nil
}

// List gives every artifact of the workspace, the oldest first, removed ones
// included. It is for a person: it asks for no session.
func (s *Store) List() ([]Info, error) {
	root, err := s.there()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return list(root)
}

func list(root *os.Root) ([]Info, error) {
	d, err := root.Open(handles)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, n := range names {
		if i, err := readInfo(root, n); err == nil {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b Info) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.Handle, b.Handle)
	})
	return out, nil
}

// meter counts and digests what is stored.
type meter struct {
	to  io.Writer
	max int64
	sum interface {
		io.Writer
		Sum([]byte) []byte
	}
	failed error

	bytes, dropped, lines int64
	line, longest         int64 // code points
	open                  bool  // the last line has no end yet
}

func (m *meter) Write(p []byte) (int, error) {
	keep := p[:min(int64(len(p)), m.max-m.bytes)]
	if _, err := m.to.Write(keep); err != nil {
		m.failed = err
		return 0, err
	}
	m.sum.Write(keep)
	m.bytes += int64(len(keep))
	m.dropped += int64(len(p) - len(keep))
	for _, c := range keep {
		switch {
		case c == '\n':
			m.lines++
			m.longest = max(m.longest, m.line)
			m.line, m.open = 0, false
		case utf8.RuneStart(c):
			m.line++
			m.open = true
		default:
			m.open = true
		}
	}
	return len(p), nil
}

func (m *meter) end() {
	m.longest = max(m.longest, m.line)
	if m.open {
		m.lines++
	}
}
