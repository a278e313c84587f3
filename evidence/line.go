package evidence

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strconv"
	"time"
)

// A line of a segment is
//
//	{"hash":"H","mac":"M","seq":N,"w":W,"time":"T","type":"K",...}
//
// with these members first, in this order and form. H is the SHA-256 of the
// hash before (32 bytes, zero for the first line) and the line's bytes from
// "seq" to its end, so that anybody can follow the chain. M is the beginning of
// an HMAC of H under a key that only the local key file gives: a line that
// somebody else added shows at once, also after the last signature. W is the
// seq of the line with which the writing process announced itself.
const (
	hashAt  = len(`{"hash":"`)
	hashEnd = hashAt + 2*sha256.Size
	macAt   = hashEnd + len(`","mac":"`)
	macEnd  = macAt + macText
	bodyAt  = macEnd + len(`",`)

	macSize = 16
	macText = 22 // base64 of macSize bytes, without padding

	timeForm = "2006-01-02T15:04:05.000000Z"
)

// The types of lines. Those of calls are the first three.
const (
	typeIntent     = "intent"
	typeEvent      = "event"
	typeOutcome    = "outcome"
	typeLog        = "log"        // the first line of all: which record this is, and whose key
	typeSegment    = "segment"    // the first line of every other segment
	typeOpen       = "open"       // a process begins to write
	typeClose      = "close"      // it ends in an orderly way; holds a signature
	typeGone       = "gone"       // it was found to have ended otherwise
	typeCheckpoint = "checkpoint" // a signature over all before it
	typePruned     = "pruned"     // the beginning was removed on purpose; signed
)

// maxLine bounds a line. A call's records stay far below it: see limits.go.
const maxLine = 512 << 10

type sum = [sha256.Size]byte

// chain makes and checks hashes and codes. Not for concurrent use.
type chain struct {
	h    hash.Hash
	mac  hash.Hash // nil: without the key
	link sum       // here, because what is handed to an interface escapes
}

func newChain(macKey []byte) *chain {
	c := &chain{h: sha256.New()}
	if macKey != nil {
		c.mac = hmac.New(sha256.New, macKey)
	}
	return c
}

func (c *chain) next(prev *sum, body []byte) sum {
	c.link = *prev
	c.h.Reset()
	c.h.Write(c.link[:])
	c.h.Write(body)
	c.h.Sum(c.link[:0])
	return c.link
}

func (c *chain) code(h *sum) [macSize]byte {
	c.link = *h
	c.mac.Reset()
	c.mac.Write(c.link[:])
	c.mac.Sum(c.link[:0])
	return [macSize]byte(c.link[:])
}

// position is where a record ends: the last line, and the first byte after it.
type position struct {
	seq     uint64
	hash    sum
	segment uint64
	offset  int64
}

// appendLine appends the line that follows at, and its line end, and moves at
// behind it. The members are those of an object, which begins with '{'.
func (c *chain) appendLine(buf []byte, at *position, writer uint64, when time.Time, typ string, of uint64, members []byte) []byte {
	start := len(buf)
	buf = append(buf, `{"hash":"`...)
	buf = append(buf, placeholder[:2*sha256.Size]...)
	buf = append(buf, `","mac":"`...)
	buf = append(buf, placeholder[:macText]...)
	buf = append(buf, `",`...)
	buf = append(buf, `"seq":`...)
	at.seq++
	buf = strconv.AppendUint(buf, at.seq, 10)
	buf = append(buf, `,"w":`...)
	buf = strconv.AppendUint(buf, writer, 10)
	buf = append(buf, `,"time":"`...)
	buf = when.UTC().AppendFormat(buf, timeForm)
	buf = append(buf, `","type":"`...)
	buf = append(buf, typ...)
	buf = append(buf, '"')
	if of != 0 {
		buf = append(buf, `,"of":`...)
		buf = strconv.AppendUint(buf, of, 10)
	}
	if len(members) > 2 {
		buf = append(buf, ',')
		buf = append(buf, members[1:]...)
	} else {
		buf = append(buf, '}')
	}
	line := buf[start:]
	at.hash = c.next(&at.hash, line[bodyAt:])
	hex.Encode(line[hashAt:hashEnd], at.hash[:])
	m := c.code(&at.hash)
	base64.RawURLEncoding.Encode(line[macAt:macEnd], m[:])
	buf = append(buf, '\n')
	at.offset += int64(len(buf) - start)
	return buf
}

var placeholder = "0000000000000000000000000000000000000000000000000000000000000000"

// line is a parsed line. Its slices point into the bytes that were parsed.
type line struct {
	hash   sum
	mac    [macSize]byte
	seq    uint64
	writer uint64
	typ    string
	of     uint64
	time   []byte // in timeForm; not checked to be a date
	body   []byte // what the hash covers
	raw    []byte // the whole line, without its end
}

// parseLine reads the fixed members of a line. It accepts exactly the form
// that appendLine writes; what follows them is not looked at.
func parseLine(p []byte) (l line, ok bool) {
	if len(p) < bodyAt+2 || len(p) > maxLine || p[len(p)-1] != '}' ||
		string(p[:hashAt]) != `{"hash":"` || string(p[hashEnd:macAt]) != `","mac":"` || string(p[macEnd:bodyAt]) != `",` {
		return l, false
	}
	if _, err := hex.Decode(l.hash[:], p[hashAt:hashEnd]); err != nil || hasUpper(p[hashAt:hashEnd]) {
		return l, false
	}
	if n, err := base64.RawURLEncoding.Strict().Decode(l.mac[:], p[macAt:macEnd]); err != nil || n != macSize {
		return l, false
	}
	l.raw, l.body = p, p[bodyAt:]
	rest := l.body
	if l.seq, rest, ok = number(rest, `"seq":`); !ok {
		return l, false
	}
	if l.writer, rest, ok = number(rest, `,"w":`); !ok {
		return l, false
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"time":"`)); !ok || len(rest) < len(timeForm) {
		return l, false
	}
	l.time, rest = rest[:len(timeForm)], rest[len(timeForm):]
	if rest, ok = bytes.CutPrefix(rest, []byte(`","type":"`)); !ok {
		return l, false
	}
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return l, false
	}
	if l.typ = typeName(rest[:end]); l.typ == "" {
		return l, false
	}
	rest = rest[end+1:]
	if l.typ == typeEvent || l.typ == typeOutcome {
		if l.of, rest, ok = number(rest, `,"of":`); !ok {
			return l, false
		}
	}
	return l, rest[0] == ',' || len(rest) == 1 // the last byte is '}'
}

func (l *line) at() time.Time {
	t, err := time.Parse(timeForm, string(l.time))
	if err != nil {
		return time.Time{}
	}
	return t
}

func hasUpper(p []byte) bool {
	for _, b := range p {
		if 'A' <= b && b <= 'F' {
			return true
		}
	}
	return false
}

// number reads prefix and a positive decimal number without leading zeros.
func number(p []byte, prefix string) (n uint64, rest []byte, ok bool) {
	if len(p) < len(prefix) || string(p[:len(prefix)]) != prefix {
		return 0, p, false
	}
	p = p[len(prefix):]
	i := 0
	for ; i < len(p) && i < 19 && '0' <= p[i] && p[i] <= '9'; i++ {
		n = n*10 + uint64(p[i]-'0')
	}
	if i == 0 || p[0] == '0' || i == len(p) {
		return 0, p, false
	}
	return n, p[i:], true
}

// typeName returns the constant, so that a line keeps no bytes alive.
func typeName(p []byte) string {
	switch string(p) {
	case typeIntent:
		return typeIntent
	case typeEvent:
		return typeEvent
	case typeOutcome:
		return typeOutcome
	case typeLog:
		return typeLog
	case typeSegment:
		return typeSegment
	case typeOpen:
		return typeOpen
	case typeClose:
		return typeClose
	case typeGone:
		return typeGone
	case typeCheckpoint:
		return typeCheckpoint
	case typePruned:
		return typePruned
	}
	return ""
}
