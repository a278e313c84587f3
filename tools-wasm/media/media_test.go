package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
	"github.com/wasmtools/wasmtools/guest-sdk/guesttest"
)

// The attacks on this module are in media_test.go of the root package: there
// they meet it where it runs, in the sandbox.

func TestScaleKeepsTheParts(t *testing.T) {
	// Four quarters of four colours, in strips and out of place at the origin.
	want := []color.RGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255}, {255, 255, 255, 255}}
	m := image.NewRGBA(image.Rect(-7, 5, -7+4000, 5+3000))
	for y := range 3000 {
		for x := range 4000 {
			m.SetRGBA(x-7, y+5, want[x/2000+2*(y/1500)])
		}
	}
	s := scale(m, 2000)
	if b := s.Bounds(); b != image.Rect(0, 0, 2000, 1500) {
		t.Fatalf("scaled to %v", b)
	}
	for y := range 1500 {
		for x := range 2000 {
			if 997 < x && x < 1003 || 747 < y && y < 753 {
				continue // where the parts meet
			}
			if got := s.RGBAAt(x, y); got != want[x/1000+2*(y/750)] {
				t.Fatalf("at %d, %d: %v", x, y, got)
			}
		}
	}
}

func TestProgressive(t *testing.T) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8)), nil); err != nil {
		t.Fatal(err)
	}
	if progressive(b.Bytes()) {
		t.Error("what image/jpeg encodes is not progressive")
	}
	p := bytes.Replace(b.Bytes(), []byte("\xff\xc0"), []byte("\xff\xc2"), 1)
	if !progressive(p) || !progressive(p[:3]) {
		t.Error("a progressive file, or none, must count as one")
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{"a\x1b[1;31mb\x1b[0mc": "abc", "x\x1b[": "x", "\x1b[12": "", "none": "none"} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q; want %q", in, got, want)
		}
	}
}

// FuzzMedia opens bytes as an image and as a notebook. PDF documents are left to
// the sandbox, which ends what their parser does not.
func FuzzMedia(f *testing.F) {
	var p, j, g bytes.Buffer
	m := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.White, color.Black})
	if png.Encode(&p, m) != nil || jpeg.Encode(&j, m, nil) != nil || gif.Encode(&g, m, nil) != nil {
		f.Fatal("cannot encode")
	}
	f.Add(p.Bytes(), false)
	f.Add(j.Bytes(), false)
	f.Add(g.Bytes(), false)
	f.Add([]byte(`{"cells":[{"cell_type":"code","source":["a\n"],"outputs":[{"data":{"image/png":"`+base64.StdEncoding.EncodeToString(p.Bytes())+`"}}]}]}`), true)
	f.Fuzz(func(t *testing.T, data []byte, notebook bool) {
		if cfg, _, err := image.DecodeConfig(bytes.NewReader(data)); err == nil && cfg.Width*cfg.Height > 1<<20 {
			return // no memory is limited here
		}
		name := "f"
		if notebook {
			name = "f.ipynb"
		} else if bytes.HasPrefix(data, []byte("%PDF-")) {
			return
		}
		h := guesttest.New()
		h.Put(name, string(data))
		r := h.Call("read_media", `{"path":"`+name+`"}`)
		if r.IsError && r.Meta.Code != string(guest.Encoding) && r.Meta.Code != string(guest.TooLarge) {
			t.Fatalf("%q: code %q: %s", data, r.Meta.Code, r.Text())
		}
		if guest.TextLen(r.Text()) > openBytes || !json.Valid(r.Raw) || strings.Contains(r.Text(), "runtime error") {
			t.Fatalf("%q gave %d bytes: %.500s", data, len(r.Text()), r.Text())
		}
	})
}
