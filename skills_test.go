//go:build unix

package wasmtools_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/skill"
	"github.com/wasmtools/wasmtools/tool"
)

// TestSkills: a skill is read by its name, its files through read_open and grep,
// and nothing beside it; control: what lies outside can be read by its path.
func TestSkills(t *testing.T) {
	folder, ws := t.TempDir(), t.TempDir()
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(folder, "outside.txt")
	put(outside, "OUTSIDE\n")
	put(filepath.Join(folder, "release", skill.FileName), "---\nname: release\ndescription: How a release is made.\n---\nRead parts/notes.md.\n")
	put(filepath.Join(folder, "release", "parts", "notes.md"), "one\ntag it\n")
	put(filepath.Join(folder, "release", ".env"), "KEY=OUTSIDE\n")
	if err := os.Symlink(outside, filepath.Join(folder, "release", "link")); err != nil {
		t.Fatal(err)
	}
	put(filepath.Join(ws, "mine.txt"), "OUTSIDE of the skill\n")

	rt, err := wasmtools.Open(t.Context(), wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: ws}}, Skills: skill.Load(folder),
		StateDir: filepath.Join(cacheDir(t), "state"), CacheDir: filepath.Join(cacheDir(t), "cache"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	turn, err := rt.Begin(t.Context(), wasmtools.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	call := func(name, args string) tool.Result {
		t.Helper()
		return turn.Call(t.Context(), []wasmtools.Request{{Tool: name, Arguments: json.RawMessage(args)}})[0].Result
	}
	for _, c := range []struct {
		tool, args string
		code       tool.Code
		text       string
	}{
		{"skill", `{}`, "", "release: How a release is made."},
		{"skill", `{"name":"release"}`, "", "skill:release/PATH"},
		{"skill", `{"name":"../release"}`, tool.NotFound, "no skill"},
		{"read_open", `{"path":"skill:release/parts/notes.md"}`, "", "tag it"},
		{"read_open", `{"path":"skill:release"}`, "", "Read parts/notes.md"},
		{"read_open", `{"path":"\u0073kill:release/parts/notes.md"}`, "", "tag it"},
		{"grep", `{"path":"skill:release/parts/notes.md","pattern":"tag","mode":"content"}`, "", "skill:release/parts/notes.md:2: tag it"},
		{"grep", `{"path":"skill:release/parts","pattern":"tag"}`, tool.InvalidArguments, "one file"},
		{"read_open", `{"path":"skill:none/x"}`, tool.NotFound, "no skill"},
		{"read_open", `{"path":"skill:release/../outside.txt"}`, tool.OutsideRoot, ""},
		{"read_open", `{"path":"skill:release/link"}`, tool.OutsideRoot, ""},
		{"read_open", `{"path":"skill:release/.env"}`, tool.Protected, ""},
		{"read_open", `{"path":"skill:release/mine.txt"}`, tool.NotFound, ""},
		{"read_open", `{"path":"mine.txt"}`, "", "OUTSIDE of the skill"},
	} {
		r := call(c.tool, c.args)
		if r.Code != c.code || !strings.Contains(r.PlainText(), c.text) || c.code != "" && strings.Contains(r.PlainText(), "OUTSIDE") {
			t.Errorf("%s %s: %s %q, want %s with %q", c.tool, c.args, r.Code, r.PlainText(), c.code, c.text)
		}
	}
	if r := call("write_file", `{"path":"skill:release/x","content":"x"}`); !r.IsError {
		t.Error("a skill was written to")
	}
	if _, err := os.Stat(filepath.Join(folder, "release", "x")); err == nil {
		t.Error("a skill was changed")
	}
	if b, err := os.ReadFile(filepath.Join(folder, "release", "..", "outside.txt")); err != nil || string(b) != "OUTSIDE\n" {
		t.Error("the control cannot read what lies outside")
	}
}
