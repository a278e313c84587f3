package hostfuncs_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
)

// recorder is the network and the store of these tests.
type recorder struct {
	rules []manifest.HostRule
	asked []string
	held  map[string][]byte
}

func (r *recorder) Fetch(_ context.Context, rules []manifest.HostRule, req hostfuncs.HTTPRequest) (hostfuncs.HTTPResponse, error) {
	r.rules, r.asked = rules, append(r.asked, req.URL)
	return hostfuncs.HTTPResponse{Status: 204, Sent: 5, Received: 7}, nil
}

func (r *recorder) Get(_ context.Context, key string) ([]byte, bool, error) {
	v, ok := r.held[key]
	return v, ok, nil
}

func (r *recorder) Set(_ context.Context, key string, value []byte) error {
	if value == nil {
		delete(r.held, key)
		return nil
	}
	r.held[key] = value
	return nil
}

// TestFetchNeedsGrant asks with and without a grant, in a preview and without a
// network. The case with everything shows that the others fail for their reason.
func TestFetchNeedsGrant(t *testing.T) {
	net := []manifest.HostRule{{Host: "a.com"}}
	for _, c := range []struct {
		name    string
		grant   hostfuncs.Grant
		preview bool
		none    bool
		want    tool.Code
	}{
		{"granted", hostfuncs.Grant{Net: net}, false, false, ""},
		{"not granted", hostfuncs.Grant{Read: []string{"**"}, KV: true}, false, false, tool.GrantMissing},
		{"preview", hostfuncs.Grant{Net: net}, true, false, tool.NotAvailable},
		{"no network", hostfuncs.Grant{Net: net}, false, true, tool.NotAvailable},
	} {
		r := &recorder{}
		call := &hostfuncs.Call{Grant: c.grant, Preview: c.preview, HTTP: r}
		if c.none {
			call.HTTP = nil
		}
		_, err := call.Fetch(t.Context(), hostfuncs.HTTPRequest{URL: "https://a.com/"})
		if tool.CodeOf(err) != c.want || (len(r.asked) == 1) != (c.want == "") {
			t.Errorf("%s: Fetch = %v, asked %v; want code %q", c.name, err, r.asked, c.want)
		}
		if c.want == "" && (!reflect.DeepEqual(r.rules, net) || call.Used().BytesReceived != 7 || call.Used().Requests != 1) {
			t.Errorf("%s: rules %v, used %+v", c.name, r.rules, call.Used())
		}
	}
}

func TestEnvIsByName(t *testing.T) {
	env := func(n string) (string, bool) { return "value of " + n, n != "UNSET" }
	c := &hostfuncs.Call{Grant: hostfuncs.Grant{Env: []string{"B", "UNSET", "A"}}, Env: env}
	if v, ok := c.Getenv("A"); !ok || v != "value of A" {
		t.Errorf("Getenv(A) = %q, %v", v, ok)
	}
	for _, n := range []string{"HOME", "a", "", "UNSET"} {
		if v, ok := c.Getenv(n); ok {
			t.Errorf("Getenv(%q) = %q; it was not granted", n, v)
		}
	}
	if got, want := c.Environ(), []string{"B=value of B", "A=value of A"}; !reflect.DeepEqual(got, want) {
		t.Errorf("Environ() = %q, want %q", got, want)
	}
	if got := (&hostfuncs.Call{Grant: c.Grant}).Environ(); got != nil {
		t.Errorf("without an environment Environ() = %q", got)
	}
}

func TestKV(t *testing.T) {
	ctx := t.Context()
	r := &recorder{held: map[string][]byte{"old": []byte("1")}}
	call := func(preview bool) *hostfuncs.Call {
		return &hostfuncs.Call{Grant: hostfuncs.Grant{KV: true}, KV: r, Preview: preview}
	}
	// A preview sees what it stored, and nobody else ever does.
	p := call(true)
	for k, v := range map[string][]byte{"new": []byte("2"), "old": nil} {
		if err := p.KVSet(ctx, k, v); err != nil {
			t.Fatal(err)
		}
	}
	if v, ok, err := p.KVGet(ctx, "new"); string(v) != "2" || !ok || err != nil {
		t.Errorf("the preview reads %q, %v, %v", v, ok, err)
	}
	if _, ok, _ := p.KVGet(ctx, "old"); ok {
		t.Error("the preview still reads what it removed")
	}
	if string(r.held["old"]) != "1" || len(r.held) != 1 {
		t.Errorf("a preview changed the store: %v", r.held)
	}
	// The control: without a preview the same calls change it.
	c := call(false)
	if err := c.KVSet(ctx, "new", []byte("2")); err != nil {
		t.Fatal(err)
	}
	if err := c.KVSet(ctx, "old", nil); err != nil {
		t.Fatal(err)
	}
	if string(r.held["new"]) != "2" || len(r.held) != 1 {
		t.Errorf("the store holds %v", r.held)
	}

	for _, bad := range []struct {
		name  string
		call  *hostfuncs.Call
		key   string
		value []byte
		want  tool.Code
	}{
		{"no grant", &hostfuncs.Call{KV: r}, "k", nil, tool.GrantMissing},
		{"no store", &hostfuncs.Call{Grant: hostfuncs.Grant{KV: true}}, "k", nil, tool.NotAvailable},
		{"no key", call(false), "", nil, tool.InvalidArguments},
		{"long key", call(false), strings.Repeat("k", hostfuncs.MaxKey+1), nil, tool.InvalidArguments},
		{"a key that is not text", call(false), "k\xff", nil, tool.InvalidArguments},
		{"large value", call(false), "k", make([]byte, hostfuncs.MaxValue+1), tool.TooLarge},
	} {
		if err := bad.call.KVSet(ctx, bad.key, bad.value); tool.CodeOf(err) != bad.want {
			t.Errorf("%s: KVSet = %v, want %s", bad.name, err, bad.want)
		}
	}
	full := call(true)
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		err = full.KVSet(ctx, strings.Repeat("x", n+1), make([]byte, hostfuncs.MaxValue))
	}
	if tool.CodeOf(err) != tool.Quota || n > 17 {
		t.Errorf("a preview held %d values of %d bytes: %v", n, hostfuncs.MaxValue, err)
	}
}
