package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	_ "image/gif"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

const (
	maxPixels   = 100_000_000
	maxSide     = 2000                    // pixels of what is shown
	maxImage    = 4_500_000 * 3 / 4       // bytes, so that base64 of them has 4.5 MB
	decodeBytes = (memoryMiB - 160) << 20 // the rest is for the file, the result and the collector
	stripBytes  = 16 << 20                // of floats that scaling needs at once
)

func (f file) image() (guest.Result, error) {
	if f.sel.Exists() {
		return guest.Result{}, guest.FailPath(guest.InvalidArguments, f.path, "this is an image; no part of it can be selected").
			WithNext("leave selection away")
	}
	s, err := fit(f.data)
	if err != nil {
		if e, ok := err.(*guest.Error); ok {
			e.Path = f.path
			return guest.Result{}, e
		}
		return guest.Result{}, f.broken(err.Error())
	}
	var a answer
	text := fmt.Sprintf("[%s image of %d x %d pixels, %d bytes", s.format, s.width, s.height, len(f.data))
	if s.changed {
		text += fmt.Sprintf("; shown at %d x %d as %s", s.shownWidth, s.shownHeight, s.mime[len("image/"):])
	}
	a.add(text + "]\n")
	a.image(s.data, s.mime)
	return a.result("", guest.F("path", f.path), guest.F("size", len(f.data)), guest.F("kind", s.format+" image"),
		guest.F("width", s.width), guest.F("height", s.height), guest.F("shown_width", s.shownWidth), guest.F("shown_height", s.shownHeight))
}

// shown is an image as a model can take it.
type shown struct {
	data                    []byte
	mime, format            string
	width, height           int
	shownWidth, shownHeight int
	changed                 bool
}

// fit makes an image small enough to be shown. One that is passes unchanged.
func fit(data []byte) (shown, error) {
	cfg, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return shown{}, err
	}
	s := shown{data: data, mime: "image/" + format, format: format, width: cfg.Width, height: cfg.Height, shownWidth: cfg.Width, shownHeight: cfg.Height}
	if cfg.Width <= 0 || cfg.Height <= 0 {
		return shown{}, fmt.Errorf("an image of %d x %d pixels", cfg.Width, cfg.Height)
	}
	pixels := int64(cfg.Width) * int64(cfg.Height)
	if pixels > maxPixels {
		return shown{}, guest.Fail(guest.TooLarge, fmt.Sprintf("the image has %d x %d pixels; at most %d in all are decoded", cfg.Width, cfg.Height, maxPixels)).
			WithNext("scale it with a program, then open that").With(guest.F("width", cfg.Width), guest.F("height", cfg.Height))
	}
	if need := pixels*perPixel(data, format, cfg.ColorModel) + 2*int64(len(data)); need > decodeBytes {
		return shown{}, guest.Fail(guest.TooLarge, fmt.Sprintf("decoding the image of %d x %d pixels takes %d MiB; at most %d are given", cfg.Width, cfg.Height, need>>20, decodeBytes>>20)).
			WithNext("scale it with a program, then open that").With(guest.F("width", cfg.Width), guest.F("height", cfg.Height))
	}
	src, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return shown{}, err
	}
	if len(data) <= maxImage && max(cfg.Width, cfg.Height) <= maxSide {
		return s, nil
	}
	s.changed = true
	for side := maxSide; ; side = side * 3 / 4 {
		small := scale(src, side)
		s.shownWidth, s.shownHeight = small.Bounds().Dx(), small.Bounds().Dy()
		if s.data, s.mime, err = encode(small); err != nil {
			return shown{}, err
		}
		if len(s.data) <= maxImage {
			return s, nil
		}
	}
}

// perPixel is how many bytes a pixel takes while the image is decoded.
func perPixel(data []byte, format string, m color.Model) int64 {
	switch format {
	case "png":
		n := int64(4)
		switch m {
		case color.RGBA64Model, color.NRGBA64Model:
			n = 8
		case color.GrayModel:
			n = 1
		case color.Gray16Model:
			n = 2
		default:
			if _, ok := m.(color.Palette); ok {
				n = 1
			}
		}
		if len(data) > 28 && data[28] != 0 {
			n *= 2 // interlaced: the passes are images of their own
		}
		return n
	case "jpeg":
		if progressive(data) {
			return 3 + 3*4 // the coefficients are kept until the end
		}
		return 4
	case "gif":
		return 1
	}
	return 8
}

// progressive reports whether a JPEG file's first frame is sent in passes.
func progressive(p []byte) bool {
	for i := 2; i+4 <= len(p) && p[i] == 0xff; {
		switch m := p[i+1]; {
		case m == 0xff:
			i++
			continue
		case m == 0xc2:
			return true
		case m == 0xc0 || m == 0xc1 || m == 0xda:
			return false
		}
		i += 2 + (int(p[i+2])<<8 | int(p[i+3]))
	}
	return true // it does not say, so the worst is assumed
}

// scale makes an image of at most side pixels a side. It goes over it in strips:
// the scaler keeps four floats for each pixel of the strip's height.
func scale(src image.Image, side int) *image.RGBA {
	b := src.Bounds()
	w, h := b.Dx(), b.Dy()
	if long := max(w, h); long > side {
		w, h = max(1, w*side/long), max(1, h*side/long)
	}
	dst := image.NewRGBA(image.Rect(0, 0, w, h))
	rows := max(1, stripBytes/(32*w)*h/b.Dy())
	for y := 0; y < h; y += rows {
		end := min(y+rows, h)
		from := image.Rect(b.Min.X, b.Min.Y+y*b.Dy()/h, b.Max.X, b.Min.Y+end*b.Dy()/h)
		draw.BiLinear.Scale(dst, image.Rect(0, y, w, end), src, from, draw.Src, nil)
	}
	return dst
}

func encode(m *image.RGBA) (data []byte, mime string, err error) {
	var out bytes.Buffer
	if !m.Opaque() {
		if err := png.Encode(&out, m); err != nil || out.Len() <= maxImage {
			return out.Bytes(), "image/png", err
		}
		out.Reset()
		white := image.NewRGBA(m.Bounds())
		draw.Draw(white, white.Bounds(), image.White, image.Point{}, draw.Src)
		draw.Draw(white, white.Bounds(), m, m.Bounds().Min, draw.Over)
		m = white
	}
	err = jpeg.Encode(&out, m, &jpeg.Options{Quality: 85})
	return out.Bytes(), "image/jpeg", err
}
