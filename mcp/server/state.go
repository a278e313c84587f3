package server

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// Request state is what a 2026-07-28 client hands back with its answer. It says
// which ticket the answer is for, and is worth nothing to anybody but the
// connection and the call it was made for:
//
//	version  1 byte
//	nonce   16 bytes   spent by the first use
//	expiry   8 bytes   of the ticket, Unix nanoseconds
//	for     16 bytes   the principal
//	call    32 bytes   SHA-256 of the tool's name and the arguments
//	ticket   the rest
//	MAC     32 bytes   HMAC-SHA256 of all above, with a key of this process
//
// in base64. The key lives as long as the process, as the tickets do.
const (
	stateVersion = 1
	stateFixed   = 1 + 16 + 8 + 16 + 32
	maxTicket    = 128
	maxState     = (stateFixed+maxTicket+sha256.Size)*4/3 + 4
)

// maxStates bounds the questions that are open at a server. A desk holds fewer
// tickets, each of which is asked about a few times.
const maxStates = 1024

// A principal is whoever a connection acts for. Stdio has one for each.
type principal [16]byte

func newPrincipal() (p principal) {
	_, _ = rand.Read(p[:]) // never fails
	return p
}

// states makes request state and takes it back, once.
type states struct {
	now func() time.Time // nil means time.Now

	mu   sync.Mutex
	key  []byte
	open map[[16]byte]time.Time // nonces that were not used, and when they expire
}

var encoding = base64.RawURLEncoding.Strict()

func (s *states) time() time.Time {
	if s.now != nil {
		return s.now()
	}
	return time.Now()
}

// issue makes the state for one question; ok is false if too many are open.
func (s *states) issue(p principal, call [32]byte, ticket string, expires time.Time) (_ string, ok bool) {
	if len(ticket) > maxTicket {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == nil {
		s.key = make([]byte, sha256.Size)
		_, _ = rand.Read(s.key)
		s.open = make(map[[16]byte]time.Time)
	}
	if len(s.open) >= maxStates {
		now := s.time()
		for n, at := range s.open {
			if !now.Before(at) {
				delete(s.open, n)
			}
		}
		if len(s.open) >= maxStates {
			return "", false
		}
	}
	var nonce [16]byte
	_, _ = rand.Read(nonce[:])
	s.open[nonce] = expires

	b := make([]byte, 0, stateFixed+len(ticket)+sha256.Size)
	b = append(b, stateVersion)
	b = append(b, nonce[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(expires.UnixNano()))
	b = append(b, p[:]...)
	b = append(b, call[:]...)
	b = append(b, ticket...)
	b = append(b, s.mac(b)...)
	return encoding.EncodeToString(b), true
}

func (s *states) mac(b []byte) []byte {
	m := hmac.New(sha256.New, s.key)
	m.Write(b)
	return m.Sum(nil)
}

// redeem checks state, spends it and returns its ticket. State that belongs to
// another call is not spent: the right call can still be made with it.
func (s *states) redeem(state string, p principal, call [32]byte) (ticket string, err error) {
	// The decoder passes over line ends, and one state has one form.
	if len(state) > maxState || strings.ContainsAny(state, "\r\n") {
		return "", errForeignState()
	}
	b, err := encoding.DecodeString(state)
	if err != nil || len(b) < stateFixed+sha256.Size {
		return "", errForeignState()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	body, mac := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if s.key == nil || !hmac.Equal(mac, s.mac(body)) || body[0] != stateVersion {
		return "", errForeignState()
	}
	nonce := [16]byte(body[1:17])
	expires := time.Unix(0, int64(binary.BigEndian.Uint64(body[17:25])))
	switch {
	case !bytes.Equal(body[25:41], p[:]):
		return "", errForeignState()
	case !bytes.Equal(body[41:73], call[:]):
		return "", tool.Errorf(tool.ApprovalMismatch, "the answer was given for another call")
	}
	open, ok := s.open[nonce]
	delete(s.open, nonce)
	if now := s.time(); !ok || !now.Before(expires) || !now.Before(open) {
		return "", tool.Errorf(tool.ApprovalExpired, "the answer was used already or came too late")
	}
	return string(body[stateFixed:]), nil
}

func errForeignState() error {
	return tool.Errorf(tool.ApprovalMismatch, "the request state is none that this connection was given").
		WithNext("make the call again without request state; it asks again")
}

// digest tells one call from another, however its arguments are spaced and
// ordered: clients may write them anew when they call again.
func (c *Call) digest() [32]byte {
	h := sha256.New()
	h.Write([]byte(c.Tool))
	h.Write([]byte{0})
	d := json.NewDecoder(bytes.NewReader(c.Arguments))
	d.UseNumber() // or two large numbers would be one
	var v any
	if d.Decode(&v) == nil {
		if flat, err := json.Marshal(v); err == nil {
			h.Write(flat)
			return [32]byte(h.Sum(nil))
		}
	}
	h.Write(c.Arguments)
	return [32]byte(h.Sum(nil))
}
