package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// message is any JSON-RPC message. ID is as it was sent; a response has one and
// no method.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string {
	return fmt.Sprintf("it answered error %d: %s", e.Code, quoted(e.Message, 1024))
}

// Codes of JSON-RPC.
const (
	methodNotFound = -32601
	invalidRequest = -32600
	invalidParams  = -32602
)

var errTooLarge = errors.New("it sent a message over the limit")

// maxNesting is how deep a message may be nested. The decoder has a bound of its
// own, which is far higher.
const maxNesting = 64

// decode reads one message. What is not one is an error; the peer is then not to
// be trusted to speak the protocol.
func decode(line []byte) (m message, err error) {
	if depth(line) > maxNesting {
		return m, errors.New("it sent a message nested too deeply")
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return m, errors.New("it sent what is no message: " + quoted(string(line[:min(len(line), 200)]), 200))
	}
	if m.Version != "2.0" || m.Method == "" && (len(m.ID) == 0 || m.Result == nil && m.Error == nil) {
		return m, errors.New("it sent what is no message: " + quoted(string(line[:min(len(line), 200)]), 200))
	}
	return m, nil
}

// depth is how deep brackets are nested outside of strings.
func depth(b []byte) int {
	deepest, now, inside := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case inside:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// readLine reads up to the next line end, at most max bytes. The line is valid
// until the next call.
func readLine(r *bufio.Reader, buf *[]byte, max int64) ([]byte, error) {
	*buf = (*buf)[:0]
	for {
		part, err := r.ReadSlice('\n')
		if int64(len(*buf)+len(part)) > max {
			return nil, errTooLarge
		}
		*buf = append(*buf, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(bytes.TrimSpace(*buf)) > 0:
			return *buf, nil
		case err != nil:
			return nil, err
		default:
			return *buf, nil
		}
	}
}

// idOf is the number of one of our requests; false if it is none of them.
func idOf(raw json.RawMessage) (uint64, bool) {
	n, err := strconv.ParseUint(string(raw), 10, 64)
	return n, err == nil
}

// clean makes a text of a server fit to be shown: valid, without control and
// format characters (which can hide or reorder text) but for line ends and tabs,
// and at most max bytes.
func clean(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return -1
		}
		return r
	}, s)
	if len(s) <= max {
		return s
	}
	cut := max - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// quoted is a text of a server in one of our sentences.
func quoted(s string, max int) string {
	return strconv.QuoteToGraphic(clean(strings.Join(strings.Fields(s), " "), max))
}
