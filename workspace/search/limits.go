package search

import "time"

// Limits of one search. They keep a hostile tree, pattern or request from
// taking more than seconds and some megabytes.
const (
	defaultLimit = 100    // files or matching lines of grep
	maxLimit     = 10_000 //
	maxContext   = 1_000  // lines before and after a match

	defaultResults = 50    // names of locate
	maxResults     = 1_000 // as SPEC section 2 says

	maxPattern = 8 << 10 // bytes of a pattern, query or glob list
	maxInsts   = 5_000   // instructions of a compiled pattern: the work per byte in the worst case
	maxGlobs   = 64      // of one list
	maxBraces  = 1_024   // alternatives that the braces of one glob stand for

	maxLineRunes = 2_000   // shown of one line
	maxMatches   = 200_000 // of one file, with multiline
	maxDepth     = 256     // directories below the start
	maxEntries   = 5_000_000
	maxTime      = 60 * time.Second // when the context has no deadline

	sniffed    = 64 << 10  // at the start of a file, where a NUL makes it binary; as in ripgrep
	minBuffer  = 256 << 10 // bytes read at once
	maxDecoded = 8 << 20   // of a file that is not UTF-8; as much as read_open decodes
	maxBuffer  = 4 << 20   // a longer line passes by in pieces
	maxWindow  = 1 << 20   // given to the engine at once
	maxWhole   = 16 << 20  // a larger file is not searched with multiline, which needs all of it

	// overlap is what two windows of a long line share: a longer match may be
	// cut at the window's end.
	overlap = 64 << 10

	// maxSteps is bytes times instructions of one uninterruptible call of the
	// regular expression engine: some tenths of a second.
	maxSteps = 1 << 28

	reportEvery = 250 * time.Millisecond // of progress: what a person sees as steady

	dirBatch  = 1_024 // entries read from a directory at once
	fileBatch = 32    // files that a worker takes at once
)

var utf8BOM = []byte("\xef\xbb\xbf")
