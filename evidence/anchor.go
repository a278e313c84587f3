package evidence

import (
	"bufio"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Anchor is a signed statement of where a record stood. Kept where nobody who
// can change the record can reach it, it shows what the local key cannot: that
// all of the record was put back, or written anew with the same key.
type Anchor struct {
	Log       string    `json:"log"`
	Workspace string    `json:"workspace,omitempty"`
	Seq       uint64    `json:"seq"`
	Hash      string    `json:"hash"`
	Time      time.Time `json:"time"`
	Key       string    `json:"key"`
	Sig       string    `json:"sig"`
}

// Sign signs everything that was recorded so far, and flushes it.
func (l *Log) Sign() error {
	_, err := l.Anchor()
	return err
}

// Anchor signs where the record stands, in the record and in what it returns.
func (l *Log) Anchor() (Anchor, error) {
	l.mu.Lock()
	w, err := l.writer()
	if err == nil {
		_, err = w.append(typeCheckpoint, 0, nil)
	}
	if err != nil {
		l.mu.Unlock()
		return Anchor{}, err
	}
	end, now := w.head.end, w.now().UTC().Truncate(time.Second)
	a := Anchor{
		Log: hex.EncodeToString(w.head.log[:]), Workspace: valid(l.o.Workspace),
		Seq: end.seq, Hash: hex.EncodeToString(end.hash[:]), Time: now, Key: w.key.public(),
	}
	a.Sig = base64.RawURLEncoding.EncodeToString(ed25519.Sign(w.key.sign, a.statement(w.head.log, end.hash)))
	l.mu.Unlock()
	return a, w.flusher.wait(end.seq)
}

func (a *Anchor) statement(log [16]byte, hash sum) []byte {
	return statement("anchor", log, a.Seq, hash, a.Workspace+"\n"+a.Time.UTC().Format(time.RFC3339))
}

// check reports whether the key in the anchor has signed it.
func (a *Anchor) check() bool {
	var log [16]byte
	var hash sum
	if n, err := hex.Decode(log[:], []byte(cutTo(a.Log, 32))); err != nil || n != len(log) || len(a.Log) != 32 {
		return false
	}
	if n, err := hex.Decode(hash[:], []byte(cutTo(a.Hash, 64))); err != nil || n != len(hash) || len(a.Hash) != 64 {
		return false
	}
	return verifySig(a.Key, a.Sig, a.statement(log, hash))
}

func cutTo(s string, n int) string { return s[:min(len(s), n)] }

// verifySig checks a signature in the forms that records hold.
func verifySig(public, sig string, msg []byte) bool {
	k, err := base64.RawURLEncoding.DecodeString(public)
	if err != nil || len(k) != ed25519.PublicKeySize {
		return false
	}
	s, err := base64.RawURLEncoding.DecodeString(sig)
	return err == nil && ed25519.Verify(k, msg, s)
}

// AppendTo writes a as one more line of the file at path, and flushes it. The
// file is made if it is missing, and never shortened.
func (a Anchor) AppendTo(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(encode(a), '\n'))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// maxAnchors bounds what is read of a file of anchors.
const maxAnchors = 100_000

// ReadAnchors reads a file of anchors. Lines that are none are an error: a
// file that somebody broke must not count as one without anchors.
func ReadAnchors(r io.Reader) ([]Anchor, error) {
	var list []Anchor
	s := bufio.NewScanner(r)
	s.Buffer(nil, 64<<10)
	for s.Scan() {
		var a Anchor
		if err := json.Unmarshal(s.Bytes(), &a); err != nil || !a.check() {
			return nil, fmt.Errorf("line %d is no anchor, or was changed", len(list)+1)
		}
		if list = append(list, a); len(list) > maxAnchors {
			return nil, fmt.Errorf("it holds more than %d anchors", maxAnchors)
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("it holds no anchor")
	}
	return list, nil
}
