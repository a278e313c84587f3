package server

import (
	"fmt"
	"strconv"

	"github.com/wasmtools/wasmtools/tool"
)

// maxDescription is how many bytes of a description a client is sent. Claude
// Code cuts at 2,048 and says nothing; ours is cut below that, visibly.
const maxDescription = 1500

// listTTL is for how long a client may keep the list, in milliseconds. A list
// that can change is also announced, so this only bounds clients that do not
// listen.
const listTTL = 60_000

// A listing is what tools/list answers, encoded once and kept until the catalog
// changes. It is never modified.
type listing struct {
	names map[string]bool
	tools []byte // the JSON array
}

// newListing encodes defs in their order. A definition that cannot be shown is
// left out, and notice says why.
func newListing(defs []tool.Definition, notice func(format string, args ...any)) *listing {
	l := &listing{names: make(map[string]bool, len(defs)), tools: []byte{'['}}
	for i := range defs {
		d := &defs[i]
		if l.names[d.Name] {
			notice("tool %q is left out of the list: another tool has its name", d.Name)
			continue
		}
		entry, err := appendTool(nil, d)
		if err != nil {
			notice("tool %q is left out of the list: %v", d.Name, err)
			continue
		}
		if len(l.names) > 0 {
			l.tools = append(l.tools, ',')
		}
		l.names[d.Name] = true
		l.tools = append(l.tools, entry...)
	}
	l.tools = append(l.tools, ']')
	return l
}

// appendTool appends one entry of the list.
func appendTool(dst []byte, d *tool.Definition) ([]byte, error) {
	if !tool.ValidName(d.Name) {
		return nil, fmt.Errorf("its name does not match %s", tool.NamePattern)
	}
	dst = append(dst, `{"name":`...)
	dst = appendString(dst, d.Name)
	if d.Title != "" {
		dst = append(dst, `,"title":`...)
		dst = appendString(dst, d.Title)
	}
	dst = append(dst, `,"description":`...)
	dst = appendString(dst, shorten(d.Description, maxDescription))
	var ok bool
	dst = append(dst, `,"inputSchema":`...)
	if dst, ok = appendJSON(dst, d.Input); !ok {
		return nil, fmt.Errorf("its input schema is not a JSON object")
	}
	if d.Output != nil {
		dst = append(dst, `,"outputSchema":`...)
		if dst, ok = appendJSON(dst, d.Output); !ok {
			return nil, fmt.Errorf("its output schema is not a JSON object")
		}
	}
	h := hintsOf(d.Effects)
	dst = append(dst, `,"annotations":{"readOnlyHint":`...)
	dst = strconv.AppendBool(dst, h.readOnly)
	dst = append(dst, `,"destructiveHint":`...)
	dst = strconv.AppendBool(dst, h.destructive)
	dst = append(dst, `,"idempotentHint":`...)
	dst = strconv.AppendBool(dst, h.idempotent)
	dst = append(dst, `,"openWorldHint":`...)
	dst = strconv.AppendBool(dst, h.openWorld)
	return append(dst, "}}"...), nil
}

// hints are MCP's annotations. All four are always sent, because the protocol's
// defaults assume the worst and some clients refuse tools that leave one out.
type hints struct{ readOnly, destructive, idempotent, openWorld bool }

// hintsOf derives the hints from what the host knows a tool can do; nothing a
// module says about itself enters. In doubt the hint is the alarming one: a
// write may replace what was there, a program may do anything, a network call
// may change something elsewhere.
func hintsOf(e tool.Effects) hints {
	harmless := !e.Any(tool.Writes | tool.Destroys | tool.Executes | tool.UsesNetwork)
	return hints{
		readOnly:    harmless,
		destructive: e.Any(tool.Writes | tool.Destroys | tool.Executes),
		idempotent:  harmless,
		openWorld:   e.Any(tool.UsesNetwork | tool.Executes),
	}
}

// shorten cuts s to at most n bytes, at the end of a character, and says so.
func shorten(s string, n int) string {
	const mark = " [cut]"
	if len(s) <= n {
		return s
	}
	at := n - len(mark)
	for at > 0 && s[at]&0xc0 == 0x80 {
		at--
	}
	return s[:at] + mark
}
