package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wasmtools/wasmtools/internal/schemacost"
	"github.com/wasmtools/wasmtools/tool"
)

// localName is the name of a server's tool here: the server's, two underscores,
// the tool's. One that is too long, or has letters that no name may have, is
// changed and gets the first hexadecimal digits of its SHA-256.
func localName(server, name string) string {
	full := server + "__" + name
	if tool.ValidName(full) {
		return full
	}
	sum := sha256.Sum256([]byte(full))
	end := "_" + hex.EncodeToString(sum[:4])
	plain := strings.Map(func(r rune) rune {
		if r < 128 && tool.ValidName(string(r)) {
			return r
		}
		return '_'
	}, full)
	return plain[:min(len(plain), 64-len(end))] + end
}

// Bounds on a definition.
const (
	maxSchema      = 64 << 10
	maxDescription = 4 << 10
	maxNameBytes   = 256
)

// faultOf says why a definition cannot be used; "" if it can.
func faultOf(t remoteTool) string {
	switch {
	case t.Name == "":
		return "it has no name"
	case len(t.Name) > maxNameBytes:
		return "its name is too long"
	case len(t.Input) > maxSchema || len(t.Output) > maxSchema:
		return fmt.Sprintf("its schema has more than %d KiB", maxSchema>>10)
	case len(t.Input) == 0:
		return "it has no input schema"
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(t.Input, &s); err != nil {
		return "its input schema is none: " + quoted(err.Error(), 200)
	}
	if s.Type != "object" {
		return "its input schema is not that of an object"
	}
	if _, err := schemacost.Of(t.Input); err != nil {
		return "its input schema cannot be used: " + quoted(err.Error(), 200)
	}
	if _, err := resolved(&s); err != nil {
		return "its input schema cannot be used: " + quoted(err.Error(), 200)
	}
	return ""
}

// resolved compiles a schema, which may refer to nothing outside of itself. The
// compiler is not ours and meets a stranger's schema.
func resolved(s *jsonschema.Schema) (r *jsonschema.Resolved, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the compiler fails: %.100v", v)
		}
	}()
	return s.Resolve(&jsonschema.ResolveOptions{Loader: func(*url.URL) (*jsonschema.Schema, error) {
		return nil, errors.New("it refers to a schema elsewhere")
	}})
}

// remote is a tool of a server as the runtime sees it.
type remote struct {
	source *Source
	name   string // the server's own
	def    tool.Definition
}

// definition is what a model is shown of a server's tool. The texts are the
// server's, and only texts.
func definition(s Server, t remoteTool, local string, usable bool) tool.Definition {
	d := tool.Definition{
		Name: local, Title: clean(t.Title, 200), Description: clean(t.Description, maxDescription), Input: t.Input, Output: t.Output,
		Effects: tool.Reads | tool.Writes | tool.Destroys | tool.UsesNetwork,
	}
	if d.Title == "" && t.Annotations != nil {
		d.Title = clean(t.Annotations.Title, 200)
	}
	if local != s.Name+"__"+t.Name {
		d.Description = strings.TrimSpace(d.Description + "\n\nAt the server " + s.Name + " it is named " + quoted(t.Name, 128) + ".")
	}
	if !usable {
		d.Input, d.Output = json.RawMessage(`{"type":"object"}`), nil
	}
	if len(d.Output) > 0 {
		var out jsonschema.Schema
		if json.Unmarshal(d.Output, &out) != nil || out.Type != "object" {
			d.Output = nil
		} else if _, err := resolved(&out); err != nil {
			d.Output = nil
		}
	}
	// Hints are a claim. Whoever trusts the server takes them for true.
	if a := t.Annotations; s.Trusted && a != nil {
		is := func(b *bool, otherwise bool) bool {
			if b == nil {
				return otherwise
			}
			return *b
		}
		switch {
		case is(a.ReadOnly, false):
			d.Effects, d.Mode = tool.Reads, tool.Parallel
		case !is(a.Destructive, true):
			d.Effects &^= tool.Destroys
		}
	}
	return d
}

func (r *remote) Definition() tool.Definition { return r.def }

func (r *remote) Origin() tool.Origin {
	return tool.Origin{Source: tool.MCP, Name: r.source.server.Name, Trusted: r.source.server.Trusted}
}

// Hosts implements [tool.Networker]: what a rule for hosts sees.
func (r *remote) Hosts() []string {
	if u, err := url.Parse(r.source.server.URL); err == nil && u.Host != "" {
		return []string{u.Host}
	}
	return nil
}

// Call implements [tool.Tool].
func (r *remote) Call(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error) {
	s := r.source
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return tool.ErrorResult(ctx.Err()), nil
	}
	ss := s.session()
	if ss == nil {
		return tool.ErrorResult(tool.Errorf(tool.NotAvailable, "the server %s is away", s.server.Name).
			WithNext("call again in a while; it is being connected to again")), nil
	}
	limited, cancel := context.WithTimeout(ctx, s.server.Timeout)
	defer cancel()
	began := time.Now()
	raw, err := ss.ask(limited, "tools/call", map[string]any{"name": r.name, "arguments": json.RawMessage(inv.Arguments)}, sink)
	var refused *rpcError
	switch {
	case err == nil:
		return resultOf(s.server.Name, raw), nil
	case ctx.Err() != nil:
		return tool.ErrorResult(ctx.Err()), nil
	case errors.Is(err, context.DeadlineExceeded):
		return tool.ErrorResult(tool.Errorf(tool.Timeout, "the server %s has not answered within %s", s.server.Name, s.server.Timeout).
			WithNext("ask it for less; the person can raise its timeout")), nil
	case errors.As(err, &refused):
		return tool.ErrorResult(tool.Errorf(tool.Upstream, "the server %s refused the call: %v", s.server.Name, refused).
			WithNext("change the arguments if its text says so")), nil
	}
	return tool.ErrorResult(tool.Errorf(tool.Upstream, "the server %s failed %s into the call: %v", s.server.Name, time.Since(began).Round(time.Millisecond), err).
		WithNext("what it did until then is not known; look before you call again. It is being connected to again")), nil
}

// resultOf reads a server's answer.
func resultOf(server string, raw json.RawMessage) tool.Result {
	var a struct {
		Content []struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			Data     []byte `json:"data"`
			MIMEType string `json:"mimeType"`
			URI      string `json:"uri"`
			Name     string `json:"name"`
			Resource *struct {
				URI      string  `json:"uri"`
				MIMEType string  `json:"mimeType"`
				Text     *string `json:"text"`
				Blob     []byte  `json:"blob"`
			} `json:"resource"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return tool.ErrorResult(tool.Errorf(tool.Upstream, "the server %s answered what is no result: %s", server, quoted(err.Error(), 200)))
	}
	r := tool.Result{IsError: a.IsError}
	if a.IsError {
		r.Code = tool.Upstream
	}
	if s := strings.TrimSpace(string(a.Structured)); strings.HasPrefix(s, "{") {
		r.Structured = a.Structured
	}
	add := func(c tool.Content) { r.Content = append(r.Content, c) }
	for _, c := range a.Content {
		switch c.Type {
		case "text":
			add(tool.Text(strings.ToValidUTF8(c.Text, "\uFFFD")))
		case "image":
			add(tool.Content{Kind: tool.KindImage, Data: c.Data, MIMEType: clean(c.MIMEType, 100)})
		case "audio":
			add(tool.Content{Kind: tool.KindAudio, Data: c.Data, MIMEType: clean(c.MIMEType, 100)})
		case "resource_link":
			add(tool.Content{Kind: tool.KindResourceLink, URI: clean(c.URI, 2048), Name: clean(c.Name, 200), MIMEType: clean(c.MIMEType, 100)})
		case "resource":
			switch {
			case c.Resource == nil:
			case c.Resource.Text != nil:
				add(tool.Text("[" + clean(c.Resource.URI, 2048) + "]\n" + strings.ToValidUTF8(*c.Resource.Text, "\uFFFD")))
			case strings.HasPrefix(c.Resource.MIMEType, "image/"):
				add(tool.Content{Kind: tool.KindImage, Data: c.Resource.Blob, MIMEType: clean(c.Resource.MIMEType, 100)})
			default:
				add(tool.Text(fmt.Sprintf("[%s: %d bytes of %s are not shown]", clean(c.Resource.URI, 2048), len(c.Resource.Blob), quoted(c.Resource.MIMEType, 100))))
			}
		default:
			add(tool.Text("[the server answered a part of kind " + quoted(c.Type, 64) + ", which is not shown]"))
		}
	}
	if len(r.Content) == 0 && r.Structured != nil {
		add(tool.Text(string(r.Structured)))
	}
	return r
}
