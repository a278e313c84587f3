package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"time"
)

// Options say where a record is kept. Only Dir is needed.
type Options struct {
	// Dir is the folder of one workspace's record; see [Dir]. It and its parent
	// are made with mode 0700 at the first record.
	Dir string

	// KeyFile holds the key that vouches for the record; it is made with mode
	// 0600 at the first record. Empty means "key" beside Dir, which the records
	// of all workspaces share.
	KeyFile string

	// Workspace is the real path that the record is about, for people.
	Workspace string

	// Program is written when this process begins to write: name and version.
	Program string

	// Secrets gives values that must never be written, beside those of
	// [Intent.Secrets]. It is called at every Begin and End and must be fast and
	// safe for concurrent use. Nil means none.
	Secrets func() []string

	// SegmentBytes is the size at which a new segment is begun; 0 means 16 MiB.
	SegmentBytes int64

	// Retain is applied whenever a segment is full. The zero value keeps all.
	Retain Retention
}

// Retention says what may be forgotten, in whole segments, oldest first. A
// segment goes when either bound asks for it. The newest segment always stays.
type Retention struct {
	MaxAge   time.Duration // of the newest record in a segment; 0: any age
	MaxBytes int64         // of all segments; 0: any size
}

// Dir is the folder of the record of the workspace at realPath, below the
// folder that holds wasmtools' state.
func Dir(stateDir, realPath string) string {
	sum := sha256.Sum256([]byte(realPath))
	return filepath.Join(stateDir, "evidence", hex.EncodeToString(sum[:16]))
}
