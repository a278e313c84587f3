// Package embedhttp gets vectors from a server with OpenAI's interface for
// embeddings: a service, or a program on this machine. It is an option of package
// rank's Hybrid; nothing needs it.
package embedhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options say where and what to ask.
type Options struct {
	URL   string                 // up to and without /embeddings, such as http://127.0.0.1:8080/v1
	Model string                 // its name there
	Key   func() (string, error) // sent as a bearer token; nil sends none

	Client *http.Client // nil: one that follows no redirect to elsewhere
}

// Client asks one server. It is safe for concurrent use.
type Client struct {
	o Options
}

// maxAnswer bounds an answer: 64 vectors of 8,192 numbers as text.
const maxAnswer = 16 << 20

// New makes a client. An address that is none, or that others can read on the way,
// is an error.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	local := err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return nil, errors.New("embedhttp: the address is https, or http to this machine, and holds no key")
	}
	if o.Model == "" {
		return nil, errors.New("embedhttp: no model is named")
	}
	if o.Client == nil {
		o.Client = &http.Client{
			Timeout: 2 * time.Minute, // the callers' contexts are shorter
			CheckRedirect: func(r *http.Request, via []*http.Request) error {
				if r.URL.Host != u.Host || r.URL.Scheme != u.Scheme || len(via) > 3 {
					return errors.New("it redirects to somewhere else")
				}
				return nil
			},
		}
	}
	o.URL = strings.TrimSuffix(o.URL, "/") + "/embeddings"
	return &Client{o}, nil
}

// Embed implements catalog.Embedder.
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	body, err := json.Marshal(map[string]any{"model": c.o.Model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.o.Key != nil {
		key, err := c.o.Key()
		if err != nil {
			return nil, fmt.Errorf("its key cannot be had: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := c.o.Client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers HTTP status %d", resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxAnswer {
		return nil, fmt.Errorf("its answer has more than %d MiB", maxAnswer>>20)
	}
	var a struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, errors.New("its answer cannot be read")
	}
	out := make([][]float32, len(texts))
	for _, d := range a.Data {
		if d.Index < 0 || d.Index >= len(out) || out[d.Index] != nil || len(d.Embedding) == 0 {
			return nil, errors.New("its answer is for other texts")
		}
		out[d.Index] = d.Embedding
	}
	for _, v := range out {
		if v == nil {
			return nil, errors.New("its answer lacks vectors")
		}
	}
	return out, nil
}
