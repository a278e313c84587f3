package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

func TestHints(t *testing.T) {
	for _, c := range []struct {
		effects tool.Effects
		want    hints
	}{
		{0, hints{readOnly: true, idempotent: true}},
		{tool.Reads, hints{readOnly: true, idempotent: true}},
		{tool.Reads | tool.AsksUser, hints{readOnly: true, idempotent: true}},
		{tool.Reads | tool.Writes, hints{destructive: true}},
		{tool.Destroys, hints{destructive: true}},
		{tool.Executes, hints{destructive: true, openWorld: true}},
		{tool.UsesNetwork, hints{openWorld: true}},
		{tool.Reads | tool.Writes | tool.Destroys | tool.Executes | tool.UsesNetwork, hints{destructive: true, openWorld: true}},
	} {
		if got := hintsOf(c.effects); got != c.want {
			t.Errorf("hintsOf(%s) = %+v; want %+v", c.effects, got, c.want)
		}
	}
}

// One definition that cannot be shown must neither hide the others nor break
// the line.
func TestListingLeavesOutBadDefinitions(t *testing.T) {
	obj := json.RawMessage(`{"type":"object"}`)
	defs := []tool.Definition{
		{Name: "good", Description: strings.Repeat("long ", 1000), Input: json.RawMessage("{\n\"type\": \"object\"\r\n}"), Output: obj},
		{Name: "good", Input: obj},
		{Name: "no schema"},
		{Name: "no_schema"},
		{Name: "array", Input: json.RawMessage(`[]`)},
		{Name: "broken", Input: json.RawMessage(`{"type":"object"}}],"x":[{`)},
		{Name: "bad_output", Input: obj, Output: json.RawMessage(`7`)},
		{Name: strings.Repeat("n", 65), Input: obj},
		{Name: "", Input: obj},
		{Name: "last", Title: "A \"title\"", Description: "\xff", Input: obj, Effects: tool.Writes},
	}
	var notices []string
	l := newListing(defs, func(format string, args ...any) { notices = append(notices, fmt.Sprintf(format, args...)) })
	var got []struct {
		Name, Title, Description  string
		InputSchema, OutputSchema json.RawMessage
		Annotations               map[string]bool
	}
	if err := json.Unmarshal(l.tools, &got); err != nil {
		t.Fatalf("%v in %s", err, l.tools)
	}
	if len(got) != 2 || got[0].Name != "good" || got[1].Name != "last" || len(l.names) != 2 {
		t.Fatalf("got %s; want good and last", l.tools)
	}
	if len(got[0].Description) != maxDescription || got[1].Description != "\ufffd" {
		t.Errorf("descriptions of %d bytes and %q", len(got[0].Description), got[1].Description)
	}
	if len(notices) != len(defs)-2 {
		t.Errorf("%d notices; want one for each of %d left out: %q", len(notices), len(defs)-2, notices)
	}
	for _, d := range got {
		if len(d.Annotations) != 4 {
			t.Errorf("%s has %v; want all four hints", d.Name, d.Annotations)
		}
	}
	if strings.ContainsAny(string(l.tools), "\n\r") {
		t.Error("the list is not one line")
	}
}
