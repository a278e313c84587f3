package catalog

import "context"

// Embedder turns texts into vectors, of which those of like meaning point in like
// directions. It may be slow and may fail; it is safe for concurrent use.
type Embedder interface {
	// Embed gives one vector a text, in their order, all of one length.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}
