package main

import (
	"testing"

	"github.com/wasmtools/wasmtools/guest-sdk/guesttest"
)

func TestWordCount(t *testing.T) {
	h := guesttest.New()
	h.Put("a.txt", "one two\nthree\n")
	r := h.Call("word_count", `{"path":"a.txt","longest":true}`)
	if want := `{"lines":2,"words":3,"bytes":14,"longest":"three"}`; r.IsError || string(r.Structured) != want {
		t.Errorf("word_count = %s, want %s", r.Raw, want)
	}
	if r = h.Call("word_count", `{"path":"none"}`); !r.IsError || r.Meta.Code != "not_found" {
		t.Errorf("a missing file: %s", r.Raw)
	}
}
