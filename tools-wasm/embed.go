// Package toolswasm holds the built-in modules as they were built from the
// folders below it. The bytes are what is run; `go generate ./tools-wasm`
// rebuilds them, and a test of internal/guestbuild compares the two wherever
// the pinned toolchain is at hand.
package toolswasm

import (
	_ "embed"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

//go:generate go run ./gen

//go:embed core.wasm
var core []byte

// Core returns the module of the text tools (read_discover, read_open, grep,
// write_file, replace_block, delete_path, move_path). The caller must not
// change the bytes.
func Core() []byte { return core }

//go:embed media.wasm
var media []byte

// Media returns the module that shows images, PDF documents and notebooks
// (read_media). The caller must not change the bytes.
func Media() []byte { return media }

//go:embed media.wasm.sha256
var mediaDigest string

// MediaDigest is the digest of [Media].
func MediaDigest() tool.Digest { return tool.Digest(strings.TrimSpace(mediaDigest)) }

//go:embed core.wasm.sha256
var coreDigest string

// CoreDigest is the digest of [Core], so that no start has to compute it.
func CoreDigest() tool.Digest { return tool.Digest(strings.TrimSpace(coreDigest)) }
