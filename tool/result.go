package tool

import (
	"encoding/json"
	"strings"
)

// Result is what a call answers.
type Result struct {
	Content    []Content       // what the model reads
	Structured json.RawMessage // a JSON object, or nil
	IsError    bool
	Code       Code           // set when IsError
	Details    map[string]any // machine-readable extras; JSON-encodable
	Sensitive  bool           // never archive in clear
	Usage      *Usage         // what the call took; nil if nobody measured it. Never shown to a model
}

// ContentKind is the type of a content block, as in MCP.
type ContentKind string

const (
	KindText         ContentKind = "text"
	KindImage        ContentKind = "image"
	KindAudio        ContentKind = "audio"
	KindVideo        ContentKind = "video"
	KindResourceLink ContentKind = "resource_link"
)

// Content is one block of a result. Which fields count depends on Kind: Text
// for text; Data and MIMEType for image, audio and video; URI, Name and
// MIMEType for a resource link.
type Content struct {
	Kind     ContentKind
	Text     string
	Data     []byte
	MIMEType string
	URI      string
	Name     string
}

// Text makes a text block.
func Text(s string) Content { return Content{Kind: KindText, Text: s} }

// TextResult makes a result of one text block.
func TextResult(s string) Result { return Result{Content: []Content{Text(s)}} }

// PlainText joins the text blocks of r with line ends.
func (r Result) PlainText() string {
	var b strings.Builder
	n := 0
	for _, c := range r.Content {
		if c.Kind != KindText {
			continue
		}
		if n++; n == 1 && len(r.Content) == 1 {
			return c.Text
		} else if n > 1 {
			b.WriteByte('\n')
		}
		b.WriteString(c.Text)
	}
	return b.String()
}

// MarshalJSON writes c in the shape that MCP gives content blocks.
func (c Content) MarshalJSON() ([]byte, error) {
	type block struct {
		Type     ContentKind `json:"type"`
		Text     *string     `json:"text,omitempty"`
		Data     []byte      `json:"data,omitempty"`
		MIMEType string      `json:"mimeType,omitempty"`
		URI      string      `json:"uri,omitempty"`
		Name     string      `json:"name,omitempty"`
	}
	b := block{Type: c.Kind, Data: c.Data, MIMEType: c.MIMEType, URI: c.URI, Name: c.Name}
	if c.Kind == KindText {
		b.Text = &c.Text
	}
	return json.Marshal(b)
}
