package search

import (
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// Request asks for one search. It is also the JSON that guests send.
type Request struct {
	Kind string `json:"kind"` // "grep" or "locate"

	// grep
	Pattern    string `json:"pattern,omitempty"` // RE2 syntax unless Literal
	Path       string `json:"path,omitempty"`    // file or directory; "" = the root
	Glob       string `json:"glob,omitempty"`    // doublestar from the workspace root, without a slash the base name; list by comma or space; "!" excludes
	Mode       string `json:"mode,omitempty"`    // "files" (default), "content", "count"
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Literal    bool   `json:"literal,omitempty"`
	Multiline  bool   `json:"multiline,omitempty"` // the pattern may span lines, '.' matches line ends
	Context    int    `json:"context,omitempty"`   // lines before and after, content mode
	Limit      int    `json:"limit,omitempty"`     // matching lines (content) or files; 0 = 100, at most 10,000
	Offset     int    `json:"offset,omitempty"`    // matching lines (content) or files to leave out first

	// locate
	Query      string `json:"query,omitempty"`       // glob if it holds any of *?[{, else a fuzzy name; looked for below Path
	MaxResults int    `json:"max_results,omitempty"` // 1..1000; 0 = 50
	Cursor     string `json:"cursor,omitempty"`      // Response.Next of the page before
}

// Response answers a Request. It is also the JSON that guests receive.
type Response struct {
	Files      []FileHit         `json:"files,omitempty"`   // grep files and count modes
	Lines      []Line            `json:"lines,omitempty"`   // grep content mode
	Entries    []workspace.Info  `json:"entries,omitempty"` // locate
	Total      int               `json:"total"`             // matching lines (content), matches (count), files, or names found
	TotalFiles int               `json:"total_files,omitempty"`
	AtLeast    bool              `json:"at_least,omitempty"`    // Total is a lower bound: a limit or the deadline ended the walk
	Ended      tool.Code         `json:"ended,omitempty"`       // with AtLeast: timeout, or too_large if the tree has too many names or is too deep
	NextOffset int               `json:"next_offset,omitempty"` // grep: Offset of the next page
	Next       string            `json:"next,omitempty"`        // locate: Cursor of the next page
	Scanned    int               `json:"scanned"`               // files looked into
	Skipped    workspace.Skipped `json:"skipped,omitzero"`
}

// FileHit is one file with a match.
type FileHit struct {
	Path    string `json:"path"`
	Escaped bool   `json:"escaped,omitempty"` // the name is not UTF-8: its bad bytes stand as \xNN in Path, which cannot be opened
	MTime   int64  `json:"mtime"`             // Unix milliseconds
	Count   int    `json:"count,omitempty"`   // count mode: matches, not lines
	Binary  bool   `json:"binary,omitempty"`  // a named file that holds NUL: it matches, and its lines are not shown
}

// Line is one line of output in content mode, a match or context.
type Line struct {
	Path    string `json:"path"`
	Escaped bool   `json:"escaped,omitempty"` // as in FileHit
	Line    int    `json:"line"`              // 1-based
	Text    string `json:"text"`              // without its line end; valid UTF-8; at most 2,000 code points around the match
	Cut     bool   `json:"cut,omitempty"`     // Text is not the whole line
	Unseen  bool   `json:"unseen,omitempty"`  // Text is how the line begins; its match is not in it
	Context bool   `json:"context,omitempty"` // not a match itself
	Gap     bool   `json:"gap,omitempty"`     // lines were left out before this one
}
