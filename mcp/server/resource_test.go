package server

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/tool"
)

// TestPagesReachEveryByte: pages that name each other give the artifact, whole
// characters each where it is text, and its bytes where it is not.
func TestPagesReachEveryByte(t *testing.T) {
	f := newFake()
	f.store = artifact.Open(filepath.Join(t.TempDir(), "store"), artifact.Options{})
	defer f.store.Close()
	s := New(f, Options{})
	for name, whole := range map[string]string{
		"text": strings.Repeat("世界 é🙂\n", 10_000), "one line": strings.Repeat("x", 200_000),
		"bytes": strings.Repeat("é\xff", 40_000), "halves": strings.Repeat("\xf0\x9f", 30_000), "short": "é",
	} {
		ref, err := f.store.Put(artifact.Scope{Session: "s"}, tool.ArtifactInfo{MIMEType: "text/plain"}, strings.NewReader(whole))
		if err != nil {
			t.Fatal(err)
		}
		for _, length := range []string{"", "1", "7", "1000000"} {
			content := whole
			if length == "7" || length == "1" {
				content = content[:min(len(content), 40)] // many small pages tell no more
			}
			uri, got, pages := "artifact:"+ref.Handle, []byte(nil), 0
			for uri != "" && len(got) < len(content) {
				if pages++; pages > 100 {
					t.Fatalf("%s by %q: no end", name, length)
				}
				sep := "?"
				if strings.Contains(uri, "?") {
					sep = "&"
				}
				if length != "" {
					uri += sep + "length=" + length
				}
				r, err := s.readResource(context.Background(), f, uri)
				if err != nil {
					t.Fatalf("%s: %s: %v", name, uri, err)
				}
				c := r.Contents[0]
				if c.Meta[metaOffset] != int64(len(got)) || c.Meta[metaSize] != ref.Bytes || c.Text != "" && !utf8.ValidString(c.Text) || len(c.Text)+len(c.Blob) > maxPageBytes {
					t.Fatalf("%s: %s gives %d bytes, %v", name, uri, len(c.Text)+len(c.Blob), c.Meta)
				}
				got = append(append(got, c.Text...), c.Blob...)
				uri, _ = c.Meta[metaNext].(string)
				if (uri != "") != (len(r.Contents) == 2) || uri != "" && !strings.Contains(r.Contents[1].Text, uri) {
					t.Errorf("%s: the next page is %q, and the contents say %+v", name, uri, r.Contents[len(r.Contents)-1])
				}
			}
			if !bytes.HasPrefix(got, []byte(content)) {
				t.Errorf("%s by %q: %d bytes were read, not those of the artifact", name, length, len(got))
			}
		}
	}
}

// TestResourcesOfARuntime: what a result links to is read by its client, and by
// no other. A backend without artifacts has no resources.
func TestResourcesOfARuntime(t *testing.T) {
	b, _ := workspace(t)
	other, _ := workspace(t)
	s := New(b, Options{})
	handle := strings.Repeat("b", 26)
	if _, err := s.readResource(t.Context(), b, "artifact:"+handle); err == nil {
		t.Error("a guess is read")
	}
	if _, err := New(other, Options{}).readResource(t.Context(), panicking{}, "artifact:"+handle); err == nil || !strings.Contains(fmt.Sprint(err), "failed") {
		t.Errorf("a backend that panics: %v", err)
	}
	if _, err := s.readResource(t.Context(), lost{}, "artifact:"+handle); err == nil || !strings.Contains(fmt.Sprint(err), "was removed") {
		t.Errorf("one that is gone: %v", err)
	}
}

type panicking struct{}

func (panicking) OpenArtifact(string) (*artifact.File, error) { panic("boom") }

type lost struct{}

func (lost) OpenArtifact(string) (*artifact.File, error) {
	return nil, tool.Errorf(tool.Lost, "the artifact was removed: it made room")
}

// FuzzParseArtifact: a URI gives a handle that can be one and a part that can be
// read, or an error.
func FuzzParseArtifact(f *testing.F) {
	h := "artifact:" + strings.Repeat("a", 26)
	for _, s := range []string{h, h + "?offset=1&length=2", h + "?offset=-1", h + "?offset=99999999999999999999", h + "?length=0", "artifact:../x", "", h + "?", h + "?offset=1;length=2", h + "?%6fffset=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		handle, offset, length, err := parseArtifact(uri)
		if err == nil && (!artifact.ValidHandle(handle) || offset < 0 || length < 1 || length > maxPageBytes || !strings.HasPrefix(uri, "artifact:"+handle)) {
			t.Errorf("%q is %s, %d, %d", uri, handle, offset, length)
		}
	})
}
