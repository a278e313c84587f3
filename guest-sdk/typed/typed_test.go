package typed_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
	"github.com/wasmtools/wasmtools/guest-sdk/guesttest"
	"github.com/wasmtools/wasmtools/guest-sdk/typed"
)

type inner struct {
	A string `json:"a" jsonschema:"an A"`
	B *int   `json:"b,omitempty"`
}

type base struct {
	ID     int    `json:"id"`
	Shadow string `json:"shadow"`
}

type everything struct {
	base
	*inner
	Shadow   int    `json:"shadow"`
	S        string `json:"s" jsonschema:"a string, with = in it"`
	Untagged bool
	Name     string `json:",omitempty"`
	//lint:ignore SA5008 a name that looks like a mistake is what is tested
	Dash    string             `json:"-,"`
	Out     string             `json:"-"`
	I8      int8               `json:"i8"`
	I16     int16              `json:"i16"`
	I32     int32              `json:"i32"`
	I64     int64              `json:"i64"`
	U       uint               `json:"u"`
	U8      uint8              `json:"u8"`
	U16     uint16             `json:"u16"`
	U32     uint32             `json:"u32"`
	U64     uint64             `json:"u64"`
	F32     float32            `json:"f32"`
	F       float64            `json:"f,omitzero"`
	Any     any                `json:"any"`
	Bytes   []byte             `json:"bytes"`
	List    []inner            `json:"list" jsonschema:"several"`
	Ptrs    []*inner           `json:"ptrs"`
	PtrList *[]string          `json:"ptr_list"`
	Fixed   [3]string          `json:"fixed"`
	Map     map[string]inner   `json:"map"`
	Deep    map[string][][]int `json:"deep"`
	Keys    map[textKey]bool   `json:"keys"`
	Time    time.Time          `json:"time"`
	TimePtr *time.Time         `json:"time_ptr"`
	Level   slog.Level         `json:"level"`
	Big     *big.Int           `json:"big"`
	Rat     big.Rat            `json:"rat"`
	Raw     json.RawMessage    `json:"raw"`
	Twice   struct {
		X inner `json:"x"`
		Y inner `json:"y"`
	} `json:"twice"`
	//lint:ignore U1000 it must not appear in the schema
	hidden string
}

type textKey int

func (textKey) MarshalText() ([]byte, error) { return nil, nil }

type loop struct {
	Next *loop `json:"next"`
}

type loopMap struct {
	By map[string][]loopMap `json:"by"`
}

type empty struct{}

//lint:ignore U1000 its field must not appear in the schema
type onlyHidden struct{ x int }

func compare[T any](t *testing.T) {
	t.Helper()
	theirs, wantErr := jsonschema.For[T](nil)
	ours, err := typed.SchemaFor[T]()
	if (err == nil) != (wantErr == nil) {
		t.Errorf("SchemaFor[%v]: %v; jsonschema-go: %v", reflect.TypeFor[T](), err, wantErr)
		return
	}
	if err != nil {
		return
	}
	p, err := json.Marshal(theirs)
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(p, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(ours), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("SchemaFor[%v] =\n%s\nwant\n%s", reflect.TypeFor[T](), ours, p)
	}
}

// TestSchemaIsThatOfTheMCPSDK compares with the SDK's own inference.
func TestSchemaIsThatOfTheMCPSDK(t *testing.T) {
	compare[everything](t)
	compare[inner](t)
	compare[empty](t)
	compare[onlyHidden](t)
	compare[string](t)
	compare[*string](t)
	compare[**string](t)
	compare[[]int](t)
	compare[map[string]any](t)
	compare[any](t)
	compare[uintptr](t)
	compare[[2][]*float32](t)
	// What both refuse.
	compare[loop](t)
	compare[loopMap](t)
	compare[map[int]string](t)
	compare[struct{ F func() }](t)
	compare[struct{ C chan int }](t)
	compare[struct{ C complex64 }](t)
	compare[struct {
		A int `jsonschema:""`
	}](t)
	compare[struct {
		A int `jsonschema:"minimum=3"`
	}](t)
	compare[struct {
		A int `jsonschema:"= so"`
	}](t)
	compare[struct {
		A int `jsonschema:"a =b"`
	}](t)
}

func TestSchemaIsTheSameEachTime(t *testing.T) {
	first, err := typed.SchemaFor[everything]()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, _ := typed.SchemaFor[everything](); again != first {
			t.Fatal("the order of the keywords changes")
		}
	}
}

type in struct {
	N    int      `json:"n"`
	Tags []string `json:"tags,omitempty"`
}

type out struct {
	Sum  int    `json:"sum"`
	Note string `json:"note,omitempty"`
}

func init() {
	guest.Describe(guest.Module{Name: "t", Version: "0.1.0"})
	typed.Add(guest.Tool{Name: "sum", Description: "Adds."}, func(c *guest.Call, i in) (out, error) {
		if i.N < 0 {
			return out{}, guest.Fail(guest.InvalidArguments, "n is negative")
		}
		if i.N == 13 {
			return out{}, errors.New("unlucky")
		}
		return out{Sum: i.N + len(i.Tags), Note: "<ok>"}, nil
	})
	typed.Add(guest.Tool{Name: "raw", Description: "Answers freely.", Input: `{"type":"object"}`}, func(c *guest.Call, i struct{}) (guest.Result, error) {
		return guest.Text("free"), nil
	})
	typed.Add(guest.Tool{Name: "any", Description: "Answers anything."}, func(c *guest.Call, i struct{}) (any, error) {
		return []int{1}, nil
	})
}

func TestAdd(t *testing.T) {
	h := guesttest.New()
	for _, c := range []struct{ tool, args, want string }{
		{"sum", `{"n":1,"tags":["a","b"]}`, `{"content":[{"type":"text","text":"{\"sum\":3,\"note\":\"<ok>\"}"}],"structuredContent":{"sum":3,"note":"<ok>"}}`},
		{"sum", `{"n":-1}`, `{"content":[{"type":"text","text":"invalid_arguments: n is negative; change the argument that the text names"}],"isError":true,"_meta":{"wasmtools/code":"invalid_arguments"}}`},
		{"sum", `{"n":13}`, `{"content":[{"type":"text","text":"internal: unlucky; report it to the module's author"}],"isError":true,"_meta":{"wasmtools/code":"internal"}}`},
		{"raw", `{}`, `{"content":[{"type":"text","text":"free"}]}`},
		{"any", `{}`, `{"content":[{"type":"text","text":"[1]"}]}`},
	} {
		if r := h.Call(c.tool, c.args); string(r.Raw) != c.want {
			t.Errorf("%s(%s) =\n%s\nwant\n%s", c.tool, c.args, r.Raw, c.want)
		}
	}
	for _, args := range []string{`{"n":"x"}`, `{"n":1,"m":2}`} {
		if r := h.Call("sum", args); r.Meta.Code != "schema_invalid" {
			t.Errorf("sum(%s) = %s, want schema_invalid", args, r.Raw)
		}
	}
	for _, tool := range guest.Tools() {
		if (tool.Output != "") != (tool.Name == "sum") {
			t.Errorf("%s has output schema %q", tool.Name, tool.Output)
		}
	}
}

func TestAddPanics(t *testing.T) {
	for name, add := range map[string]func(){
		"arguments that are no object": func() {
			typed.Add(guest.Tool{Name: "p1"}, func(*guest.Call, string) (out, error) { return out{}, nil })
		},
		"a result that is no object": func() {
			typed.Add(guest.Tool{Name: "p2"}, func(*guest.Call, in) (int, error) { return 0, nil })
		},
		"a type that contains itself": func() {
			typed.Add(guest.Tool{Name: "p3"}, func(*guest.Call, loop) (out, error) { return out{}, nil })
		},
		"a name that is taken": func() {
			typed.Add(guest.Tool{Name: "sum"}, func(*guest.Call, in) (out, error) { return out{}, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); p == nil {
					t.Error("no panic")
				} else if s, ok := p.(string); !ok || !strings.Contains(s, "Add") {
					t.Errorf("panic %v does not say where", p)
				}
			}()
			add()
		})
	}
}
