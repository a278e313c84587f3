package catalog

import "encoding/json"

// Document is what a ranker sees of a tool.
type Document struct {
	Name, Title, Description string
	Input                    json.RawMessage // JSON Schema of the arguments
	Server                   string          // the upstream server's name; empty if there is none
	About                    string          // what the server says about itself
	Packs                    []string
}

// Query is what a turn is about.
type Query struct {
	Request string   // what was asked for, in plain words
	Context []string // earlier requests, the latest last
	Pack    string   // preferred; it adds and removes nothing
}

// Hit is a document that a query found.
type Hit struct {
	Document int // its index
	Score    float64
}

// Ranker orders tools by how well they fit a request. It decides what is shown
// first, never what may be called.
type Ranker interface {
	// Index prepares documents for many queries. It is called once for a registry
	// snapshot and may keep docs, which nobody modifies.
	Index(docs []Document) (Index, error)
}

// Index ranks the documents that it was made of. It is safe for concurrent use.
type Index interface {
	// Rank returns up to n hits, best first, equal scores in the order of the
	// documents. If among is not nil, only these documents count.
	Rank(q Query, among []int, n int) ([]Hit, error)
}
