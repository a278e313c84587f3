package wasmtools_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/tool"
)

// pdfOf makes a document of these objects, of which the first is the catalog.
func pdfOf(objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	var at []int
	for i, o := range objects {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, xref)
	return b.Bytes()
}

// pdfPages makes a document whose pages say these texts.
func pdfPages(texts ...string) []byte {
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"}
	var kids []string
	for _, s := range texts {
		n := len(objects) + 1
		kids = append(kids, fmt.Sprintf("%d 0 R", n))
		stream := "BT /F1 12 Tf 72 720 Td (" + s + ") Tj ET"
		objects = append(objects,
			fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", n+1),
			fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(stream), stream))
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(kids))
	return pdfOf(objects...)
}

func deflated(p []byte) string {
	var b bytes.Buffer
	w, _ := zlib.NewWriterLevel(&b, zlib.BestCompression)
	w.Write(p)
	w.Close()
	return b.String()
}

func pngOf(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// claiming is a PNG file whose header claims a size.
func claiming(t testing.TB, width, height uint32, depth, kind byte) []byte {
	p := pngOf(t, image.NewGray(image.Rect(0, 0, 1, 1)))
	binary.BigEndian.PutUint32(p[16:], width)
	binary.BigEndian.PutUint32(p[20:], height)
	p[24], p[25] = depth, kind
	binary.BigEndian.PutUint32(p[29:], crc32.ChecksumIEEE(p[12:29]))
	return p
}

func blank(w, h int) *image.Paletted {
	return image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.White, color.Black})
}

// TestMedia opens what core refuses, each in the sandbox: the good, the large,
// and files made to break whoever parses them.
func TestMedia(t *testing.T) {
	dir := t.TempDir()
	turn := shelf{space: wasmtools.Workspace{Dir: dir}}.open(t)
	put := func(name string, p []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), p, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	encoded := func(encode func(b *bytes.Buffer) error) []byte {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	small := pngOf(t, blank(3, 2))
	put("small.png", small)
	put("wide.png", pngOf(t, blank(8000, 100)))
	put("clear.png", pngOf(t, image.NewNRGBA(image.Rect(0, 0, 2400, 1200))))
	put("a.jpg", encoded(func(b *bytes.Buffer) error { return jpeg.Encode(b, image.NewGray(image.Rect(0, 0, 4000, 20)), nil) }))
	put("a.gif", encoded(func(b *bytes.Buffer) error { return gif.Encode(b, blank(5, 5), nil) }))
	put("large.png", pngOf(t, image.NewGray(image.Rect(0, 0, 5_000, 5_000))))
	put("cut.png", small[:len(small)-20])

	put("claims.png", claiming(t, 50_000, 50_000, 8, 0))
	put("control.png", claiming(t, 500, 500, 8, 0))
	put("deep.png", claiming(t, 9_000, 9_000, 16, 6))
	put("claims.gif", append([]byte("GIF89a\xff\xff\xff\xff\x80\x00\x00"), make([]byte, 64)...))
	put("claims.jpg", []byte("\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xc0\x00\x0b\x08\xff\xdc\xff\xdc\x01\x01\x11\x00\xff\xd9"))
	put("claims.webp", []byte("RIFF\x1e\x00\x00\x00WEBPVP8L\x11\x00\x00\x00\x2f\xff\xff\xff\x0f\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))

	fig := base64.StdEncoding.EncodeToString(small)
	put("n.ipynb", []byte(`{"nbformat":4,"metadata":{"language_info":{"name":"python"}},"cells":[
		{"cell_type":"markdown","source":["# Title\n","text"]},
		{"cell_type":"code","execution_count":7,"source":"plot()","outputs":[
			{"output_type":"stream","text":["\u001b[31mred\u001b[0m\n"]},{"output_type":"display_data","data":{"image/png":"`+fig+`","text/plain":"<Figure>"}},
			{"output_type":"error","traceback":["Traceback"]}]},
		{"cell_type":"code","source":[],"outputs":[{"output_type":"display_data","data":{"image/png":"`+base64.StdEncoding.EncodeToString(claiming(t, 50_000, 50_000, 8, 0))+`"}}]}]}`))
	put("deep.ipynb", []byte(strings.Repeat(`{"cells":[`, 200_000)))
	put("other.ipynb", []byte(`{"cells":7}`))
	var long strings.Builder
	for i := range 100 {
		fmt.Fprintf(&long, `,{"cell_type":"raw","source":"cell number %d %s"}`, i+1, strings.Repeat("x", 900))
	}
	put("long.ipynb", []byte(`{"cells":[`+long.String()[1:]+`]}`))

	texts := make([]string, 30)
	for i := range texts {
		texts[i] = fmt.Sprintf("words of page %d", i+1)
	}
	put("a.pdf", pdfPages(texts...))
	put("cut.pdf", pdfPages("x")[:60])
	put("cycle.pdf", pdfOf("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 1000000 >>"))
	put("wide.pdf", pdfOf("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids ["+strings.Repeat("3 0 R ", 1000)+"] >>", "<< /Type /Pages /Kids ["+strings.Repeat("4 0 R ", 1000)+"] >>", "<< /Type /Page >>"))
	put("parent.pdf", pdfOf("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", "<< /Type /Page /Parent 3 0 R /Contents 3 0 R /Resources 3 0 R >>"))
	put("length.pdf", pdfOf("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", "<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>",
		"<< /Length 4 0 R >>\nstream\nx\nendstream"))
	put("nest.pdf", pdfOf("<< /Type /Catalog /Pages "+strings.Repeat("[", 3_000_000)+" >>"))
	bomb := deflated(make([]byte, 64<<20))
	put("bomb.pdf", pdfOf("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << >> >>",
		fmt.Sprintf("<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream", len(bomb), bomb)))
	put("b.zip", []byte("PK\x03\x04 and more"))

	for _, c := range []struct {
		path, more string
		text       string // a part of what is said
		images     int
		code       tool.Code // "any": an error with any code that a guest or the host gives
	}{
		{path: "small.png", text: "[png image of 3 x 2 pixels", images: 1},
		{path: "wide.png", text: "of 8000 x 100 pixels, ", images: 1},
		{path: "clear.png", text: "shown at 2000 x 1000 as png", images: 1},
		{path: "a.jpg", text: "shown at 2000 x 10 as jpeg", images: 1},
		{path: "a.gif", text: "[gif image of 5 x 5 pixels", images: 1},
		{path: "large.png", text: "shown at 2000 x 2000 as jpeg", images: 1},
		{path: "small.png", more: `,"selection":{"lines":{"start":1}}`, code: tool.InvalidArguments},
		{path: "cut.png", code: tool.Encoding},
		{path: "claims.png", code: tool.TooLarge, text: "50000 x 50000"},
		{path: "control.png", code: tool.Encoding},
		{path: "deep.png", code: tool.TooLarge, text: "MiB"},
		{path: "claims.gif", code: tool.TooLarge},
		{path: "claims.jpg", code: tool.TooLarge},
		{path: "claims.webp", code: tool.TooLarge},

		{path: "n.ipynb", text: "[cell 1, markdown]\n# Title\ntext\n[cell 2, code, run 7]\nplot()\n[output]\nred\n[output]\n<Figure>\n[output]\nTraceback\n", images: 1},
		{path: "n.ipynb", text: "cannot be shown: too_large", images: 1},
		{path: "n.ipynb", more: `,"selection":{"pages":{"start":2,"end":2}}`, text: "[notebook, python, cells 2-2 of 3]", images: 1},
		{path: "n.ipynb", more: `,"selection":{"pages":{"start":4}}`, code: tool.InvalidArguments, text: "3 cells"},
		{path: "n.ipynb", more: `,"selection":{"lines":{"start":2,"end":2}}`, text: "2\t\t\t{\"cell_type\":\"markdown\""},
		{path: "long.ipynb", text: `; next: {"pages":{"start":2`},
		{path: "deep.ipynb", code: tool.Encoding},
		{path: "other.ipynb", code: tool.Encoding},

		{path: "a.pdf", text: "[page 1]\nwords of page 1\n[page 2]\nwords of page 2\n"},
		{path: "a.pdf", text: `[PDF document, pages 1-20 of 30; next: {"pages":{"start":21}}]`},
		{path: "a.pdf", more: `,"selection":{"pages":{"start":30}}`, text: "[page 30]\nwords of page 30\n[PDF document, pages 30-30 of 30]"},
		{path: "a.pdf", more: `,"selection":{"pages":{"start":31}}`, code: tool.InvalidArguments, text: "30 pages"},
		{path: "a.pdf", more: `,"selection":{"lines":{"start":1}}`, code: tool.InvalidArguments},
		{path: "cut.pdf", code: tool.Encoding},
		{path: "cycle.pdf", code: tool.Encoding, text: "hangs in itself"},
		{path: "wide.pdf", code: tool.Encoding, text: "hangs in itself"},
		{path: "parent.pdf", text: "(this page is its own parent)"},
		{path: "length.pdf", code: "any"},
		{path: "nest.pdf", code: "any"},
		{path: "bomb.pdf", code: "any"},
		{path: "b.zip", code: tool.Encoding, text: "ZIP"},

		// After all of them, others are as they were.
		{path: "small.png", text: "[png image of 3 x 2 pixels", images: 1},
	} {
		r := openAt(t, turn, c.path, c.more)
		images := 0
		for _, b := range r.Content {
			if b.Kind == tool.KindImage {
				images++
				if _, _, err := image.DecodeConfig(bytes.NewReader(b.Data)); err != nil || len(b.Data) > 3_375_000 {
					t.Errorf("%s: an image of %d bytes: %v", c.path, len(b.Data), err)
				}
			}
		}
		switch {
		case c.code == "any":
			t.Logf("%s: error %v, code %q: %.200s", c.path, r.IsError, r.Code, r.PlainText())
			if len(r.PlainText()) > 30<<10 || r.IsError && r.Code == tool.Internal {
				t.Errorf("%s: %q: %.300s", c.path, r.Code, r.PlainText())
			}
		case r.Code != c.code || images != c.images || !strings.Contains(r.PlainText(), c.text):
			t.Errorf("%s%s: code %q, %d images: %.1000s; want %q, %d images, %q", c.path, c.more, r.Code, images, r.PlainText(), c.code, c.images, c.text)
		}
	}
}
