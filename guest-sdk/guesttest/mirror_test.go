package guesttest

import (
	"reflect"
	"testing"

	"github.com/wasmtools/wasmtools/workspace"
	"github.com/wasmtools/wasmtools/workspace/search"
)

// TestWireMirrorsTheHost compares the fake host's JSON with the real one's,
// field by field: names, kinds and what is left out when empty.
func TestWireMirrorsTheHost(t *testing.T) {
	for _, c := range []struct{ fake, real any }{
		{Info{}, workspace.Info{}}, {Skipped{}, workspace.Skipped{}}, {ListOptions{}, workspace.ListOptions{}}, {Page{}, workspace.Page{}},
		{Edit{}, workspace.Edit{}}, {Change{}, workspace.Change{}}, {LineRange{}, workspace.LineRange{}},
		{Request{}, search.Request{}}, {Response{}, search.Response{}}, {FileHit{}, search.FileHit{}}, {Line{}, search.Line{}},
	} {
		fake, real := fields(c.fake), fields(c.real)
		if !reflect.DeepEqual(fake, real) {
			t.Errorf("%T has %v, the host has %v", c.fake, fake, real)
		}
	}
}

func fields(v any) map[string]string {
	out := map[string]string{}
	t := reflect.TypeOf(v)
	for i := range t.NumField() {
		f := t.Field(i)
		if tag := f.Tag.Get("json"); tag != "-" && f.IsExported() {
			kind := f.Type.Kind().String()
			if f.Type.Kind() == reflect.Slice {
				kind += " of " + f.Type.Elem().Kind().String()
			}
			out[tag] = kind
		}
	}
	return out
}
