package guestbuild_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"github.com/wasmtools/wasmtools/guest-sdk/guesttest"
	"github.com/wasmtools/wasmtools/internal/guestbuild"
	"github.com/wasmtools/wasmtools/manifest"
)

const root = "../.."

// needToolchain skips a test that compares bytes where the pinned toolchain is
// not to be had, unless WASMTOOLS_REQUIRE says that it must be.
func needToolchain(t *testing.T) {
	t.Helper()
	if _, err := guestbuild.FindToolchain(t.Context(), false); err != nil {
		if strings.Contains(os.Getenv("WASMTOOLS_REQUIRE"), "wasm") {
			t.Fatal(err)
		}
		t.Skipf("bytes are compared under %s only: %v", guestbuild.Toolchain, err)
	}
}

// copyModule copies what the core module is built from.
func copyModule(t *testing.T, to string) {
	t.Helper()
	for _, part := range []string{"go.mod", "go.sum", "guest-sdk", "tools-wasm/core"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(p string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(p, "_test.go") || strings.Contains(p, "testdata") {
				return err
			}
			rel, err := filepath.Rel(root, p)
			if err != nil {
				return err
			}
			return copyFile(p, filepath.Join(to, rel))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

func build(t *testing.T, dir string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.wasm")
	r, err := guestbuild.Build(t.Context(), guestbuild.Options{Dir: dir, Out: out, Describe: describe, Embed: embed, AnyToolchain: true})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if r.Bytes != len(data) || r.Reproducible != (r.Toolchain == guestbuild.Toolchain) {
		t.Errorf("report %+v of a file of %d bytes", r, len(data))
	}
	return data
}

// TestBuildIsReproducible builds core from two folders of different depth, the
// second time amid variables that change what a go command makes, and compares
// both with the committed file.
func TestBuildIsReproducible(t *testing.T) {
	needToolchain(t)
	near, far := t.TempDir(), filepath.Join(t.TempDir(), "a", "much", "deeper folder")
	copyModule(t, near)
	copyModule(t, far)
	first := build(t, filepath.Join(near, "tools-wasm/core"))

	t.Setenv("GOFLAGS", "-gcflags=-N")
	t.Setenv("GOWASM", "satconv,signext")
	t.Setenv("GOEXPERIMENT", "nogreenteagc")
	t.Setenv("CGO_ENABLED", "1")
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	t.Setenv("LANG", "de_DE.UTF-8")
	second := build(t, filepath.Join(far, "tools-wasm/core"))
	if !bytes.Equal(first, second) {
		t.Errorf("the same sources gave %d and %d bytes that differ", len(first), len(second))
	}

	sameAsCommitted(t, "core", first)
}

// TestMediaIsBuiltFromItsSources is what the test above asks of core.
func TestMediaIsBuiltFromItsSources(t *testing.T) {
	needToolchain(t)
	sameAsCommitted(t, "media", build(t, filepath.Join(root, "tools-wasm/media")))
}

func sameAsCommitted(t *testing.T, name string, built []byte) {
	t.Helper()
	committed, err := os.ReadFile(filepath.Join(root, "tools-wasm", name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(built, committed) {
		t.Errorf("tools-wasm/%s.wasm (%d bytes) is not what its sources give (%d bytes); run go generate ./tools-wasm", name, len(committed), len(built))
	}
}

// TestEnvironmentMatters is the control of the test above: the variables that
// it sets do change the bytes, or break the build, if they reach the compiler.
func TestEnvironmentMatters(t *testing.T) {
	needToolchain(t)
	dir := t.TempDir()
	copyModule(t, dir)
	dir = filepath.Join(dir, "tools-wasm/core")
	plain := guestbuild.CompileWith(t, dir)
	changed := guestbuild.CompileWith(t, dir, "GOFLAGS=-gcflags=-N")
	if bytes.Equal(plain, changed) {
		t.Error("GOFLAGS changed nothing; the test above proves nothing")
	}
}

// TestCommittedCore checks the file that is embedded, under any toolchain: it
// carries the manifest that its code gives.
func TestCommittedCore(t *testing.T) {
	wasm, err := os.ReadFile(filepath.Join(root, "tools-wasm/core.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	carried, err := manifest.Extract(wasm)
	if err != nil {
		t.Fatal(err)
	}
	said, err := describe(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(carried, said) {
		t.Errorf("the module carries\n%s\nbut says\n%s", carried, said)
	}
}

// TestCallAcrossTheBoundary runs read_open as a module: request, host functions
// with buffers, result and error through result_read and error_read, response.
func TestCallAcrossTheBoundary(t *testing.T) {
	wasm, err := os.ReadFile(filepath.Join(root, "tools-wasm/core.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	const file = "one\ntwo\n"
	var result, fail []byte
	str := func(m api.Memory, p, n uint64) string {
		b, ok := m.Read(uint32(p), uint32(n))
		if !ok {
			t.Errorf("a range outside the memory: %d, %d", p, n)
		}
		return string(b)
	}
	refuse := func(path string) int64 {
		fail = []byte(`{"code":"not_found","path":"` + path + `","text":"nothing of this name exists","next":"look elsewhere"}`)
		return -12
	}
	g, err := instantiate(t.Context(), wasm, map[string]hostFunc{
		"fs_read": func(m api.Memory, a []uint64) int64 {
			if path := str(m, a[0], a[1]); path != "f" {
				return refuse(path)
			}
			if a[2] >= uint64(len(file)) {
				return 0
			}
			rest := file[a[2]:]
			m.Write(uint32(a[3]), []byte(rest[:min(len(rest), int(uint32(a[4])))]))
			return int64(min(len(rest), int(uint32(a[4]))))
		},
		"fs_stat": func(m api.Memory, a []uint64) int64 {
			result = []byte(`{"path":"f","name":"f","type":"file","size":8,"mtime":0,"mode":420}`)
			return int64(len(result))
		},
		"result_read": func(m api.Memory, a []uint64) int64 {
			off := min(int(uint32(a[2])), len(result))
			p := result[off:min(len(result), off+int(uint32(a[1])))]
			m.Write(uint32(a[0]), p)
			return int64(len(p))
		},
		"error_read": func(m api.Memory, a []uint64) int64 {
			p := fail[:min(len(fail), int(uint32(a[1])))]
			m.Write(uint32(a[0]), p)
			return int64(len(p))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.close(context.Background())
	for _, c := range []struct {
		args, want string
	}{
		{`{"path":"f"}`, `{"content":[{"type":"text","text":"1\tone\n2\ttwo\n"}],"_meta":{"wasmtools/details":{"path":"f","size":8,"start":1,"end":2,"total_lines":2,"truncated":false,"encoding":"UTF-8","line_ends":"LF"}}}`},
		{`{"path":"g"}`, `{"content":[{"type":"text","text":"not_found: g: nothing of this name exists; look elsewhere"}],"isError":true,"_meta":{"wasmtools/code":"not_found"}}`},
	} {
		got, err := g.call(t.Context(), guesttest.EncodeRequest(1, "call-1", 0, []byte(c.args)))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != c.want {
			t.Errorf("wt_call(%s) =\n%s\nwant\n%s", c.args, got, c.want)
		}
	}
	// What is no request is answered, not trapped on.
	got, err := g.call(t.Context(), []byte("nonsense"))
	if err != nil || !bytes.Contains(got, []byte(`"isError":true`)) {
		t.Errorf("nonsense: %s, %v", got, err)
	}
	got, err = g.export(t.Context(), "wt_call", 12345, 32)
	if err != nil || !bytes.Contains(got, []byte(`"isError":true`)) {
		t.Errorf("a pointer that was never given out: %s, %v", got, err)
	}
}

// TestExample builds the example as its author would: outside our module, with
// nothing but the public SDK.
func TestExample(t *testing.T) {
	dir := t.TempDir()
	err := filepath.WalkDir(filepath.Join(root, "examples/wordcount"), func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return copyFile(p, filepath.Join(dir, filepath.Base(p)))
	})
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	gomod := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(gomod)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gomod, bytes.Replace(text, []byte("=> ../.."), []byte("=> "+here), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	wasm := build(t, dir)
	about, err := manifest.Extract(wasm)
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Parse(about)
	if err != nil {
		t.Fatal(err)
	}
	var input struct {
		Properties map[string]any
		Required   []string
	}
	if err := json.Unmarshal(m.Tools[0].Input, &input); err != nil || m.Tools[0].Name != "word_count" || len(input.Properties) != 2 || len(input.Required) != 1 {
		t.Errorf("manifest %s, %v", about, err)
	}
	if m.Tools[0].Capabilities.Read == nil || m.Tools[0].Capabilities.Write != nil {
		t.Errorf("it asks for %+v, want to read only", m.Tools[0].Capabilities)
	}
}

// TestBuildFails: no step that fails leaves a file or touches an older one.
func TestBuildFails(t *testing.T) {
	write := func(source string) string {
		dir := t.TempDir()
		for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.26\n", "main.go": source} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	bad := errors.New("not good")
	fine := "package main\n\nfunc main() {}\n"
	for _, c := range []struct {
		name, dir string
		o         guestbuild.Options
		want      string
	}{
		{"does not compile", write("package main\n\nfunc main() { undefined() }\n"), guestbuild.Options{}, "undefined: undefined"},
		{"no folder", filepath.Join(t.TempDir(), "none"), guestbuild.Options{}, "none"},
		{"does not describe itself", write(fine), guestbuild.Options{}, "no export wt_describe"},
		{"a description that is refused", write(fine), guestbuild.Options{
			Describe: func(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil },
			Embed:    func(_, _ []byte) ([]byte, error) { return nil, bad },
		}, "not good"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.wasm")
			if err := os.WriteFile(out, []byte("older"), 0o644); err != nil {
				t.Fatal(err)
			}
			c.o.Dir, c.o.Out, c.o.AnyToolchain = c.dir, out, true
			if c.o.Describe == nil {
				c.o.Describe, c.o.Embed = describe, embed
			}
			_, err := guestbuild.Build(t.Context(), c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Build = %v, want %q in it", err, c.want)
			}
			if got, _ := os.ReadFile(out); string(got) != "older" {
				t.Errorf("the older file holds %q now", got)
			}
			if left, _ := os.ReadDir(filepath.Dir(out)); len(left) != 1 {
				t.Errorf("%d files are left, want 1", len(left))
			}
		})
	}
}
