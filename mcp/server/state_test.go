package server

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// issued is one state with everything it was made for.
type issued struct {
	s       *states
	clock   time.Time
	p       principal
	call    Call
	expires time.Time
	text    string
}

const ticketName = "abcdefghijklmnopqrstuvwxyz"

func issueOne(t testing.TB) *issued {
	t.Helper()
	i := &issued{s: &states{}, clock: time.Unix(1_800_000_000, 5), p: newPrincipal(), call: Call{Tool: "write", Arguments: json.RawMessage(`{"n":1}`)}}
	i.s.now = func() time.Time { return i.clock }
	i.expires = i.clock.Add(5 * time.Minute)
	var ok bool
	if i.text, ok = i.s.issue(i.p, i.call.digest(), ticketName, i.expires); !ok {
		t.Fatal("no state")
	}
	return i
}

func (i *issued) redeem() (string, error) { return i.s.redeem(i.text, i.p, i.call.digest()) }

// sign is the attacker's dream: the same state with another body and a MAC that
// is right.
func (i *issued) sign(change func(body []byte) []byte) string {
	b, _ := encoding.DecodeString(i.text)
	body := change(append([]byte(nil), b[:len(b)-32]...))
	return encoding.EncodeToString(append(body, i.s.mac(body)...))
}

func TestStateOnce(t *testing.T) {
	i := issueOne(t)
	if ticket, err := i.redeem(); err != nil || ticket != ticketName {
		t.Fatalf("redeem = %q, %v", ticket, err)
	}
	if _, err := i.redeem(); tool.CodeOf(err) != tool.ApprovalExpired {
		t.Errorf("the second redeem = %v", err)
	}
	// Control: only the spent nonce stands in the way.
	nonce := [16]byte(mustDecode(t, i.text)[1:17])
	i.s.open[nonce] = i.expires
	if _, err := i.redeem(); err != nil {
		t.Errorf("with the nonce put back: %v", err)
	}
}

func mustDecode(t testing.TB, s string) []byte {
	t.Helper()
	b, err := encoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStateOnceUnderLoad: of many who use it at the same moment one gets it.
func TestStateOnceUnderLoad(t *testing.T) {
	i := issueOne(t)
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if _, err := i.redeem(); err == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 100 got the ticket; want 1", won.Load())
	}
}

// TestStateTampered changes every single character, and every length. None is
// taken, and none spends the right one.
func TestStateTampered(t *testing.T) {
	i := issueOne(t)
	refused := func(state string) {
		t.Helper()
		if state == i.text {
			return
		}
		if ticket, err := i.s.redeem(state, i.p, i.call.digest()); tool.CodeOf(err) != tool.ApprovalMismatch || ticket != "" {
			t.Errorf("redeem(%q) = %q, %v", state, ticket, err)
		}
	}
	for at := range i.text {
		for _, c := range []byte("A_z9-=. \x00\xff") {
			refused(i.text[:at] + string([]byte{c}) + i.text[at+1:])
		}
		refused(i.text[:at])
		refused(i.text[at:])
	}
	for _, s := range []string{i.text + "A", i.text + "=", i.text + "\n", "\n" + i.text, i.text + i.text, strings.Repeat("A", maxState), strings.Repeat("A", 1<<20)} {
		refused(s)
	}
	if _, err := i.redeem(); err != nil {
		t.Errorf("the right state, after all that: %v", err)
	}
}

// TestStateForAnother: each thing that state is bound to. The control is the
// same forgery by somebody who has the key: it works, so that it is the key
// that stops it and not a slip in the forgery.
func TestStateForAnother(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(i *issued, body []byte) []byte
		ticket string
	}{
		{"another ticket", func(_ *issued, b []byte) []byte { return append(b[:stateFixed], "other"...) }, "other"},
		{"another expiry", func(i *issued, b []byte) []byte {
			binary.BigEndian.PutUint64(b[17:], uint64(i.expires.Add(time.Hour).UnixNano()))
			return b
		}, ticketName},
		{"another principal", func(i *issued, b []byte) []byte {
			i.p = newPrincipal()
			copy(b[25:], i.p[:])
			return b
		}, ticketName},
		{"other arguments", func(i *issued, b []byte) []byte {
			i.call.Arguments = json.RawMessage(`{"n":2}`)
			d := i.call.digest()
			copy(b[41:], d[:])
			return b
		}, ticketName},
		{"another tool", func(i *issued, b []byte) []byte {
			i.call.Tool = "delete"
			d := i.call.digest()
			copy(b[41:], d[:])
			return b
		}, ticketName},
	} {
		i := issueOne(t)
		forged := i.sign(func(b []byte) []byte { return c.change(i, b) })
		unsigned := mustDecode(t, forged)
		original := mustDecode(t, i.text)
		copy(unsigned[len(unsigned)-32:], original[len(original)-32:]) // the MAC that was issued
		for _, state := range []string{encoding.EncodeToString(unsigned), i.text} {
			ticket, err := i.s.redeem(state, i.p, i.call.digest())
			if state == i.text && (c.name == "another ticket" || c.name == "another expiry") {
				continue // nothing about the caller changed: this is the rightful use
			}
			if tool.CodeOf(err) != tool.ApprovalMismatch {
				t.Errorf("%s: redeem = %q, %v", c.name, ticket, err)
			}
		}
		i.s.open[[16]byte(original[1:17])] = i.expires
		if ticket, err := i.s.redeem(forged, i.p, i.call.digest()); err != nil || ticket != c.ticket {
			t.Errorf("control, %s with the key: %q, %v", c.name, ticket, err)
		}
	}
}

// TestStateOfAnotherProcess: the key is nobody else's.
func TestStateOfAnotherProcess(t *testing.T) {
	i := issueOne(t)
	for _, other := range []*states{{}, issueOne(t).s} {
		if _, err := other.redeem(i.text, i.p, i.call.digest()); tool.CodeOf(err) != tool.ApprovalMismatch {
			t.Errorf("redeem = %v", err)
		}
	}
	// Control: with the key, and the nonce, it would be taken.
	other := &states{now: i.s.now, key: i.s.key, open: i.s.open}
	if _, err := other.redeem(i.text, i.p, i.call.digest()); err != nil {
		t.Errorf("with the key: %v", err)
	}
}

// TestStateExpires at the very moment, as the ticket does.
func TestStateExpires(t *testing.T) {
	i := issueOne(t)
	i.clock = i.expires
	if _, err := i.redeem(); tool.CodeOf(err) != tool.ApprovalExpired {
		t.Errorf("at its end: %v", err)
	}
	i = issueOne(t)
	i.clock = i.expires.Add(-1)
	if _, err := i.redeem(); err != nil {
		t.Errorf("one nanosecond before: %v", err)
	}
}

// TestStatesAreBounded: questions that nobody answers do not pile up, and when
// their time is over there is room again.
func TestStatesAreBounded(t *testing.T) {
	i := issueOne(t)
	for n := 1; n < maxStates; n++ {
		if _, ok := i.s.issue(i.p, [32]byte{}, ticketName, i.expires); !ok {
			t.Fatalf("state %d was not issued", n)
		}
	}
	if _, ok := i.s.issue(i.p, [32]byte{}, ticketName, i.expires); ok || len(i.s.open) != maxStates {
		t.Errorf("one more than %d was issued", maxStates)
	}
	if _, err := i.redeem(); err != nil {
		t.Errorf("the first is lost: %v", err)
	}
	if _, ok := i.s.issue(i.p, [32]byte{}, ticketName, i.expires); !ok {
		t.Error("the room of a spent one is not used")
	}
	i.clock = i.expires
	if _, ok := i.s.issue(i.p, [32]byte{}, ticketName, i.expires.Add(time.Minute)); !ok || len(i.s.open) != 1 {
		t.Errorf("%d are open after all expired", len(i.s.open))
	}
	if _, ok := i.s.issue(i.p, [32]byte{}, strings.Repeat("t", maxTicket+1), i.expires.Add(time.Minute)); ok {
		t.Error("a ticket of any length is taken")
	}
	long, ok := i.s.issue(i.p, [32]byte{}, strings.Repeat("t", maxTicket), i.expires.Add(time.Minute))
	if !ok || len(long) > maxState {
		t.Errorf("the longest state has %d characters; at most %d are read", len(long), maxState)
	}
}

// TestCallDigest: what a client may change when it makes its call again, and
// what it may not.
func TestCallDigest(t *testing.T) {
	of := func(name, args string) [32]byte {
		return (&Call{Tool: name, Arguments: json.RawMessage(args)}).digest()
	}
	base := of("w", `{"a":1,"b":["x",{"c":null}]}`)
	for _, same := range []string{`{ "b" : [ "x", { "c" : null } ], "a" : 1 }`, `{"\u0061":1,"b":["\u0078",{"c":null}]}`} {
		if of("w", same) != base {
			t.Errorf("%s is another call", same)
		}
	}
	seen := map[[32]byte]string{base: "base"}
	for _, other := range [][2]string{
		{"x", `{"a":1,"b":["x",{"c":null}]}`}, {"w", `{"a":2,"b":["x",{"c":null}]}`}, {"w", `{"a":"1","b":["x",{"c":null}]}`},
		{"w", `{"a":1,"b":[{"c":null},"x"]}`}, {"w", `{"a":1}`}, {"w", `{}`}, {"", `{}`}, {"w", `{"a":9007199254740993}`},
		{"w", `{"a":9007199254740992}`}, {"w", `{"a":"<"}`}, {"w", `{"a":"\u003c "}`}, {"w{", `}`},
	} {
		d := of(other[0], other[1])
		if was, ok := seen[d]; ok {
			t.Errorf("%q is the same call as %s", other, was)
		}
		seen[d] = fmt.Sprint(other)
	}
}

// FuzzState: no text but the one that was issued is taken, whatever it is.
func FuzzState(f *testing.F) {
	i := issueOne(f)
	f.Add([]byte(i.text), false)
	f.Add([]byte(i.text[:len(i.text)-1]), false)
	f.Add([]byte(""), false)
	f.Add(mustDecode(f, i.text), true)
	f.Add(make([]byte, stateFixed+32), true)
	f.Add(append([]byte{stateVersion}, make([]byte, stateFixed+31)...), true)
	f.Fuzz(func(t *testing.T, raw []byte, encode bool) {
		i := issueOne(t)
		state := string(raw)
		if encode {
			state = encoding.EncodeToString(raw)
		}
		ticket, err := i.s.redeem(state, i.p, i.call.digest())
		if (tool.CodeOf(err) != tool.ApprovalMismatch || ticket != "") && state != i.text {
			t.Fatalf("redeem(%q) = %q, %v", state, ticket, err)
		}
		if ticket, err := i.redeem(); err != nil || ticket != ticketName {
			t.Fatalf("after %q the right state gives %q, %v", state, ticket, err)
		}
	})
}
