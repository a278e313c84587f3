package main

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/secret"
)

// openRecord opens the record of what happens in the workspace at root. It is
// made at the first call.
func openRecord(d dirs, root string) (*evidence.Log, error) {
	return evidence.Open(evidence.Options{
		Dir: evidence.Dir(d.state, root), Workspace: root, Program: "wasmtools " + version,
		Secrets: (&secretValues{dir: filepath.Join(d.state, "secrets")}).get,
	})
}

// secretValues gives the values of all secrets, which must not be written into
// the record. They are read again from time to time, because a person may set
// one while the program runs.
type secretValues struct {
	dir string

	mu     sync.Mutex
	read   time.Time
	values []string
}

// secretsFor is how long secrets that were read are taken for all there are.
const secretsFor = time.Second

func (s *secretValues) get() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.read) < secretsFor {
		return s.values
	}
	s.read = time.Now()
	store, err := secret.Open(s.dir)
	if err != nil {
		return s.values // what cannot be read cannot be used either
	}
	list, err := store.List()
	if err != nil {
		return s.values
	}
	var values []string
	for _, e := range list {
		if v, err := store.Get(e.Name); err == nil {
			values = append(values, v)
		}
	}
	s.values = values
	return values
}
