package httpfetch

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/wasmtools/wasmtools/secret"
	"github.com/wasmtools/wasmtools/tool"
)

// TestStoreAsSecrets: the store fits in as it is, and a change in it counts
// from the next call on.
func TestStoreAsSecrets(t *testing.T) {
	store, err := secret.Open(filepath.Join(t.TempDir(), "secrets"))
	if err != nil {
		t.Fatal(err)
	}
	w, g := secretWorld(t)
	w.opts.Secrets = store.Get
	w.serve("93.184.216.34:80", func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprint(rw, len(r.Header.Get("Authorization")), " ", r.Header.Get("Authorization"))
	})
	_, err = w.do(g, Request{URL: "http://api.example.com/"})
	wantCode(t, "Do", err, tool.NotAvailable, "wasmtools secret set api")
	for _, value := range []string{"first-value", "second-longer-value"} {
		if err := store.Set("api", value); err != nil {
			t.Fatal(err)
		}
		got, err := w.do(g, Request{URL: "http://api.example.com/"})
		if want := fmt.Sprint(len("Bearer ")+len(value), " Bearer ", redacted); err != nil || string(got.Body) != want {
			t.Errorf("Do = %q, %v; want %q", got.Body, err, want)
		}
	}
}
