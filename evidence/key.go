package evidence

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wasmtools/wasmtools/tool"
)

// key is what vouches for a record. One seed gives three keys, so that knowing
// a signature or a code tells nothing about the others.
type key struct {
	sign   ed25519.PrivateKey
	mac    []byte // for lines and the head
	redact []byte // for digests of what was redacted
}

func (k *key) public() string {
	return base64.RawURLEncoding.EncodeToString(k.sign.Public().(ed25519.PublicKey))
}

// keyed replaces a digest by one that nobody without the key can compare
// guesses with. Equal digests stay equal.
func (k *key) keyed(d tool.Digest) tool.Digest {
	if d == "" {
		return ""
	}
	m := hmac.New(sha256.New, k.redact)
	m.Write([]byte(d))
	return tool.Digest("hmac-sha256:" + hex.EncodeToString(m.Sum(nil)))
}

func keyFrom(seed []byte) (*key, error) {
	k := &key{sign: ed25519.NewKeyFromSeed(seed)}
	var err error
	if k.mac, err = hkdf.Key(sha256.New, seed, nil, "wasmtools evidence mac", 32); err != nil {
		return nil, err
	}
	if k.redact, err = hkdf.Key(sha256.New, seed, nil, "wasmtools evidence redact", 32); err != nil {
		return nil, err
	}
	return k, nil
}

// readKey reads the key; fs.ErrNotExist if there is none. A key that others
// could have read is refused and not mended: a person should know.
func readKey(path string) (*key, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(named, opened) {
		return nil, fmt.Errorf("%s was exchanged while it was opened", path)
	}
	if err := checkPrivate(opened, path); err != nil {
		return nil, err
	}
	seed, err := io.ReadAll(io.LimitReader(f, ed25519.SeedSize+1))
	if err != nil {
		return nil, err
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s is damaged", path)
	}
	return keyFrom(seed)
}

// makeKey makes a key at path unless one is there, and returns what is there
// then. It is complete from the moment it has its name.
func makeKey(path string) (*key, error) {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails
	f, err := os.CreateTemp(filepath.Dir(path), ".key-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(seed)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	if err := giveName(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return readKey(path)
}
