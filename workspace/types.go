package workspace

import "github.com/wasmtools/wasmtools/tool"

// Type is the kind of a file system object.
type Type string

const (
	File  Type = "file"
	Dir   Type = "dir"
	Link  Type = "link"  // a symbolic link, not followed
	Other Type = "other" // device, FIFO, socket
)

// words is the kind as a sentence has it, after "a" or "another".
func (t Type) words() string {
	switch t {
	case File, Link:
		return string(t)
	case Dir:
		return "directory"
	}
	return "device, FIFO or socket"
}

// Info describes one name. It is also the JSON that guests receive.
type Info struct {
	Path    string        `json:"path"` // canonical for stat; the listed name's path for list
	Name    string        `json:"name"`
	Type    Type          `json:"type"`
	Size    int64         `json:"size"`
	MTime   int64         `json:"mtime"`             // Unix milliseconds
	Mode    uint32        `json:"mode"`              // permission bits with setuid, setgid and sticky
	Links   uint64        `json:"nlink,omitempty"`   // number of hard links
	Target  string        `json:"target,omitempty"`  // of a link that stays inside the root
	Outside bool          `json:"outside,omitempty"` // a link that leaves the root, or another file system
	Ignored bool          `json:"ignored,omitempty"` // by a gitignore rule
	Secret  string        `json:"secret,omitempty"`  // the rule of the list of secrets that it falls under: then only Path, Name and Type are told
	Escaped bool          `json:"escaped,omitempty"` // the name is not UTF-8: its bad bytes stand as \xNN in Path and Name, which cannot be opened
	ID      tool.Identity `json:"-"`
	ctime   int64         // as in stat
}

// Skipped counts what a listing, a walk or a search left out, by reason.
type Skipped struct {
	Ignored    int64 `json:"ignored,omitempty"`
	Unreadable int64 `json:"unreadable,omitempty"`
	OtherFS    int64 `json:"other_fs,omitempty"`
	TooLarge   int64 `json:"too_large,omitempty"`
	Binary     int64 `json:"binary,omitempty"`
	Denied     int64 `json:"denied,omitempty"`
	Protected  int64 `json:"protected,omitempty"` // secrets, and the folders of wasmtools itself
}

// Refused counts a name that was left out because of err, the answer of a guard:
// a path that is protected, or one that the call was not granted.
func (s *Skipped) Refused(err error) {
	if tool.CodeOf(err) == tool.Protected {
		s.Protected++
	} else {
		s.Denied++
	}
}

// ListOptions selects a page of a directory.
type ListOptions struct {
	MaxResults int    `json:"max_results,omitempty"` // 1..1000; 0 = 200
	Cursor     string `json:"cursor,omitempty"`      // Page.Next of the page before
}

// Page is one page of a directory in name order.
type Page struct {
	Entries   []Info  `json:"entries"`
	Total     int     `json:"total"`
	Truncated bool    `json:"truncated,omitempty"`
	Next      string  `json:"next,omitempty"`
	Skipped   Skipped `json:"skipped,omitzero"`
}

// Edit replaces one literal text by another.
type Edit struct {
	Old string `json:"old"` // not empty; must occur exactly once unless All
	New string `json:"new"`
	All bool   `json:"all,omitempty"` // replace every occurrence, at least one
}

// Change says what a write, edit, removal or move did to the overlay.
type Change struct {
	Path         string      `json:"path"` // canonical
	From         string      `json:"from,omitempty"`
	Created      bool        `json:"created,omitempty"`
	Bytes        int64       `json:"bytes"`            // size after
	SHA256       string      `json:"sha256,omitempty"` // of the content after, hexadecimal
	Replacements int         `json:"replacements,omitempty"`
	Lines        []LineRange `json:"lines,omitempty"`    // of the replaced spans, in the new file
	CRLF         bool        `json:"crlf,omitempty"`     // LF in a new text became CRLF, as the lines at its place end
	Encoding     string      `json:"encoding,omitempty"` // in which text was written, for people; empty: UTF-8, or bytes
	Removed      int         `json:"removed,omitempty"`  // names removed
}

// LineRange is 1-based and inclusive.
type LineRange struct {
	Start int `json:"start"`
	End   int `json:"end"`
}
