package skill

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

// Scheme begins the paths by which read_open and grep take files of skills:
// skill:NAME/PATH.
const Scheme = "skill:"

// Source is the tool skill; it has none if there are no skills.
func (s *Set) Source() catalog.Source {
	if len(s.List()) == 0 { // also of a nil set
		return catalog.Static("skills")
	}
	return catalog.Static("skills", &reader{s})
}

type reader struct{ set *Set }

// maxNamed bounds the names in the description; the tool lists all of them.
const maxNamed = 900

func (r *reader) Definition() tool.Definition {
	var b strings.Builder
	b.WriteString("Read how something is done here, before you do it: a skill that the user has set up. Call it with a `name`, or without one for all names.\n\nSkills:")
	for i, x := range r.set.list {
		line := "\n- " + x.Name + ": " + x.Description
		if b.Len()+len(line) > maxNamed {
			fmt.Fprintf(&b, "\n- and %d more", len(r.set.list)-i)
			break
		}
		b.WriteString(line)
	}
	return tool.Definition{
		Name: "skill", Title: "Read a skill", Description: b.String(),
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"name":{"type":"string","maxLength":64,"description":"The skill; absent: the names of all."}}}`),
		Mode:  tool.Parallel, Effects: tool.Reads,
	}
}

func (*reader) Origin() tool.Origin { return tool.Origin{Source: tool.Host, Name: "skills"} }

func (r *reader) Call(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
	var a struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(inv.Arguments, &a); err != nil {
		return tool.ErrorResult(tool.Errorf(tool.InvalidArguments, "the arguments cannot be read: %v", err)), nil
	}
	if a.Name == "" {
		var b strings.Builder
		for _, x := range r.set.list {
			fmt.Fprintf(&b, "%s: %s\n", x.Name, x.Description)
		}
		return tool.TextResult(b.String()), nil
	}
	x, ok := r.set.Find(a.Name)
	if !ok {
		return tool.ErrorResult(tool.Errorf(tool.NotFound, "there is no skill %s", tool.QuotePath(clip(a.Name, 80))).WithNext("call skill without a name for all names")), nil
	}
	text, err := x.Text()
	if err != nil {
		return tool.ErrorResult(err), nil
	}
	return tool.TextResult(fmt.Sprintf("%s\n[the skill %s; files that it names are read with read_open: %s%s/PATH]\n", strings.TrimRight(text, "\n"), x.Name, Scheme, x.Name)), nil
}
