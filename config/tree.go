package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Bounds on a file, before a parser sees it.
const (
	MaxBytes = 1 << 20
	maxDepth = 16
	maxDots  = 256 // in one line
	maxLines = 50_000
)

// position is a place in the file, from 1.
type position struct{ line, column int }

// node is one value of a file with its place.
type node struct {
	at    position
	value any // what toml decodes it to, but for tables and arrays
	table *table
	array []*node
	lists bool // an array of tables, [[name]]
}

// table is a table with its keys in the order of the file.
type table struct {
	at    position
	keys  []string
	nodes map[string]*node
	keyAt map[string]position
}

func newTable(at position) *table {
	return &table{at: at, nodes: map[string]*node{}, keyAt: map[string]position{}}
}

func (t *table) put(key string, at position, n *node) {
	if _, ok := t.nodes[key]; !ok {
		t.keys = append(t.keys, key)
		t.keyAt[key] = at
	}
	t.nodes[key] = n
}

// parseTree reads TOML into a tree with positions. Whether the text is TOML at
// all is for the decoder to say; the tree is built from the same parser's
// events, so that both see the same document.
func parseTree(data []byte) (root *table, fault *Fault) {
	defer func() {
		// The parser is not ours and meets a stranger's bytes.
		if v := recover(); v != nil {
			root, fault = nil, &Fault{Line: 1, Column: 1, Text: "the file cannot be read as TOML"}
		}
	}()
	if fault := outOfBounds(data); fault != nil {
		return nil, fault
	}
	var values map[string]any
	if err := toml.Unmarshal(data, &values); err != nil {
		return nil, syntaxFault(err)
	}
	b := builder{}
	b.parser.Reset(data)
	root = newTable(position{1, 1})
	b.root, b.here, b.values = root, root, values
	for b.parser.NextExpression() {
		b.expression(b.parser.Expression())
	}
	if err := b.parser.Error(); err != nil {
		return nil, syntaxFault(err)
	}
	fill(root, values)
	return root, nil
}

func syntaxFault(err error) *Fault {
	f := &Fault{Line: 1, Column: 1, Text: clip(strings.TrimPrefix(err.Error(), "toml: "))}
	var d *toml.DecodeError
	if errors.As(err, &d) {
		f.Line, f.Column = d.Position()
	}
	return f
}

// outOfBounds refuses sizes and nesting that no configuration needs, before a
// parser recurses over them. Brackets and dots inside strings are counted too,
// which only makes it stricter.
func outOfBounds(data []byte) *Fault {
	switch {
	case len(data) > MaxBytes:
		return &Fault{Line: 1, Column: 1, Text: fmt.Sprintf("the file has %d bytes; at most %d are read", len(data), MaxBytes)}
	case !utf8.Valid(data):
		return &Fault{Line: 1, Column: 1, Text: "the file is not UTF-8"}
	}
	line, depth, dots := 1, 0, 0
	for _, c := range data {
		switch c {
		case '\n':
			line, dots = line+1, 0
			if line > maxLines {
				return &Fault{Line: line, Column: 1, Text: fmt.Sprintf("the file has more than %d lines", maxLines)}
			}
		case '.':
			if dots++; dots > maxDots {
				return &Fault{Line: line, Column: 1, Text: fmt.Sprintf("a line has more than %d dots", maxDots)}
			}
		case '[', '{':
			if depth++; depth > 4*maxDepth {
				return &Fault{Line: line, Column: 1, Text: "brackets are nested too deeply"}
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return nil
}

// builder turns the parser's events into tables.
type builder struct {
	parser unstable.Parser
	values map[string]any
	root   *table
	here   *table // where key = value lines go
}

func (b *builder) at(n *unstable.Node) position {
	if n.Raw.Length == 0 {
		return position{}
	}
	s := b.parser.Shape(n.Raw).Start
	return position{s.Line, s.Column}
}

func (b *builder) expression(e *unstable.Node) {
	switch e.Kind {
	case unstable.KeyValue:
		b.keyValue(b.here, e)
	case unstable.Table, unstable.ArrayTable:
		t := b.root
		for it := e.Key(); it.Next(); {
			k := it.Node()
			t = b.enter(t, string(k.Data), b.at(k), e.Kind == unstable.ArrayTable && it.IsLast())
		}
		b.here = t
	}
}

// enter goes into the table of this key, which is made if it is missing. Of an
// array of tables it is the last one, or a new one if the header says so.
func (b *builder) enter(t *table, key string, at position, another bool) *table {
	n := t.nodes[key]
	if n == nil {
		n = &node{at: at}
		t.put(key, at, n)
	}
	switch {
	case another:
		n.lists = true
		n.array = append(n.array, &node{at: at, table: newTable(at)})
		return n.array[len(n.array)-1].table
	case len(n.array) > 0:
		return n.array[len(n.array)-1].table
	case n.table == nil:
		n.table = newTable(at)
	}
	return n.table
}

func (b *builder) keyValue(t *table, kv *unstable.Node) {
	for it := kv.Key(); it.Next(); {
		k := it.Node()
		if it.IsLast() {
			t.put(string(k.Data), b.at(k), b.valueOf(kv.Value()))
			return
		}
		t = b.enter(t, string(k.Data), b.at(k), false)
	}
}

func (b *builder) valueOf(v *unstable.Node) *node {
	n := &node{at: b.at(v)}
	switch v.Kind {
	case unstable.Array:
		n.array = []*node{}
		for it := v.Children(); it.Next(); {
			n.array = append(n.array, b.valueOf(it.Node()))
		}
	case unstable.InlineTable:
		n.table = newTable(n.at)
		for it := v.Children(); it.Next(); {
			b.keyValue(n.table, it.Node())
		}
	}
	return n
}

// fill puts the decoded values into the tree.
func fill(t *table, values map[string]any) {
	for _, k := range t.keys {
		fillNode(t.nodes[k], values[k])
	}
}

func fillNode(n *node, v any) {
	switch v := v.(type) {
	case map[string]any:
		if n.table != nil {
			fill(n.table, v)
			return
		}
	case []any:
		for i, item := range n.array {
			if i < len(v) {
				fillNode(item, v[i])
			}
		}
		if n.array == nil {
			n.array = []*node{}
		}
		return
	}
	n.value = v
}
