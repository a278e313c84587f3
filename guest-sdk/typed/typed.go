// Package typed registers tools whose arguments and result are Go types: the
// schemas are inferred from them, and values are decoded and encoded with
// encoding/json.
//
//	type input struct {
//		Path string `json:"path" jsonschema:"The file to count."`
//	}
//	type output struct {
//		Words int `json:"words"`
//	}
//
//	typed.Add(guest.Tool{Name: "word_count", Description: "..."}, func(c *guest.Call, in input) (output, error) { ... })
//
// Schemas are inferred by the rules of the MCP SDK for Go (jsonschema-go's For),
// so that a tool moved from one to the other keeps its schema; see [SchemaFor].
//
// It costs what encoding/json and reflect cost: about 1.4 MB of module and
// twice the time to compile it, once. Package guest alone does without.
package typed

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

// Add registers t with call as its implementation. A schema that t has is kept,
// one that is missing is inferred from In and Out. An Out of type any or
// struct{} has no output schema.
//
// What call returns is the structured result, and its JSON the text. An Out of
// type [guest.Result] is taken as it is. It panics, as [guest.Add] does, on what
// cannot be registered, so that such a module cannot be built.
func Add[In, Out any](t guest.Tool, call func(*guest.Call, In) (Out, error)) {
	if t.Input == "" {
		t.Input = must[In](t.Name, "arguments")
	}
	raw := reflect.TypeFor[Out]() == reflect.TypeFor[guest.Result]()
	free := reflect.TypeFor[Out]().Kind() == reflect.Interface || reflect.TypeFor[Out]() == reflect.TypeFor[struct{}]()
	if t.Output == "" && !raw && !free {
		t.Output = must[Out](t.Name, "result")
	}
	t.Call = func(c *guest.Call) (guest.Result, error) {
		var in In
		if err := decode(c.RawArgs, &in); err != nil {
			return guest.Result{}, c.Invalid(guest.Fault{Path: "$", Text: err.Error()})
		}
		out, err := call(c, in)
		if err != nil {
			return guest.Result{}, err
		}
		if r, ok := any(out).(guest.Result); ok {
			return r, nil
		}
		return encode(out)
	}
	guest.Add(t)
}

func must[T any](tool, what string) string {
	s, err := SchemaFor[T]()
	if err == nil && reflect.TypeFor[T]().Kind() != reflect.Struct && reflect.TypeFor[T]().Kind() != reflect.Map {
		err = errors.New("its type is not a struct or a map, so it is no JSON object")
	}
	if err != nil {
		panic("typed.Add: the " + what + " of " + tool + ": " + err.Error())
	}
	return s
}

// decode is strict: the schema says additionalProperties false wherever a
// struct stands, and the host has checked it, so what is left over is an error.
func decode(args []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("text after the arguments")
	}
	return nil
}

func encode(out any) (guest.Result, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return guest.Result{}, err
	}
	text := bytes.TrimSpace(buf.Bytes())
	v, err := guest.Parse(text)
	if err != nil {
		return guest.Result{}, err
	}
	r := guest.Text(string(text))
	if v.Kind() == guest.ObjectKind {
		r.Structured = v
	}
	return r, nil
}
