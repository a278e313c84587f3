package guesttest

// The JSON that the real host answers with and is asked with, field by field;
// a test compares these with the host's own types. They are not shared, so that
// an author's tests need nothing beyond the standard library.

type Info struct {
	Path    string `json:"path"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Size    int64  `json:"size"`
	MTime   int64  `json:"mtime"`
	Mode    uint32 `json:"mode"`
	Links   uint64 `json:"nlink,omitempty"`
	Target  string `json:"target,omitempty"`
	Outside bool   `json:"outside,omitempty"`
	Ignored bool   `json:"ignored,omitempty"`
	Secret  string `json:"secret,omitempty"`
	Escaped bool   `json:"escaped,omitempty"`
}

type Skipped struct {
	Ignored    int64 `json:"ignored,omitempty"`
	Unreadable int64 `json:"unreadable,omitempty"`
	OtherFS    int64 `json:"other_fs,omitempty"`
	TooLarge   int64 `json:"too_large,omitempty"`
	Binary     int64 `json:"binary,omitempty"`
	Denied     int64 `json:"denied,omitempty"`
	Protected  int64 `json:"protected,omitempty"`
}

type ListOptions struct {
	MaxResults int    `json:"max_results,omitempty"`
	Cursor     string `json:"cursor,omitempty"`
}

type Page struct {
	Entries   []Info  `json:"entries"`
	Total     int     `json:"total"`
	Truncated bool    `json:"truncated,omitempty"`
	Next      string  `json:"next,omitempty"`
	Skipped   Skipped `json:"skipped,omitzero"`
}

type Edit struct {
	Old string `json:"old"`
	New string `json:"new"`
	All bool   `json:"all,omitempty"`
}

type Change struct {
	Path         string      `json:"path"`
	From         string      `json:"from,omitempty"`
	Created      bool        `json:"created,omitempty"`
	Bytes        int64       `json:"bytes"`
	SHA256       string      `json:"sha256,omitempty"`
	Replacements int         `json:"replacements,omitempty"`
	Lines        []LineRange `json:"lines,omitempty"`
	Removed      int         `json:"removed,omitempty"`
	Encoding     string      `json:"encoding,omitempty"`
	CRLF         bool        `json:"crlf,omitempty"`
}

type LineRange struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Request and Response are those of the search function.
type Request struct {
	Kind       string `json:"kind"`
	Pattern    string `json:"pattern,omitempty"`
	Path       string `json:"path,omitempty"`
	Glob       string `json:"glob,omitempty"`
	Mode       string `json:"mode,omitempty"`
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Literal    bool   `json:"literal,omitempty"`
	Multiline  bool   `json:"multiline,omitempty"`
	Context    int    `json:"context,omitempty"`
	Limit      int    `json:"limit,omitempty"`
	Offset     int    `json:"offset,omitempty"`
	Query      string `json:"query,omitempty"`
	MaxResults int    `json:"max_results,omitempty"`
	Cursor     string `json:"cursor,omitempty"`
}

type Response struct {
	Files      []FileHit `json:"files,omitempty"`
	Lines      []Line    `json:"lines,omitempty"`
	Entries    []Info    `json:"entries,omitempty"`
	Total      int       `json:"total"`
	TotalFiles int       `json:"total_files,omitempty"`
	AtLeast    bool      `json:"at_least,omitempty"`
	Ended      string    `json:"ended,omitempty"`
	NextOffset int       `json:"next_offset,omitempty"`
	Next       string    `json:"next,omitempty"`
	Scanned    int       `json:"scanned"`
	Skipped    Skipped   `json:"skipped,omitzero"`
}

type FileHit struct {
	Path    string `json:"path"`
	Escaped bool   `json:"escaped,omitempty"`
	MTime   int64  `json:"mtime"`
	Count   int    `json:"count,omitempty"`
	Binary  bool   `json:"binary,omitempty"`
}

type Line struct {
	Path    string `json:"path"`
	Escaped bool   `json:"escaped,omitempty"`
	Line    int    `json:"line"`
	Text    string `json:"text"`
	Cut     bool   `json:"cut,omitempty"`
	Unseen  bool   `json:"unseen,omitempty"`
	Context bool   `json:"context,omitempty"`
	Gap     bool   `json:"gap,omitempty"`
}
