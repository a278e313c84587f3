package embedhttp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/catalog/embedhttp"
	"github.com/wasmtools/wasmtools/catalog/rank"
)

// meanings is a server whose vectors know that a car is a vehicle.
func meanings(t *testing.T) (*httptest.Server, *atomic.Value) {
	t.Helper()
	var face atomic.Value
	face.Store("good")
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model string
			Input []string
		}
		if r.URL.Path != "/v1/embeddings" || json.NewDecoder(r.Body).Decode(&q) != nil || q.Model != "m" || r.Header.Get("Authorization") != "Bearer key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch face.Load() {
		case "status":
			w.WriteHeader(http.StatusInternalServerError)
		case "no key":
			w.WriteHeader(http.StatusUnauthorized)
		case "garbage":
			fmt.Fprint(w, "<html>")
		case "few":
			fmt.Fprint(w, `{"data":[]}`)
		case "twice":
			fmt.Fprint(w, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`)
		case "zero":
			fmt.Fprint(w, `{"data":[{"index":0,"embedding":[0,0]}]}`)
		case "other length":
			fmt.Fprint(w, `{"data":[{"index":0,"embedding":[1,2,3,4]}]}`)
		case "huge":
			for range 20 {
				fmt.Fprint(w, strings.Repeat(" ", 1<<20))
			}
		case "slow":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "elsewhere":
			http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusTemporaryRedirect)
		default:
			var l []string
			for i, t := range q.Input {
				v := "[0.1,1]"
				if strings.Contains(t, "car") || strings.Contains(t, "vehicle") {
					v = "[1,0.1]"
				}
				l = append(l, fmt.Sprintf(`{"index":%d,"embedding":%s}`, i, v))
			}
			fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(l, ","))
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(release) })
	return s, &face
}

// TestHybrid: meaning is found where words are not; and whatever the server does,
// words still rank, and the failure is told.
func TestHybrid(t *testing.T) {
	s, face := meanings(t)
	c, err := embedhttp.New(embedhttp.Options{URL: s.URL + "/v1/", Model: "m", Key: func() (string, error) { return "key", nil }})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 100)
	docs := []catalog.Document{{Name: "boats", Description: "rents"}, {Name: "vehicles", Description: "rents"}}
	open := func() catalog.Index {
		t.Helper()
		x, err := rank.Hybrid(rank.New(rank.Options{}), c, rank.HybridOptions{Patience: 500 * time.Millisecond, Rest: time.Millisecond, Notice: func(s string) {
			select {
			case told <- s:
			default:
			}
		}}).Index(docs)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	first := func(x catalog.Index, request string) int {
		t.Helper()
		hits, err := x.Rank(catalog.Query{Request: request}, nil, 1)
		if err != nil || len(hits) != 1 {
			t.Fatal(hits, err)
		}
		return hits[0].Document
	}
	x := open()
	for end := time.Now().Add(time.Minute); first(x, "a car") != 1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("vectors do not come to be used")
		}
	}
	for _, bad := range []string{"status", "no key", "garbage", "few", "twice", "zero", "huge", "slow", "elsewhere", "other length"} {
		face.Store(bad)
		for len(told) > 0 {
			<-told
		}
		time.Sleep(2 * time.Millisecond) // the rest after the failure before is over
		if got := first(x, "boats"); got != 0 {
			t.Errorf("%s: words do not rank", bad)
		}
		select {
		case m := <-told:
			if !strings.Contains(m, "by words alone") {
				t.Errorf("%s: told %q", bad, m)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: nobody is told", bad)
		}
		fresh := open() // that never has vectors
		if got := first(fresh, "boats"); got != 0 {
			t.Errorf("%s: words do not rank in a new index", bad)
		}
	}
	face.Store("good")
	for end := time.Now().Add(time.Minute); first(x, "a car") != 1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("vectors do not come to be used again")
		}
	}
}

func TestNew(t *testing.T) {
	for _, o := range []embedhttp.Options{{}, {URL: "x", Model: "m"}, {URL: "ftp://x/", Model: "m"}, {URL: "http://127.0.0.1/"}, {URL: "http://example.com/v1", Model: "m"}, {URL: "https://me:key@example.com/v1", Model: "m"}} {
		if _, err := embedhttp.New(o); err == nil {
			t.Errorf("accepted: %+v", o)
		}
	}
	s, _ := meanings(t)
	c, err := embedhttp.New(embedhttp.Options{URL: s.URL + "/v1", Model: "m", Key: func() (string, error) { return "", errors.New("no key") }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Embed(t.Context(), []string{"x"}); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("%v", err)
	}
}
