package search

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/workspace"
)

// rgTree is what the patterns of the comparison meet: every kind of line end,
// encoding, hidden and ignored file that they could take differently.
var rgTree = map[string]string{
	"a.txt":               "foo bar\nfoobar\nbar foo\n  foo_bar\nFOO\n\nend of foo\n",
	"b.go":                "package b\n\nfunc Foo() error {\n\treturn errFoo\n}\n\nfunc fooBar(x int) (string, error) { return \"\", nil }\n// 192.168.0.1 2026-01-02\n",
	"crlf.txt":            "foo\r\nbar foo\r\n\r\nfoo \r\nend\r\nlast foo",
	"mixed.txt":           "foo\r\nfoo\nx\ry foo\nfoo\r\r\n\r\n",
	"latin1.txt":          "caf\xe9 foo\n\xff\xfe bad\nfoo\xe9\n\xe9foo\nplain\n",
	"utf8.txt":            "na\u00efve\nnaive\n\u00e9t\u00e9foo\nfoo\u00e9t\u00e9\nx\u00e9y\n\u00e9\n\u212Aelvin\nmi\u017Fs\nKelvin\nmiss\nfoo\u2028foo\ffoo\nMünchen MÜNCHEN\n日本 foo\n",
	"nul.bin":             "foo\x00bar\nfoo\n",
	"latenul.bin":         "foo first\n" + strings.Repeat("_", 200_000) + "\n\x00\nfoo\n",
	"utf16le.txt":         "\xff\xfe" + utf16le("foo wide\r\nbar\nfoo\n"),
	"utf16be.txt":         "\xfe\xff\x00f\x00o\x00o\x00\n",
	"bom.txt":             "\xef\xbb\xbffoo after the mark\nfoo\n",
	"noend.txt":           "one\nfoo",
	"empty.txt":           "",
	"blank.txt":           "\n\n\n",
	"long.txt":            strings.Repeat("x", 70_000) + "foo" + strings.Repeat("y", 70_000) + "\nfoo\n",
	".hidden/h.txt":       "foo hidden\n",
	".dot":                "foo dot\n",
	".env.example":        "foo=1\n",
	"sub/deep/er/d.txt":   "foo deep\nerror: something\nWARN foo\n",
	"sub/x.tmp":           "foo tmp\n",
	"sub/keep.log":        "foo keep\n",
	"sub/drop.log":        "foo drop\n",
	"sub/.gitignore":      "*.tmp\n!/er.tmp\ndeep2/\n",
	"sub/deep2/n.txt":     "foo not\n",
	"build/out.txt":       "foo build\n",
	"src/build/in.txt":    "foo nested build\n",
	"top.txt":             "foo top\n",
	"src/top.txt":         "foo src top\n",
	"x/y/z.c":             "int foo(void) { return 1; }\n#define FOO 1\n",
	"x/y/z.h":             "int foo(void);\n",
	"vendor/v.go":         "package v // foo\n",
	"doc/a b.txt":         "foo with a space\n",
	"doc/a[1].txt":        "foo with brackets\n",
	".gitignore":          "# comment\n*.log\n!keep.log\nbuild/\n/top.txt\nvendor/\n",
	".ignore":             "x/y/*.h\n",
	".rgignore":           "!x/y/z.h\ndoc/a[[]1].txt\n",
	".git/HEAD":           "ref: foo\n",
	".git/info/exclude":   "excluded.txt\n",
	"excluded.txt":        "foo excluded\n",
	"nested/.git/HEAD":    "ref: foo\n",
	"nested/own.log":      "foo in a repository of its own\n",
	"nested/.gitignore":   "mine.txt\n",
	"nested/mine.txt":     "foo mine\n",
	"nested/excluded.txt": "foo, excluded in the outer repository only\n",
	"multi.txt":           "start\nmiddle one\nmiddle two\nfinish\nstart finish\nfoo\n\nbar\nopen {\n  body\n}\n",
	"multi_crlf.txt":      "start\r\nmiddle\r\nfinish\r\n",
	"code/regex.py":       "import re\nx = re.compile(r'^foo\\d+$')\nprint(\"a.b\", a.b, [1,2], {'k': 1})\n$HOME ^caret (paren) a|b c+d e*f g?h\n--files b\n",
	"tabs.txt":            "a\tfoo\n\tfoo\t\nfoo\t\n",
	"digits.txt":          "1\n12\n123\n1234\n0x1F 0b11 3.14\n",
	"UPPER.TXT":           "FOO UPPER\n",
}

func utf16le(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteByte(byte(r))
		b.WriteByte(byte(r >> 8))
	}
	return b.String()
}

type rgRow struct {
	name string
	req  Request // Pattern and its switches
	rg   []string
	// ours and rgs are the differences that docs/search.md lists: lines that only
	// one of the two gives.
	ours, rgs []string
	git       bool              // let rg see .git, as it does unless told otherwise
	files     map[string]string // instead of rgTree
}

// lateNUL is the line before a NUL in the midst of a file; how near to the NUL
// ripgrep searches depends on its buffer.
var lateNUL = []string{"latenul.bin:2"}

var rgRows = []rgRow{
	{name: "literal", req: Request{Pattern: "foo"}},
	{name: "literal -F", req: Request{Pattern: "a.b", Literal: true}, rg: []string{"-F"}},
	{name: "literal with magic", req: Request{Pattern: "$HOME ^caret (paren) a|b c+d e*f g?h", Literal: true}, rg: []string{"-F"}},
	{name: "like a flag", req: Request{Pattern: "--files"}},
	{name: "dot is a code point", req: Request{Pattern: "na.ve"}, ours: []string{"utf8.txt:1"}},
	{name: "a code point is two dots", req: Request{Pattern: "na..ve"}, rgs: []string{"utf8.txt:1"}},
	{name: "negated class is a code point", req: Request{Pattern: "x[^a]y"}, ours: []string{"utf8.txt:5"}},
	{name: "counted code points", req: Request{Pattern: "^.{2}$"}, rgs: []string{"utf8.txt:6"}},
	{name: "byte escape", req: Request{Pattern: `caf\xe9`}, rgs: []string{"latin1.txt:1"}},
	{name: "intersection", req: Request{Pattern: `[[a-c]&&[b-d]]ar foo`}, rgs: []string{"a.txt:3", "crlf.txt:2"}},
	{name: "version control's own files", req: Request{Pattern: "ref: foo"}, git: true, rgs: []string{".git/HEAD:1", "nested/.git/HEAD:1"}},
	{name: "CR alone ends lines", files: map[string]string{"cr.txt": "foobarfoo bar"}, req: Request{Pattern: "bar"}, ours: []string{"cr.txt:2", "cr.txt:3"}, rgs: []string{"cr.txt:1"}},
	{name: "CR in a double CR", req: Request{Pattern: "foo$", Glob: "mixed.txt"}, rg: []string{"-g", "mixed.txt"}, rgs: []string{"mixed.txt:4"}},
	{name: "literal -F -i", req: Request{Pattern: "KeLvIn", Literal: true, IgnoreCase: true}, rg: []string{"-F", "-i"}},
	{name: "-i", req: Request{Pattern: "foo", IgnoreCase: true}, rg: []string{"-i"}},
	{name: "-i with k and s", req: Request{Pattern: "kelvin|miss", IgnoreCase: true}, rg: []string{"-i"}},
	{name: "(?i) class", req: Request{Pattern: "(?i)mi[s]s"}},
	{name: "(?i) part", req: Request{Pattern: "f(?i:oo)bar"}},
	{name: "alternation", req: Request{Pattern: "foobar|errFoo|hidden"}},
	{name: "anchored", req: Request{Pattern: "^foo"}},
	{name: "end before CRLF", req: Request{Pattern: "foo$"}, rgs: []string{"mixed.txt:4"}},
	{name: "whole line before CRLF", req: Request{Pattern: "^foo$"}, rgs: []string{"mixed.txt:4"}},
	{name: "empty line", req: Request{Pattern: "^$"}},
	{name: "any line", req: Request{Pattern: "^"}, ours: lateNUL},
	{name: "any line by its end", req: Request{Pattern: "$"}, ours: lateNUL},
	{name: "dot before CRLF", req: Request{Pattern: "foo.$"}},
	{name: "space at the end", req: Request{Pattern: `\s$`}},
	{name: "negated class before CRLF", req: Request{Pattern: "foo[^x]"}},
	{name: "dot and a CR inside", req: Request{Pattern: "x.y"}, ours: []string{"utf8.txt:5"}},
	{name: "begin of text", req: Request{Pattern: `\Afoo`}},
	{name: "end of text", req: Request{Pattern: `WARN foo\z`}, ours: []string{"sub/deep/er/d.txt:3"}},
	{name: `\b`, req: Request{Pattern: `\bfoo\b`}},
	{name: `\b next to non-ASCII`, req: Request{Pattern: `\bt\b`}},
	{name: `\B`, req: Request{Pattern: `\Bfoo`}},
	{name: `\w next to non-ASCII`, req: Request{Pattern: `\wfoo`}},
	{name: `\W next to non-ASCII`, req: Request{Pattern: `foo\W`}},
	{name: `\w+`, req: Request{Pattern: `^\w+$`}, ours: lateNUL},
	{name: `\d`, req: Request{Pattern: `\d{3,}`}},
	{name: `\d anchored`, req: Request{Pattern: `^\d{2,3}$`}},
	{name: `\s`, req: Request{Pattern: `foo\sbar`}},
	{name: "tab", req: Request{Pattern: `\tfoo`}},
	{name: "posix class", req: Request{Pattern: `[[:digit:]]+\.[[:digit:]]+`}},
	{name: "invalid UTF-8 before", req: Request{Pattern: "bad"}},
	{name: "dot on an invalid byte", req: Request{Pattern: "caf. foo"}},
	{name: "class on an invalid byte", req: Request{Pattern: "foo[^a-z ]$"}},
	{name: "star", req: Request{Pattern: "fo*b"}},
	{name: "lazy", req: Request{Pattern: "f.*?r"}},
	{name: "counted", req: Request{Pattern: "o{2}b"}},
	{name: "empty alternative", req: Request{Pattern: "(foo|)bar"}},
	{name: "no literal at all", req: Request{Pattern: `[A-Z][a-z]+\(`}},
	{name: "function", req: Request{Pattern: `func\s+\w+\(`}},
	{name: "address", req: Request{Pattern: `\d+\.\d+\.\d+\.\d+`}},
	{name: "no match", req: Request{Pattern: "nosuchthinganywhere"}},
	{name: "binary only", req: Request{Pattern: "foo\\x00bar"}},
	{name: "long line", req: Request{Pattern: "xfooy"}},
	{name: "form feed and U+2028 end no line", req: Request{Pattern: "foo\\ffoo"}},

	{name: "glob", req: Request{Pattern: "foo", Glob: "*.txt"}, rg: []string{"-g", "*.txt"}},
	{name: "glob with a slash", req: Request{Pattern: "foo", Glob: "sub/**/*.txt"}, rg: []string{"-g", "sub/**/*.txt"}},
	{name: "glob anchored", req: Request{Pattern: "foo", Glob: "/*.txt"}, rg: []string{"-g", "/*.txt"}},
	{name: "glob braces", req: Request{Pattern: "foo", Glob: "*.{c,h,go}"}, rg: []string{"-g", "*.{c,h,go}"}},
	{name: "glob excluded", req: Request{Pattern: "foo", Glob: "!*.txt"}, rg: []string{"-g", "!*.txt"}},
	{name: "glob list", req: Request{Pattern: "foo", Glob: "*.txt, !sub"}, rg: []string{"-g", "*.txt", "-g", "!sub"}},
	{name: "glob names the ignored", req: Request{Pattern: "foo", Glob: "*.log"}, rg: []string{"-g", "*.log"}},
	{name: "glob below an ignored directory", req: Request{Pattern: "foo", Glob: "build/*.txt"}, rg: []string{"-g", "build/*.txt"}},
	{name: "glob case", req: Request{Pattern: "FOO", Glob: "*.TXT"}, rg: []string{"-g", "*.TXT"}},
	{name: "glob class", req: Request{Pattern: "foo", Glob: "[ab].*"}, rg: []string{"-g", "[ab].*"}},

	{name: "path", req: Request{Pattern: "foo", Path: "sub"}},
	{name: "path below ignored", req: Request{Pattern: "foo", Path: "build"}},
	{name: "path with ignore files above", req: Request{Pattern: "foo", Path: "x/y"}},
	{name: "ignored file named", req: Request{Pattern: "foo", Path: "sub/drop.log"}},
	{name: "path in .git", req: Request{Pattern: "foo", Path: "nested/.git"}},

	{name: "multiline", req: Request{Pattern: `start.*?finish`, Multiline: true}, rg: []string{"-U", "--multiline-dotall"}},
	{name: "multiline with LF", req: Request{Pattern: `foo\n\nbar`, Multiline: true}, rg: []string{"-U", "--multiline-dotall"}},
	{name: "multiline class", req: Request{Pattern: `\{[^}]*\}`, Multiline: true}, rg: []string{"-U", "--multiline-dotall"}},
	{name: "multiline on one line", req: Request{Pattern: `foo`, Multiline: true}, rg: []string{"-U", "--multiline-dotall"}},
	{name: "multiline anchors", req: Request{Pattern: `^middle \w+$\n^middle`, Multiline: true}, rg: []string{"-U", "--multiline-dotall"}},
	{name: "multiline CRLF", req: Request{Pattern: `start\r\nmiddle$`, Multiline: true}, rg: []string{"-U", "--multiline-dotall"}},
}

func TestSameLinesAsRipgrep(t *testing.T) {
	rg := needTool(t, "rg")
	dir := t.TempDir()
	writeTree(t, dir, rgTree)
	for _, l := range [][2]string{{"a.txt", "link.txt"}, {"..", "sub/up"}, {"/etc", "outside"}, {"nowhere", "dangling"}} {
		if err := os.Symlink(l[0], filepath.Join(dir, l[1])); err != nil {
			t.Fatal(err)
		}
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, row := range rgRows {
		t.Run(row.name, func(t *testing.T) {
			if row.files == nil {
				sameLines(t, rg, dir, o, row)
				return
			}
			own := t.TempDir()
			writeTree(t, own, row.files)
			sameLines(t, rg, own, overlay(t, own, workspace.OverlayOptions{}), row)
		})
	}
}

// TestSameLinesAsRipgrepInSource compares on real source text, where the lines
// of a pattern are many and nobody chose them.
func TestSameLinesAsRipgrepInSource(t *testing.T) {
	rg := needTool(t, "rg")
	dir := t.TempDir()
	for _, sub := range []string{"fmt", "regexp", "encoding/json", "unicode/utf8", "go/parser", "strings"} {
		if err := os.CopyFS(filepath.Join(dir, sub), os.DirFS(filepath.Join(goroot(), "src", sub))); err != nil {
			t.Skipf("the toolchain's sources are not here: %v", err)
		}
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, p := range []string{"RoundTripper", `func \w+Error`, "(?i)roundtripper", `^\s*//\s*\w+ed\b`, `[A-Z]\w+\(`, `\bs\b.*\bk\b`, `"[^"]*\\n"`, `0x[0-9a-fA-F]+`, `(?i)\bTODO\b`, `return nil, (err|nil)$`, `[^\x00-\x7f]`, `[ -~]{120,}`} {
		t.Run(p, func(t *testing.T) { sameLines(t, rg, dir, o, rgRow{req: Request{Pattern: p}}) })
	}
}

func sameLines(t *testing.T, rg, dir string, o *workspace.Overlay, row rgRow) {
	args := append([]string{"--no-config", "--hidden", "--no-unicode", "--crlf", "--no-require-git", "--no-ignore-global", "-n0", "--no-heading", "--color=never", "--with-filename"}, row.rg...)
	if !row.git && !strings.Contains(row.req.Path, ".git") {
		args = append(args, "-g", "!.git")
	}
	args = append(args, "-e", row.req.Pattern)
	if row.req.Path != "" {
		args = append(args, row.req.Path)
	} else {
		args = append(args, "./")
	}
	cmd := exec.Command(rg, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if x, ok := err.(*exec.ExitError); err != nil && (!ok || x.ExitCode() != 1) {
		t.Fatalf("rg %q: %v\n%s", args, err, stderr.Bytes())
	}
	want := map[string]string{}
	for line := range bytes.SplitSeq(out, []byte{'\n'}) {
		path, rest, ok := bytes.Cut(line, []byte{0})
		if !ok {
			continue // a remark on a binary file, or the last end
		}
		number, text, _ := bytes.Cut(rest, []byte{':'})
		want[strings.TrimPrefix(string(path), "./")+":"+string(number)] = validUTF8(bytes.TrimSuffix(text, []byte{'\r'}))
	}
	got := map[string]string{}
	req := row.req
	req.Kind, req.Mode, req.Limit = "grep", "content", maxLimit
	for {
		res, err := Run(context.Background(), o, req)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range res.Lines {
			key := l.Path + ":" + strconv.Itoa(l.Line)
			got[key] = l.Text
			if long, ok := want[key]; ok && l.Cut && strings.Contains(long, l.Text) {
				want[key] = l.Text
			}
		}
		if req.Offset = res.NextOffset; req.Offset == 0 {
			break
		}
	}
	for _, key := range row.ours {
		if _, ok := got[key]; !ok {
			t.Errorf("the listed difference %s is none: wasmtools does not give it either", key)
		}
		delete(got, key)
	}
	for _, key := range row.rgs {
		if _, ok := want[key]; !ok {
			t.Errorf("the listed difference %s is none: rg does not give it either", key)
		}
		delete(want, key)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if text, ok := got[key]; !ok {
			t.Errorf("rg alone gives %s %.80q", key, want[key])
		} else if text != want[key] {
			t.Errorf("%s = %.80q; rg %.80q", key, text, want[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			t.Errorf("rg does not give %s %.80q", key, got[key])
		}
	}
}

func writeTree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(full, 0o777); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(full, []byte(text), fs.FileMode(0o666)); err != nil {
			t.Fatal(err)
		}
	}
}

func overlay(t testing.TB, dir string, opts workspace.OverlayOptions) *workspace.Overlay {
	t.Helper()
	w, err := workspace.Open(dir, workspace.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	o := w.Overlay(opts)
	t.Cleanup(func() {
		o.Close()
		if err := w.Close(); err != nil {
			t.Error(fmt.Errorf("close: %w", err))
		}
	})
	return o
}
