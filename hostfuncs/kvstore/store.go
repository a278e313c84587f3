// Package kvstore keeps what modules store between calls: one file for each
// module identity and workspace, below a folder that is ours.
//
// A change is whole or not there: the file is replaced by a new one, under a
// lock that also holds between processes. The names of files are digests, so
// that neither a module nor the name of a workspace decides where anything is
// written.
//
// What it does not do: it does not encrypt, and whoever can read the folder can
// read what modules stored. A module that changes has another identity and
// begins with an empty store.
package kvstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/tool"
)

// Stores is the folder of all stores. It is safe for concurrent use, also by
// several processes.
type Stores struct {
	dir  string
	turn chan struct{} // between the calls of this process; the lock file is between processes
}

// Open gives the stores below dir, which is made with mode 0700 at the first
// change.
func Open(dir string) *Stores { return &Stores{dir: dir, turn: make(chan struct{}, 1)} }

// Store is that of one module in one workspace, which is named by its real path.
func (s *Stores) Store(module tool.Digest, workspace string) hostfuncs.Store {
	sum := sha256.Sum256([]byte(string(module) + "\n" + workspace))
	return &store{all: s, name: hex.EncodeToString(sum[:]) + ".json"}
}

type store struct {
	all  *Stores
	name string
}

// maxFile is above what a full store takes: its bytes in base64, and its keys.
const maxFile = 2*hostfuncs.MaxKVBytes + hostfuncs.MaxKeys*(8*hostfuncs.MaxKey)

// Get implements [hostfuncs.Store].
func (s *store) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	m, err := s.read()
	if err != nil {
		return nil, false, err
	}
	v, ok := m[key]
	return v, ok, nil
}

// Set implements [hostfuncs.Store].
func (s *store) Set(ctx context.Context, key string, value []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.all.turn <- struct{}{}:
		defer func() { <-s.all.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := os.MkdirAll(s.all.dir, 0o700); err != nil {
		return failed(err)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := s.read()
	if err != nil {
		return err
	}
	if value == nil {
		if _, ok := m[key]; !ok {
			return nil
		}
		delete(m, key)
	} else {
		if old, ok := m[key]; ok && bytes.Equal(old, value) {
			return nil
		}
		m[key] = value
	}
	held := 0
	for k, v := range m {
		held += len(k) + len(v)
	}
	if len(m) > hostfuncs.MaxKeys || held > hostfuncs.MaxKVBytes {
		return hostfuncs.ErrStoreFull
	}
	return s.replace(m)
}

// lockPause is how long a call waits before it asks again for a lock that another
// process holds, who only reads and writes one small file.
const lockPause = 2 * time.Millisecond

// lock obtains the lock between processes, which goes with the process that holds
// it. Who holds it may be stopped or wait for a slow disk: a call waits no longer
// than it has time.
func (s *store) lock(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(s.all.dir, s.name+".lock")
	for {
		if unlock, err = tryLock(path); err == nil {
			return unlock, nil
		}
		if !errors.Is(err, errHeld) {
			return nil, failed(err)
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

var errHeld = errors.New("another process holds the lock")

func (s *store) read() (map[string][]byte, error) {
	m := map[string][]byte{}
	f, err := os.Open(filepath.Join(s.all.dir, s.name))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, failed(err)
	}
	defer f.Close()
	p, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, failed(err)
	}
	if len(p) > maxFile || json.Unmarshal(p, &m) != nil {
		return nil, tool.Errorf(tool.Internal, "the module's store is damaged").
			WithNext("ask a person to remove it")
	}
	if m == nil { // the file said null
		m = map[string][]byte{}
	}
	return m, nil
}

func (s *store) replace(m map[string][]byte) error {
	p, err := json.Marshal(m)
	if err != nil {
		return failed(err)
	}
	f, err := os.CreateTemp(s.all.dir, ".new-")
	if err != nil {
		return failed(err)
	}
	_, err = f.Write(p)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.all.dir, s.name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return failed(err)
	}
	return nil
}

func failed(err error) error {
	return tool.Errorf(tool.Internal, "the module's store cannot be used").Because(err)
}
