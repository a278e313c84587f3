package server

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/budget"
	"github.com/wasmtools/wasmtools/tool"
)

// Ceiling is how much of one result clients take: Claude Code cuts a text that
// has more without a word.
func Ceiling() budget.Gate { return budget.Gate{Text: 40_000, Structured: 32 << 10} }

// Shelf is an optional part of a Backend whose results link to artifacts. They
// are then resources: resources/read gives one of them page by page, and
// resources/list none, since a handle is told only where it came to be.
type Shelf interface {
	// OpenArtifact opens the artifact of this handle, if this client may read it:
	// it is not_found if not, lost if its content is gone. It is closed soon.
	OpenArtifact(handle string) (*artifact.File, error)
}

// Bytes of one page of an artifact.
const (
	pageBytes    = 24 << 10 // where the client does not say
	maxPageBytes = 64 << 10
)

// Members of what is said of a page in _meta.
const (
	metaOffset = "wasmtools/offset" // of its first byte
	metaSize   = "wasmtools/size"   // bytes of the artifact
	metaNext   = "wasmtools/next"   // the URI of the next page; absent with the last
)

// addShelf makes the artifacts of shelf readable.
func (s *Server) addShelf(shelf Shelf) {
	s.sdk.AddResourceTemplate(&mcpsdk.ResourceTemplate{
		Name: "artifact", URITemplate: budget.Scheme + "{+part}",
		Description: "Output that was too long to be shown. Results link to it as artifact:HANDLE; artifact:HANDLE?offset=N&length=N is the part from byte N, of at most " + strconv.Itoa(maxPageBytes) + " bytes.",
	}, func(ctx context.Context, req *mcpsdk.ReadResourceRequest) (*mcpsdk.ReadResourceResult, error) {
		return s.readResource(ctx, shelf, req.Params.URI)
	})
}

// readResource gives one page of an artifact.
func (s *Server) readResource(ctx context.Context, shelf Shelf, uri string) (_ *mcpsdk.ReadResourceResult, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.notice("reading a resource panicked: %v", v)
			err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the runtime failed while it read this resource"}
		}
	}()
	handle, offset, length, err := parseArtifact(uri)
	if err != nil {
		return nil, err
	}
	select { // what was not read before is verified first, which takes a while
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f, err := shelf.OpenArtifact(handle)
	switch tool.CodeOf(err) {
	case "":
	case tool.NotFound:
		return nil, mcpsdk.ResourceNotFoundError(uri)
	default:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: tool.AsError(err).Error()}
	}
	defer f.Close()
	if offset >= f.Size() && offset > 0 {
		return nil, invalidParams(fmt.Sprintf("offset %d is past the end: the artifact has %d bytes", offset, f.Size()))
	}
	page := make([]byte, min(length, f.Size()-offset))
	if _, err := f.ReadAt(page, offset); err != nil && err != io.EOF {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the artifact cannot be read"}
	}
	if offset+int64(len(page)) < f.Size() {
		page = wholeCharacters(page)
	}
	end := offset + int64(len(page))
	c := &mcpsdk.ResourceContents{URI: uri, MIMEType: f.MIMEType, Meta: mcpsdk.Meta{metaOffset: offset, metaSize: f.Size()}}
	if utf8.Valid(page) {
		c.Text = string(page)
	} else {
		c.Blob, c.MIMEType = page, "application/octet-stream"
	}
	res := &mcpsdk.ReadResourceResult{Contents: []*mcpsdk.ResourceContents{c}}
	if end < f.Size() {
		next := fmt.Sprintf("%s%s?offset=%d", budget.Scheme, handle, end)
		c.Meta[metaNext] = next
		// Clients show contents, and drop what stands in _meta.
		res.Contents = append(res.Contents, &mcpsdk.ResourceContents{URI: next, MIMEType: "text/plain",
			Text: fmt.Sprintf("[bytes %d-%d of %d; the next page is %s]", offset, end-1, f.Size(), next)})
	}
	return res, nil
}

// wholeCharacters is p without the beginning of a character at its end, if
// anything is then left.
func wholeCharacters(p []byte) []byte {
	for back := 1; back < utf8.UTFMax && back < len(p); back++ {
		if at := len(p) - back; utf8.RuneStart(p[at]) {
			if !utf8.FullRune(p[at:]) {
				return p[:at]
			}
			break
		}
	}
	return p
}

// parseArtifact takes artifact:HANDLE?offset=N&length=N apart.
func parseArtifact(uri string) (handle string, offset, length int64, err error) {
	rest, ok := strings.CutPrefix(uri, budget.Scheme)
	handle, query, _ := strings.Cut(rest, "?")
	if !ok || !artifact.ValidHandle(handle) {
		return "", 0, 0, mcpsdk.ResourceNotFoundError(clip(uri, 128))
	}
	length = pageBytes
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", 0, 0, invalidParams("the query of the URI cannot be read")
	}
	for name, list := range values {
		n, err := strconv.ParseInt(list[0], 10, 64)
		switch {
		case name != "offset" && name != "length":
			return "", 0, 0, invalidParams("the URI of an artifact takes offset and length")
		case len(list) != 1 || err != nil || n < 0:
			return "", 0, 0, invalidParams(name + " must be one number of bytes")
		case name == "offset":
			offset = n
		case n > 0:
			length = min(n, maxPageBytes)
		default:
			return "", 0, 0, invalidParams("length must be at least 1")
		}
	}
	return handle, offset, length, nil
}
