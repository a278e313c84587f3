package wasmtools_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/tool"
)

// argvSidecar passes the list argv as arguments and the text input as input.
func argvSidecar(top, rest string) []byte {
	return []byte("name = \"wasi\"\nversion = \"1.0.0\"\n" + top + "\n[[tools]]\nname = \"t\"\ndescription = \"test\"\n" +
		"input_schema = '''{\"type\":\"object\",\"properties\":{\"argv\":{\"type\":\"array\"},\"input\":{\"type\":\"string\"}}}'''\n" +
		"args = [\"{argv...}\"]\ninput = \"{input}\"\n" + rest + "\n")
}

var toolchains = []string{"cargo-wasi", "tinygo", "zig-cc", "zig"}

// TestWASICommands runs the commands of the engine's own tests, each built by
// four toolchains, unmodified.
func TestWASICommands(t *testing.T) {
	files := map[string]string{"test.txt": "greet filesystem\n", "sub/test.txt": "greet sub dir\n", "dir/-": "", "dir/a-/.keep": "", "dir/ab-": ""}
	list := func(lines ...string) string {
		slices.Sort(lines)
		return strings.Join(lines, "\n") + "\n"
	}
	ls := []string{"./-", "./a-", "./ab-"}
	type test struct {
		program string // with %s for the toolchain
		only    []string
		argv    []string
		input   string
		grant   []string
		want    string // of all lines, sorted
		dots    bool   // zig-cc lists . and .. too
		code    tool.Code
	}
	for name, c := range map[string]test{
		"cat":               {program: "example/testdata/%s/cat.wasm", argv: []string{"test.txt"}, grant: []string{"fs.read=**"}, want: "greet filesystem\n"},
		"cat below":         {program: "example/testdata/%s/cat.wasm", argv: []string{"sub/test.txt"}, grant: []string{"fs.read=sub/**"}, want: "greet sub dir\n"},
		"cat not granted":   {program: "example/testdata/%s/cat.wasm", argv: []string{"test.txt"}, grant: []string{"fs.read=sub/**"}, code: tool.Trap},
		"cat no grant":      {program: "example/testdata/%s/cat.wasm", argv: []string{"test.txt"}, code: tool.Trap},
		"ls":                {program: "testdata/%s/wasi.wasm", argv: []string{"ls", "dir"}, grant: []string{"fs.read=**"}, want: list(ls...), dots: true},
		"ls twice":          {program: "testdata/%s/wasi.wasm", only: []string{"cargo-wasi", "zig-cc", "zig"}, argv: []string{"ls", "dir", "repeat"}, grant: []string{"fs.read=**"}, want: list(append(ls, ls...)...), dots: true},
		"ls no directory":   {program: "testdata/%s/wasi.wasm", argv: []string{"ls", "dir/-"}, grant: []string{"fs.read=**"}, want: "ENOTDIR\n"},
		"stat":              {program: "testdata/%s/wasi.wasm", argv: []string{"stat"}, grant: []string{"fs.read=**"}, want: "/ isatty: false\nstderr isatty: false\nstdin isatty: false\nstdout isatty: false\n"},
		"preopen":           {program: "testdata/%s/wasi.wasm", only: []string{"zig"}, argv: []string{"preopen"}, grant: []string{"fs.read=**"}, want: "0: stdin\n1: stdout\n2: stderr\n3: /\n"},
		"preopen, no grant": {program: "testdata/%s/wasi.wasm", only: []string{"zig"}, argv: []string{"preopen"}, want: "0: stdin\n1: stdout\n2: stderr\n"},
		"sleep":             {program: "testdata/%s/wasi.wasm", only: []string{"zig-cc"}, argv: []string{"sleepmillis", "10"}, want: "OK\n"},
		"poll":              {program: "testdata/%s/wasi.wasm", only: []string{"zig-cc"}, argv: []string{"poll", "0", "100"}, input: "x", want: "STDIN\n"},
		"open-rdonly":       {program: "testdata/%s/wasi.wasm", only: []string{"zig-cc"}, argv: []string{"open-rdonly"}, grant: []string{"fs.read=**", "fs.write=**"}, want: "OK\n"},
		"open-wronly":       {program: "testdata/%s/wasi.wasm", only: []string{"zig-cc"}, argv: []string{"open-wronly"}, grant: []string{"fs.read=**", "fs.write=**"}, want: "OK\n"},
	} {
		for _, chain := range toolchains {
			if c.only != nil && !slices.Contains(c.only, chain) {
				continue
			}
			t.Run(name+"/"+chain, func(t *testing.T) {
				dir := t.TempDir()
				for f, text := range files {
					p := filepath.Join(dir, filepath.FromSlash(f))
					if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				_, turn := openGuest(t, guest{
					module: wasmtools.Module{Code: wasiProgram(t, fmt.Sprintf(c.program, chain)), Sidecar: argvSidecar("", ""), Grant: c.grant},
					dir:    dir,
				})
				args, _ := json.Marshal(map[string]any{"argv": c.argv, "input": c.input})
				r := call(t, turn, "t", string(args)).Result
				got := strings.Split(strings.ReplaceAll(strings.TrimSuffix(r.PlainText(), "\n"), "dir/", "./"), "\n") // Rust prints the path
				slices.Sort(got)
				want := strings.Split(strings.TrimSuffix(c.want, "\n"), "\n")
				if c.dots && chain == "zig-cc" {
					for range len(want) / 3 {
						want = append(want, "./.", "./..")
					}
					slices.Sort(want)
				}
				if r.Code != c.code || c.code == "" && !slices.Equal(got, want) {
					t.Errorf("%s %q = %q, code %q, details %v; want %q, code %q", chain, c.argv, r.PlainText(), r.Code, r.Details, c.want, c.code)
				}
			})
		}
	}
}
