// Package secret keeps named secrets in one file of a folder that the caller
// names. People set them (`wasmtools secret set`); the host reads them to put
// them into request headers; guests and models only ever see their names.
//
// What it protects against: other users of the machine (the folder is 0700, the
// file 0600, and a store whose owner, mode or kind is anything else is refused
// and not mended); links and hard links that would have it read or replace
// another file; a crash or a second process in the middle of a change (changes
// are made under a lock and replace the file as a whole); and values that leak
// through error texts or listings.
//
// What it does not protect against: anything that runs as the same user or as
// root, backups, swap, and whoever takes the disk. Values are not encrypted: a
// key that lies beside them would keep nobody out who can read them. Use the
// disk's encryption for that, and the terminal's sandbox against commands. On
// Windows owner and mode are not checked; the access rights that the folder
// inherits from the user's profile decide.
package secret

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

// Limits of a store. A file of secrets is read whole on every use.
const (
	MaxValue = 64 << 10 // bytes of one value; a private key or a service account fits
	MaxCount = 1000
	maxFile  = 4 << 20
)

// The names in the folder.
const (
	fileName = "secrets.json"
	newName  = "secrets.json.new" // what becomes fileName; left over only by a crash
	lockName = "lock"
)

// Store is a folder of secrets. It holds no open file and no value between
// calls, so changes of other processes are seen at once. Safe for concurrent
// use, also by several processes.
type Store struct {
	dir      string
	lockWait time.Duration
	lock     func(root *os.Root, wait time.Duration) (unlock func(), err error)

	// beforeReplace runs between reading the old state and writing the new one,
	// for the test that shows what the lock is for.
	beforeReplace func()
}

// Entry is what may be told about a secret.
type Entry struct {
	Name    string
	Changed time.Time // when it was last set
}

// Open gives the store in dir, which is made (0700) if it is missing; its
// parent must exist. Errors are *tool.Error: permission if the folder is not
// ours alone.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, lockWait: 10 * time.Second, lock: takeLock}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, osError(err, "the folder of the secrets cannot be made")
	}
	root, err := s.open()
	if err != nil {
		return nil, err
	}
	root.Close()
	return s, nil
}

// Set stores value under name, replacing any earlier one. Names are up to 64
// ASCII letters, digits, '_', '-' and '.', and begin with a letter or digit.
// The value is UTF-8 of 1 to [MaxValue] bytes, kept exactly as it is; a line
// end from a prompt or a file is for the caller to remove.
func (s *Store) Set(name, value string) error {
	if err := checkName(name); err != nil {
		return err
	}
	switch {
	case value == "":
		return tool.Errorf(tool.InvalidArguments, "the value of secret %s is empty", name)
	case len(value) > MaxValue:
		return tool.Errorf(tool.TooLarge, "the value of secret %s is over %d bytes", name, MaxValue).WithNext("store a shorter one")
	case !utf8.ValidString(value):
		return tool.Errorf(tool.InvalidArguments, "the value of secret %s is not UTF-8", name).WithNext("store it as base64")
	}
	return s.change(func(m map[string]record) error {
		m[name] = record{Value: value, Changed: time.Now().UTC().Truncate(time.Second)}
		if len(m) > MaxCount {
			return tool.Errorf(tool.Quota, "there are %d secrets already", MaxCount).WithNext("remove some")
		}
		return nil
	})
}

// Get returns the value of name; not_found if it is not set. No error holds a
// value.
func (s *Store) Get(name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	m, err := s.read()
	if err != nil {
		return "", err
	}
	r, ok := m[name]
	if !ok {
		return "", notSet(name)
	}
	return r.Value, nil
}

// List returns all names, sorted.
func (s *Store) List() ([]Entry, error) {
	m, err := s.read()
	if err != nil {
		return nil, err
	}
	list := make([]Entry, 0, len(m))
	for name, r := range m {
		list = append(list, Entry{name, r.Changed})
	}
	slices.SortFunc(list, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Remove forgets name; not_found if it is not set. Blocks of the disk may keep
// the value until they are used again: a secret that got out must be revoked
// where it came from.
func (s *Store) Remove(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	return s.change(func(m map[string]record) error {
		if _, ok := m[name]; !ok {
			return notSet(name)
		}
		delete(m, name)
		return nil
	})
}

func notSet(name string) error {
	return tool.Errorf(tool.NotFound, "secret %s is not set", name).
		WithNext("a person can set it: wasmtools secret set %s", name)
}

func checkName(name string) error {
	ok := name != "" && len(name) <= 64
	for i := range len(name) {
		c := name[i]
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		ok = ok && (alnum || i > 0 && (c == '_' || c == '-' || c == '.'))
	}
	if !ok {
		// Not repeated: it may be a value that was typed in the wrong place.
		return tool.Errorf(tool.InvalidArguments, "the secret's name is not valid").
			WithNext("use up to 64 letters, digits, '_', '-' and '.', beginning with a letter or digit")
	}
	return nil
}

// change applies edit to the present state and replaces the file, under the
// lock.
func (s *Store) change(edit func(map[string]record) error) error {
	root, err := s.open()
	if err != nil {
		return err
	}
	defer root.Close()
	unlock, err := s.lock(root, s.lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := readFile(root)
	if err != nil {
		return err
	}
	if err := edit(m); err != nil {
		return err
	}
	if s.beforeReplace != nil {
		s.beforeReplace()
	}
	return replaceFile(root, m)
}

func (s *Store) read() (map[string]record, error) {
	root, err := s.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readFile(root)
}

// open opens the folder and checks it. What is used afterwards is the opened
// folder, never its path again.
func (s *Store) open() (*os.Root, error) {
	named, err := os.Lstat(s.dir)
	if err != nil {
		return nil, osError(err, "the folder of the secrets cannot be read")
	}
	if !named.IsDir() {
		return nil, tool.Errorf(tool.Permission, "the folder of the secrets is a link or a file").
			WithNext("a person must put a real folder there")
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, osError(err, "the folder of the secrets cannot be opened")
	}
	opened, err := root.Stat(".")
	switch {
	case err != nil:
		err = osError(err, "the folder of the secrets cannot be read")
	case !os.SameFile(named, opened):
		err = tool.Errorf(tool.Stale, "the folder of the secrets was exchanged while it was opened").WithNext("try again")
	default:
		err = checkPrivate(opened, "the folder of the secrets", "700")
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// openOurs opens a file of the folder and makes sure that it is a regular
// file, not a link, of one name, and ours alone.
func openOurs(root *os.Root, name string, flag int) (*os.File, error) {
	// Another process may replace the file between opening and checking; that
	// many times in a row it does not.
	for range 100 {
		// Before opening too: opening what is no file can have effects.
		if fi, err := root.Lstat(name); err == nil && !fi.Mode().IsRegular() {
			return nil, notRegular()
		}
		f, err := root.OpenFile(name, flag|openFlags, 0o600)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			return nil, osError(err, "a file of the secrets cannot be opened")
		}
		same, err := checkFile(root, name, f)
		if err == nil && same {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, tool.Errorf(tool.Busy, "the file of the secrets changes all the time").WithNext("try again in some seconds")
}

// checkFile checks the opened file f, and that name is its name. os.Root
// follows links inside its folder, whatever flags it is given, so a link shows
// only in the comparison.
func checkFile(root *os.Root, name string, f *os.File) (same bool, err error) {
	const cannot = "a file of the secrets cannot be checked"
	named, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, osError(err, cannot)
	}
	opened, err := f.Stat()
	if err != nil {
		return false, osError(err, cannot)
	}
	if !named.Mode().IsRegular() || !opened.Mode().IsRegular() {
		return false, notRegular()
	}
	if !os.SameFile(named, opened) {
		return false, nil
	}
	return true, checkPrivate(opened, "the file of the secrets", "600")
}

func notRegular() error {
	return tool.Errorf(tool.Permission, "a file of the secrets is a link or no regular file").
		WithNext("a person must look at the folder of the secrets")
}

// record is one secret in the file.
type record struct {
	Value   string    `json:"value"`
	Changed time.Time `json:"changed"`
}

// file is the form of fileName. A version that is not known is refused, and so
// never overwritten.
type file struct {
	Version int               `json:"version"`
	Secrets map[string]record `json:"secrets"`
}

const version = 1

func readFile(root *os.Root) (map[string]record, error) {
	f, err := openOurs(root, fileName, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]record{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, osError(err, "the file of the secrets cannot be read")
	}
	return parse(data)
}

// parse reads the file. Its errors say nothing about the content.
func parse(data []byte) (map[string]record, error) {
	damaged := func(why string) error {
		return tool.Errorf(tool.Encoding, "the file of the secrets %s", why).
			WithNext("a person must restore it, or remove it and set the secrets again")
	}
	if len(data) > maxFile {
		return nil, damaged("is too large")
	}
	var in file
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return nil, damaged("is damaged")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, damaged("is damaged")
	}
	if in.Version != version {
		return nil, damaged("has a version that is not known")
	}
	if len(in.Secrets) > MaxCount {
		return nil, damaged("has too many entries")
	}
	for name, r := range in.Secrets {
		if checkName(name) != nil || r.Value == "" || len(r.Value) > MaxValue {
			return nil, damaged("has an entry that is not valid")
		}
	}
	if in.Secrets == nil {
		in.Secrets = map[string]record{}
	}
	return in.Secrets, nil
}

// replaceFile writes the new state beside the old one and renames it into
// place once it is on disk. The caller holds the lock.
func replaceFile(root *os.Root, m map[string]record) (err error) {
	data, err := json.MarshalIndent(file{version, m}, "", "  ")
	if err != nil {
		return tool.Errorf(tool.Internal, "the secrets cannot be encoded")
	}
	if len(data) > maxFile {
		return tool.Errorf(tool.Quota, "the secrets together are over %d bytes", maxFile).WithNext("remove some")
	}
	const cannot = "the file of the secrets cannot be written"
	// What a crash left, or what somebody put there: removed, never written into.
	if err := root.Remove(newName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return osError(err, cannot)
	}
	f, err := root.OpenFile(newName, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	if err != nil {
		return osError(err, cannot)
	}
	defer func() {
		if err != nil {
			root.Remove(newName)
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = root.Rename(newName, fileName)
	}
	if err == nil {
		err = syncDir(root)
	}
	if err != nil {
		return osError(err, cannot)
	}
	return nil
}

// osError keeps the cause for logs, but without the path that it holds.
func osError(err error, text string) error {
	code := tool.Internal
	switch {
	case errors.Is(err, fs.ErrPermission):
		code = tool.Permission
	case errors.Is(err, fs.ErrNotExist):
		code = tool.NotFound
	}
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		err = p.Err
	case errors.As(err, &l):
		err = l.Err
	}
	return tool.Errorf(code, "%s: %v", text, err).WithNext("a person must look at the folder of the secrets").Because(err)
}
