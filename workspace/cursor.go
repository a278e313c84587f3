package workspace

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// maxCursor is the longest cursor that a page gives: a path and some numbers.
const maxCursor = 8 << 10

// cursorSum is how many bytes of a digest a cursor begins with. It keeps out what
// was invented, cut, or given by a page of another listing; nobody gains by
// forging one, since a cursor grants nothing.
const cursorSum = 6

// SealCursor gives the place where a page ended in the form in which a request
// brings it back. About names the listing: what must be the same for the next
// page to be one of it.
func SealCursor(place string, about ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(sumOf(place, about) + place))
}

// OpenCursor gives the place in a cursor of the listing that about names, "" for
// no cursor. Anything else is an error about the request.
func OpenCursor(cursor string, about ...string) (place string, err error) {
	if cursor == "" {
		return "", nil
	}
	if len(cursor) <= maxCursor {
		b, err := base64.RawURLEncoding.DecodeString(cursor)
		if err == nil && len(b) > cursorSum && string(b[:cursorSum]) == sumOf(string(b[cursorSum:]), about) {
			return string(b[cursorSum:]), nil
		}
	}
	return "", tool.Errorf(tool.InvalidArguments, "the cursor is not one that a page of this listing gave").
		WithNext("start again without cursor; then pass next of each page unchanged, with the other arguments as they were")
}

func sumOf(place string, about []string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{place}, about...), "\x00")))
	return string(sum[:cursorSum])
}
