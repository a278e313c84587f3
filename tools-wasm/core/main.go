// Command core is the module of the built-in text tools: read_discover,
// read_open, grep, write_file, replace_block, delete_path and move_path.
//
// It holds what the tools say and how they page; what they may touch is decided
// by the host, whose functions do the resolving, matching, searching and
// writing. It imports no fmt, regexp, encoding/json, embed, time or crypto:
// each would make the module a tenth to a third larger and slower to compile.
package main

import guest "github.com/wasmtools/wasmtools/guest-sdk"

// Limits of the tools. Sizes are bytes of the text as it stands in JSON, with
// the notice.
const (
	openBytes  = 24 << 10 // read_open: as much as a model reads at once with profit
	openLines  = 2000
	linePoints = 2000      // code points of one line, here and in the host's search
	grepBytes  = 16 << 10  // grep: many short lines tire a reader sooner
	diffBytes  = 8 << 10   // unified diff in the answer of an edit
	noticeRoom = 1 << 10   // kept free for the notice below a text
	scanBytes  = 256 << 20 // how far read_open counts the lines of a file
	wholeBytes = 8 << 20   // files that a section or a pasted text needs whole
	hashBytes  = 64 << 20  // files for expected_sha256; the host edits no larger ones
)

var everything = []string{"**"}

func init() {
	guest.Describe(guest.Module{
		Name: "core", Version: "1.0.0", Description: "The built-in text tools.",
		MemoryMiB: 64, OutputKiB: 1024,
	})
	guest.Add(guest.Tool{
		Name: "read_discover", Title: "List and locate files",
		Description: readDiscoverText, Input: readDiscoverSchema,
		Mode: guest.Parallel, Effects: []guest.Effect{guest.Reads}, Read: everything,
		Call: readDiscover,
	})
	guest.Add(guest.Tool{
		Name: "read_open", Title: "Open a file",
		Description: readOpenText, Input: readOpenSchema,
		Mode: guest.Parallel, Effects: []guest.Effect{guest.Reads}, Read: everything,
		Call: readOpen,
	})
	guest.Add(guest.Tool{
		Name: "grep", Title: "Search in files",
		Description: grepText, Input: grepSchema,
		Mode: guest.Parallel, Effects: []guest.Effect{guest.Reads}, Read: everything,
		Call: grep,
	})
	guest.Add(guest.Tool{
		Name: "write_file", Title: "Write a file",
		Description: writeFileText, Input: writeFileSchema,
		Mode: guest.Sequential, Effects: []guest.Effect{guest.Reads, guest.Writes, guest.Destroys},
		Read: everything, Write: everything,
		Call: writeFile,
	})
	guest.Add(guest.Tool{
		Name: "replace_block", Title: "Replace text in a file",
		Description: replaceBlockText, Input: replaceBlockSchema,
		Mode: guest.Sequential, Effects: []guest.Effect{guest.Reads, guest.Writes},
		Read: everything, Write: everything,
		Call: replaceBlock,
	})
	guest.Add(guest.Tool{
		Name: "delete_path", Title: "Delete a file or directory",
		Description: deletePathText, Input: deletePathSchema,
		Mode: guest.Sequential, Effects: []guest.Effect{guest.Reads, guest.Destroys},
		Read: everything, Write: everything,
		Call: deletePath,
	})
	guest.Add(guest.Tool{
		Name: "move_path", Title: "Move or rename",
		Description: movePathText, Input: movePathSchema,
		Mode: guest.Sequential, Effects: []guest.Effect{guest.Reads, guest.Writes, guest.Destroys},
		Read: everything, Write: everything,
		Call: movePath,
	})
}

func main() {}
