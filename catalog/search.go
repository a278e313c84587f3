package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// Bounds on a search.
const (
	defaultTop = 5
	maxTop     = 20
	maxQuery   = 4096 // bytes
	maxPattern = 512  // bytes
)

// SearchRequest is what tool_search takes. Query or Regex must be there.
type SearchRequest struct {
	// Query is words that tools are ranked by, or "select:" and names with commas
	// between them.
	Query string `json:"query"`
	// Regex leaves only tools whose name, description or schema it matches, in RE2
	// syntax and whatever the case of letters.
	Regex string `json:"regex"`
	Top   int    `json:"top_k"` // 1 to 20; 0 means 5
}

// Found is one hit.
type Found struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Score       float64         `json:"score"`
}

// FoundTools is the answer of tool_search.
type FoundTools struct {
	Hits  []Found `json:"hits"`
	Total int     `json:"total"` // that matched
}

// Search finds tools that can be called in this turn: those that are deferred,
// and those that are shown. An error is a [*tool.Error].
func (l List) Search(r SearchRequest) (FoundTools, error) {
	switch {
	case strings.TrimSpace(r.Query) == "" && r.Regex == "":
		return FoundTools{}, tool.Errorf(tool.InvalidArguments, "neither query nor regex is given").WithNext("say what the tool should do in query, or give a regex for its name")
	case len(r.Query) > maxQuery || len(r.Regex) > maxPattern:
		return FoundTools{}, tool.Errorf(tool.InvalidArguments, "query has at most %d bytes and regex %d", maxQuery, maxPattern).WithNext("ask in fewer words")
	}
	top := defaultTop
	if r.Top != 0 {
		top = min(max(r.Top, 1), maxTop)
	}
	var among []int
	for i := range l.Items {
		it := &l.Items[i]
		if i < len(l.snapshot.entries) && (it.Deferred || it.State == Exposed) {
			among = append(among, i)
		}
	}
	if r.Regex != "" {
		re, err := regexp.Compile("(?i)" + r.Regex)
		if err != nil {
			return FoundTools{}, tool.Errorf(tool.InvalidArguments, "regex is not valid: %v", err).WithNext("escape what is meant literally (RE2 syntax), or use query")
		}
		among = slices.DeleteFunc(among, func(i int) bool {
			d := &l.Items[i].Definition
			return !re.MatchString(d.Name) && !re.MatchString(d.Description) && !re.Match(d.Input)
		})
	}
	var hits []Hit
	if names, ok := strings.CutPrefix(strings.TrimSpace(r.Query), "select:"); ok {
		for _, n := range strings.Split(names, ",") {
			n = Fold(n)
			if i := slices.IndexFunc(among, func(i int) bool { return slices.Contains(l.snapshot.entries[i].names, n) }); i >= 0 {
				hits = append(hits, Hit{among[i], 1})
				among = slices.Delete(among, i, i+1)
			}
		}
		return l.found(hits, min(len(hits), maxTop)), nil
	}
	if strings.TrimSpace(r.Query) == "" {
		for _, i := range among {
			hits = append(hits, Hit{Document: i})
		}
		return l.found(hits, top), nil
	}
	hits, err := l.snapshot.rank(Query{Request: r.Query}, among, len(among))
	if err != nil {
		hits = l.byWords(r.Query, among)
	}
	hits = slices.DeleteFunc(hits, func(h Hit) bool { return h.Score <= 0 })
	if len(hits) == 0 && r.Regex != "" { // the pattern alone decides
		for _, i := range among {
			hits = append(hits, Hit{Document: i})
		}
	}
	return l.found(hits, top), nil
}

// byWords counts how many words of the query a tool has: what is left without a
// ranker.
func (l List) byWords(query string, among []int) []Hit {
	words := strings.Fields(Fold(query))
	var hits []Hit
	for _, i := range among {
		d := &l.Items[i].Definition
		text := strings.ToLower(d.Name + " " + d.Description)
		n := 0
		for _, w := range words {
			if strings.Contains(text, w) {
				n++
			}
		}
		if n > 0 {
			hits = append(hits, Hit{i, float64(n) / float64(len(words))})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits
}

func (l List) found(hits []Hit, top int) FoundTools {
	f := FoundTools{Hits: []Found{}, Total: len(hits)}
	for _, h := range hits[:min(top, len(hits))] {
		d := &l.Items[h.Document].Definition
		f.Hits = append(f.Hits, Found{d.Name, d.Description, schemaOf(*d), h.Score})
	}
	return f
}

// searchTool is tool_search over the list that it is in.
type searchTool struct{ list *List }

var searchDefinition = tool.Definition{
	Name:  SearchName,
	Title: "Find tools",
	Description: "Find tools that are not listed, by what they do. Describe the task in `query` (words; or `select:name1,name2` for known names), or give a `regex` for " +
		"names, descriptions and schemas; with both, the regex decides what counts and the query ranks. The answer has names and input schemas; call what you found with " + InvokeName + ".",
	Input: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{` +
		`"query":{"type":"string","maxLength":4096,"description":"What the tool should do, in words, or select:name1,name2."},` +
		`"regex":{"type":"string","maxLength":512,"description":"RE2 pattern, whatever the case of letters."},` +
		`"top_k":{"type":"integer","description":"How many tools; 1 to 20, 5 if absent."}}}`),
	Output: json.RawMessage(`{"type":"object","required":["hits","total"],"properties":{"hits":{"type":"array","items":{"type":"object","required":["name","description","input_schema","score"],` +
		`"properties":{"name":{"type":"string"},"description":{"type":"string"},"input_schema":{"type":"object"},"score":{"type":"number"}}}},"total":{"type":"integer"}}}`),
	Mode:    tool.Parallel,
	Effects: tool.Reads,
}

func (searchTool) Definition() tool.Definition { return searchDefinition }
func (searchTool) Origin() tool.Origin         { return tool.Origin{Source: tool.Native, Name: "catalog"} }

func (s searchTool) Call(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
	var r SearchRequest
	if err := json.Unmarshal(inv.Arguments, &r); err != nil {
		return tool.ErrorResult(tool.Errorf(tool.InvalidArguments, "the arguments cannot be read: %v", err)), nil
	}
	f, err := s.list.Search(r)
	if err != nil {
		return tool.ErrorResult(err), nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return tool.Result{}, err
	}
	res := tool.TextResult(strings.TrimSuffix(b.String(), "\n"))
	res.Structured = json.RawMessage(res.Content[0].Text)
	return res, nil
}

// invokeTool is mcp_invoke. It stands in the list for the model; a call of it is
// resolved to the tool that it names before anything else, see [List.Target].
type invokeTool struct{}

var invokeDefinition = tool.Definition{
	Name:        InvokeName,
	Title:       "Call a found tool",
	Description: "Call a tool that " + SearchName + " found: `tool_name` as it was answered, and `arguments` that fit its input schema.",
	Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["tool_name"],"properties":{` +
		`"tool_name":{"type":"string","description":"As tool_search answered it."},` +
		`"arguments":{"type":"object","description":"As the tool's input_schema asks for; {} if absent."}}}`),
	Effects: tool.Executes | tool.UsesNetwork | tool.Destroys,
}

func (invokeTool) Definition() tool.Definition { return invokeDefinition }
func (invokeTool) Origin() tool.Origin         { return tool.Origin{Source: tool.Native, Name: "catalog"} }

func (invokeTool) Call(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
	return tool.Result{}, fmt.Errorf("%s is resolved to a tool, and not called", InvokeName)
}

// Target resolves a call of mcp_invoke: to the tool that it means and that tool's
// arguments. An error is a [*tool.Error].
func (l List) Target(arguments json.RawMessage) (Item, json.RawMessage, error) {
	var a struct {
		Tool      *string         `json:"tool_name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil || a.Tool == nil {
		return Item{}, nil, tool.Errorf(tool.SchemaInvalid, "%s takes tool_name, a text, and arguments, an object", InvokeName).
			WithNext("schema of %s: %s", InvokeName, invokeDefinition.Input)
	}
	it, ok := l.Lookup(*a.Tool)
	if ok && (it.Deferred || it.State == Exposed) && it.Definition.Name != InvokeName {
		if len(a.Arguments) == 0 || string(a.Arguments) == "null" {
			a.Arguments = json.RawMessage("{}")
		}
		return it, a.Arguments, nil
	}
	if ok && it.Definition.Name != InvokeName {
		return Item{}, nil, tool.Errorf(it.Code, "%s: %s", it.Definition.Name, it.Reason).With("state", string(it.State))
	}
	shown := *a.Tool
	if len(shown) > 128 {
		shown = shown[:128] + "..."
	}
	e := tool.Errorf(tool.NotRegistered, "no tool is named %s", tool.QuotePath(shown)).WithNext("find its name with %s", SearchName)
	if near := l.Nearest(*a.Tool, 3); len(near) > 0 {
		e.WithNext("did you mean %s? otherwise find its name with %s", strings.Join(near, " or "), SearchName)
	}
	return Item{}, nil, e
}
