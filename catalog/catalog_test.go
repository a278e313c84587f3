package catalog_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

type fake tool.Definition

func (f fake) Definition() tool.Definition { return tool.Definition(f) }
func (f fake) Origin() tool.Origin         { return tool.Origin{Source: tool.Host} }
func (f fake) Call(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
	return tool.Result{}, nil
}

type source struct {
	name    string
	entries []catalog.Entry
}

func (s source) Name() string                  { return s.name }
func (s source) Snapshot() catalog.SourceState { return catalog.SourceState{Tools: s.entries} }

func planned(sources ...catalog.Source) (catalog.List, error) {
	s, err := catalog.NewRegistry(nil, sources...).Snapshot()
	if err != nil {
		return catalog.List{}, err
	}
	return catalog.Plan(s, catalog.Facts{}, catalog.Options{})
}

func TestPlanStates(t *testing.T) {
	l, err := planned(
		catalog.Static("first", fake{Name: "b"}, fake{Name: "hidden", Visibility: tool.Hidden}),
		source{"second", []catalog.Entry{{Tool: fake{Name: "down"}, Reason: "its server is not running"}, {Tool: fake{Name: "a"}, Available: true}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, d := range l.Exposed() {
		shown = append(shown, d.Name)
	}
	if want := []string{"b", "a"}; !slices.Equal(shown, want) {
		t.Errorf("Exposed() = %v, want %v (order of sources, then of tools)", shown, want)
	}
	for name, want := range map[string]struct {
		state catalog.State
		code  tool.Code
	}{
		"b":      {catalog.Exposed, ""},
		"hidden": {catalog.Registered, tool.NotExposed},
		"down":   {catalog.Public, tool.NotAvailable},
	} {
		it, ok := l.Lookup(name)
		if !ok || it.State != want.state || it.Code != want.code || (it.Code != "") != (it.Reason != "") {
			t.Errorf("Lookup(%s) = %+v, %v; want %v", name, it, ok, want)
		}
	}
	if _, ok := l.Lookup("B"); ok {
		t.Error("a name is found in another case")
	}
}

func TestPlanRefuses(t *testing.T) {
	_, err := planned(catalog.Static("left", fake{Name: "x"}), catalog.Static("right", fake{Name: "x"}))
	if err == nil || !strings.Contains(err.Error(), "left") || !strings.Contains(err.Error(), "right") {
		t.Errorf("two tools of one name: %v; want an error that names both sources", err)
	}
	for _, name := range []string{"", "a b", "a.b", "ä", strings.Repeat("x", 65)} {
		if _, err := planned(catalog.Static("s", fake{Name: name})); err == nil {
			t.Errorf("Plan accepts the name %q", name)
		}
	}
}

func TestNearest(t *testing.T) {
	l, err := planned(catalog.Static("s", fake{Name: "read_open"}, fake{Name: "grep"}, fake{Name: "write_file"}))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"read_opn": "read_open", "Grep": "grep", "writefile": "write_file", "zzzzzzzz": ""} {
		got := strings.Join(l.Nearest(name, 1), ",")
		if got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
	l.Nearest(strings.Repeat("long", 1<<18), 3) // bounded: a client sent it
}
