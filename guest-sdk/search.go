package guest

// Query asks for one search. Fields that are zero are left out of the request,
// and the host's defaults hold.
type Query struct {
	Kind string // "grep" or "locate"

	// grep
	Pattern    string // RE2 syntax unless Literal
	Path       string // file or directory; "" = the root. Also the start of locate
	Glob       string // doublestar; comma-separated list; "!" excludes
	Mode       string // "files" (default), "content", "count"
	IgnoreCase bool
	Literal    bool
	Multiline  bool // the pattern may span lines, '.' matches line ends
	Context    int  // lines before and after, content mode
	Limit      int  // matches (content) or files; 0 = 100
	Offset     int  // matches (content) or files to leave out first

	// locate
	Query      string // glob if it holds any of *?[{, else a fuzzy name
	MaxResults int
	Cursor     string
}

// Found answers a Query.
type Found struct {
	Files      []FileHit // grep, files and count modes
	Lines      []Line    // grep, content mode
	Entries    []Info    // locate
	Total      int64     // matches (content, count), files, or names found
	TotalFiles int64
	AtLeast    bool // Total is a lower bound
	Ended      Code // with AtLeast: what ended the search, Timeout or TooLarge
	NextOffset int64
	Next       string // locate: cursor of the next page
	Scanned    int64  // files looked into
	Skipped    Skipped
}

// FileHit is one file with a match.
type FileHit struct {
	Path    string
	MTime   int64 // Unix milliseconds
	Count   int64 // count mode: matches, not lines
	Escaped bool  // as in Info
	Binary  bool  // a file that was named and holds NUL: it matches, and its lines are not shown
}

// Line is one line of output in content mode, a match or context.
type Line struct {
	Path    string
	Line    int64  // 1-based
	Text    string // without its line end
	Cut     bool   // Text is not the whole line
	Unseen  bool   // Text is how the line begins; its match is not in it
	Context bool   // not a match itself
	Gap     bool   // lines were left out before this one
	Escaped bool   // as in Info
}

// Search runs one search over the workspace.
func (c *Call) Search(q Query) (Found, error) {
	var req []Field
	text := func(key, s string) {
		if s != "" {
			req = append(req, F(key, s))
		}
	}
	num := func(key string, n int) {
		if n != 0 {
			req = append(req, F(key, n))
		}
	}
	yes := func(key string, b bool) {
		if b {
			req = append(req, F(key, true))
		}
	}
	text("kind", q.Kind)
	text("pattern", q.Pattern)
	text("path", q.Path)
	text("glob", q.Glob)
	text("mode", q.Mode)
	yes("ignore_case", q.IgnoreCase)
	yes("literal", q.Literal)
	yes("multiline", q.Multiline)
	num("context", q.Context)
	num("limit", q.Limit)
	num("offset", q.Offset)
	text("query", q.Query)
	num("max_results", q.MaxResults)
	text("cursor", q.Cursor)
	v, err := c.result(c.host.Search(Object(req...).JSON()))
	if err != nil {
		return Found{}, err
	}
	f := Found{
		Entries:    infosOf(v.Get("entries")),
		Total:      v.Get("total").IntOr(0),
		TotalFiles: v.Get("total_files").IntOr(0),
		AtLeast:    v.Get("at_least").BoolOr(false),
		Ended:      Code(v.Get("ended").TextOr("")),
		NextOffset: v.Get("next_offset").IntOr(0),
		Next:       v.Get("next").TextOr(""),
		Scanned:    v.Get("scanned").IntOr(0),
		Skipped:    skippedOf(v.Get("skipped")),
	}
	for _, h := range v.Get("files").Items() {
		f.Files = append(f.Files, FileHit{
			Path: h.Get("path").TextOr(""), MTime: h.Get("mtime").IntOr(0), Count: h.Get("count").IntOr(0),
			Escaped: h.Get("escaped").BoolOr(false), Binary: h.Get("binary").BoolOr(false),
		})
	}
	for _, l := range v.Get("lines").Items() {
		f.Lines = append(f.Lines, Line{
			Path: l.Get("path").TextOr(""), Line: l.Get("line").IntOr(0), Text: l.Get("text").TextOr(""),
			Cut: l.Get("cut").BoolOr(false), Context: l.Get("context").BoolOr(false), Gap: l.Get("gap").BoolOr(false),
			Unseen: l.Get("unseen").BoolOr(false), Escaped: l.Get("escaped").BoolOr(false),
		})
	}
	return f, nil
}
