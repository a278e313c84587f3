package runtime

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The cache keeps compiled forms. One is native code that runs in this process,
// so the rule is that the engine never sees a byte that we did not write:
//
//   - The folder of the entries and that of the key must be ours alone, and so
//     must be the way to them (privateDir).
//   - An entry is one file with an HMAC over its name and content: the form, with
//     the snapshot, and the native code made from it. It is read
//     once into memory and checked there. What the engine is given is a private
//     copy of those bytes below the state folder, so that nobody can change it
//     between the check and the use who could not read the key as well.
//   - Whatever is not right about an entry (empty, cut, flipped, of another
//     version or key, a link, of another owner, writable by others) means that
//     it is removed and made again.
//
// Processes may share the folder: entries are replaced as a whole.
type cache struct {
	dir     string // of the entries
	scratch string // where the engine reads and writes
	key     []byte
}

const (
	cacheMagic   = "wasmtools-code-2\n" // of an entry's first line; a new layout gets a new number
	maxEntry     = 512 << 20            // bytes; 32 MiB of WebAssembly become some 150
	maxEntries   = 256
	maxCacheSize = 2 << 30
	scratchAge   = time.Hour // after which scratch folders are those of a dead process
)

// openCache makes or opens the cache. The error says why it cannot be used, in
// words for the person whose folders these are.
func openCache(cacheDir, stateDir string) (*cache, error) {
	c := &cache{}
	var err error
	if c.dir, err = privateDir(filepath.Join(cacheDir, "compiled")); err != nil {
		return nil, err
	}
	state, err := privateDir(filepath.Join(stateDir, "compile"))
	if err != nil {
		return nil, err
	}
	if c.scratch, err = privateDir(filepath.Join(state, "scratch")); err != nil {
		return nil, err
	}
	if c.key, err = loadKey(filepath.Join(state, "cache.key")); err != nil {
		return nil, err
	}
	c.sweep()
	return c, nil
}

func (c *cache) close() {
	if c != nil {
		c.sweep()
	}
}

// sweep removes scratch folders that a crash left behind.
func (c *cache) sweep() {
	list, _ := os.ReadDir(c.scratch)
	for _, d := range list {
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > scratchAge {
			_ = os.RemoveAll(filepath.Join(c.scratch, d.Name()))
		}
	}
}

const keySize = 32

// loadKey reads the key, or makes one. A key that others could have read or
// that is not whole is replaced; the entries made with it are then made again.
func loadKey(path string) ([]byte, error) {
	for range 3 {
		key, err := readPrivate(path, keySize)
		if err == nil && len(key) == keySize {
			return key, nil
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		fresh := make([]byte, keySize)
		rand.Read(fresh)
		tmp, err := writeTemp(filepath.Dir(path), fresh)
		if err != nil {
			return nil, err
		}
		err = os.Link(tmp, path) // fails if another process was faster; then its key is read
		_ = os.Remove(tmp)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, errors.New("the key of the compile cache cannot be made")
}

// slot is the place of one compiled form while it is loaded or made. All its
// methods work on the slot of no cache, which holds nothing.
type slot struct {
	c       *cache
	key     string
	scratch string // the engine's cache folder
	loaded  string // the engine's file that came from the cache, relative to scratch
	form    *form  // that came with it
}

// slot opens the place of key. If there is a good entry, the engine's folder
// holds it.
func (c *cache) slot(key string) *slot {
	s := &slot{c: c, key: key}
	if c == nil {
		return s
	}
	dir, err := os.MkdirTemp(c.scratch, "m")
	if err != nil {
		return s
	}
	s.scratch = dir
	name, content, err := c.read(key)
	switch {
	case err == nil:
		f, native, err := splitEntry(content)
		if err != nil {
			s.drop()
			break
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if os.Mkdir(filepath.Dir(path), 0o700) == nil && os.WriteFile(path, native, 0o600) == nil {
			s.loaded, s.form = name, f
		}
	case !errors.Is(err, fs.ErrNotExist):
		s.drop()
	}
	return s
}

// dir is the folder to give to the engine; "" means none.
func (s *slot) dir() string { return s.scratch }

// hit reports whether the compiled form came from the cache.
func (s *slot) hit() bool { return s.loaded != "" }

// drop removes the entry.
func (s *slot) drop() {
	if s.c != nil {
		_ = os.RemoveAll(s.c.path(s.key)) // whatever stands there; a folder too
		s.loaded = ""
	}
}

// discard removes what the engine worked on.
func (s *slot) discard() {
	if s.scratch != "" {
		_ = os.RemoveAll(s.scratch)
	}
}

// splitEntry takes an entry's content apart: the length of the form, the form,
// the native code.
func splitEntry(content []byte) (*form, []byte, error) {
	if len(content) < 8 {
		return nil, nil, errEntry
	}
	n, rest := binary.LittleEndian.Uint64(content), content[8:]
	if n > uint64(len(rest)) {
		return nil, nil, errEntry
	}
	f, err := decodeForm(rest[:n])
	return f, rest[n:], err
}

// keep stores a form and what the engine has made of it, if it made anything.
func (s *slot) keep(shaped []byte) error {
	if s.scratch == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(s.scratch, "*", "*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		rel, err := filepath.Rel(s.scratch, f)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if name == s.loaded || strings.HasSuffix(name, ".tmp") || !entryName(name) {
			continue
		}
		content, err := readPrivate(f, maxEntry)
		if err != nil {
			return err
		}
		entry := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(shaped)+len(content)), uint64(len(shaped)))
		return s.c.write(s.key, name, append(append(entry, shaped...), content...))
	}
	return nil
}

// entryName accepts the engine's own name for a file: a folder for version and
// processor, and a file in it.
func entryName(name string) bool {
	dir, file, ok := strings.Cut(name, "/")
	plain := func(s string) bool {
		return s != "" && len(s) < 256 && s[0] != '.' && !strings.ContainsFunc(s, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_+()", r))
		})
	}
	return ok && plain(dir) && plain(file)
}

// seed is a secret of this installation for other uses than authenticating.
func (c *cache) seed() []byte {
	h := hmac.New(sha256.New, c.key)
	h.Write([]byte("wasmtools seed 1\n"))
	return h.Sum(nil)
}

func (c *cache) path(key string) string { return filepath.Join(c.dir, key) }

// mac authenticates an entry: its key is part of what is signed, so that one
// entry cannot stand for another.
func (c *cache) mac(key, name string, content []byte) []byte {
	h := hmac.New(sha256.New, c.key)
	fmt.Fprintf(h, "%s%s\n%s\n", cacheMagic, key, name)
	h.Write(content)
	return h.Sum(nil)
}

var errEntry = errors.New("the entry is damaged, or not ours")

// read returns an entry that is ours and whole.
func (c *cache) read(key string) (name string, content []byte, err error) {
	p, err := readPrivate(c.path(key), maxEntry)
	if err != nil {
		return "", nil, err
	}
	rest, ok := bytes.CutPrefix(p, []byte(cacheMagic))
	if !ok || len(rest) < sha256.Size {
		return "", nil, errEntry
	}
	mac, rest := rest[:sha256.Size], rest[sha256.Size:]
	line, _, ok := bytes.Cut(rest[:min(len(rest), 1<<10)], []byte("\n"))
	if !ok {
		return "", nil, errEntry
	}
	content = rest[len(line)+1:]
	name = string(line)
	if !hmac.Equal(mac, c.mac(key, name, content)) || !entryName(name) {
		return "", nil, errEntry
	}
	return name, content, nil
}

// write stores an entry in place of any older one.
func (c *cache) write(key, name string, content []byte) error {
	if len(content) > maxEntry {
		return fmt.Errorf("it has %d bytes; at most %d are kept", len(content), maxEntry)
	}
	tmp, err := writeTemp(c.dir, []byte(cacheMagic), c.mac(key, name, content), []byte(name+"\n"), content)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, c.path(key)); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	c.prune(key)
	return nil
}

// prune removes the oldest entries, but not keep, while there are too many.
func (c *cache) prune(keep string) {
	list, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	total := int64(0)
	for _, d := range list {
		if info, err := d.Info(); err == nil {
			files = append(files, info)
			total += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	n := len(files)
	for _, f := range files {
		if n <= maxEntries && total <= maxCacheSize {
			return
		}
		if f.Name() == keep {
			continue
		}
		_ = os.RemoveAll(filepath.Join(c.dir, f.Name()))
		n--
		total -= f.Size()
	}
}

// writeTemp writes a new file that only we can read and returns its path.
func writeTemp(dir string, parts ...[]byte) (string, error) {
	f, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return "", err
	}
	for _, p := range parts {
		if err == nil {
			_, err = f.Write(p)
		}
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// readPrivate reads a regular file of at most limit bytes that is ours alone.
func readPrivate(path string, limit int64) ([]byte, error) {
	f, err := openPrivate(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, errEntry
	}
	p := make([]byte, info.Size())
	if _, err := io.ReadFull(f, p); err != nil {
		return nil, errEntry
	}
	return p, nil
}
