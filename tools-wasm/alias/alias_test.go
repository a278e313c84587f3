package alias

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wasmtools/wasmtools/tool"
)

var mapped = []struct{ name, args, target, want string }{
	// Callers of the older names, and the spellings of public agents.
	{"read", `{"path":"a"}`, "read_open", `{"path":"a"}`},
	{"read", `{"file_path":"a","offset":10,"limit":5}`, "read_open", `{"path":"a","selection":{"lines":{"start":10,"end":14}}}`},
	{"read", `{"path":"a","offset":0}`, "read_open", `{"path":"a","selection":{"lines":{"start":1}}}`},
	{"read", `{"path":"a","limit":20}`, "read_open", `{"path":"a","selection":{"lines":{"start":1,"end":20}}}`},
	{"read", `{"path":"a","view_range":[3,-1]}`, "read_open", `{"path":"a","selection":{"lines":{"start":3}}}`},
	{"read", `{"path":"a","view_range":[3,9]}`, "read_open", `{"path":"a","selection":{"lines":{"start":3,"end":9}}}`},
	{"read", `{"path":"a","pages":"2-4"}`, "read_open", `{"path":"a","selection":{"pages":{"start":2,"end":4}}}`},
	{"read", `{"path":"a","pages":"2"}`, "read_open", `{"path":"a","selection":{"pages":{"start":2,"end":2}}}`},
	{"read", `{"path":"a","encoding":"utf8","offset":null}`, "read_open", `{"path":"a"}`},
	{"read", `{"path":"a","offset":"7"}`, "read_open", `{"path":"a","selection":{"lines":{"start":7}}}`},
	{"read_slice", `{"path":"a","startLine":2,"endLine":9,"maxLines":3}`, "read_open", `{"path":"a","selection":{"lines":{"start":2,"end":4}}}`},
	{"read_slice", `{"path":"a","range":{"offset":1,"length":2}}`, "read_open", `{"path":"a","selection":{"range":{"offset":1,"length":2}}}`},
	{"read_extract", `{"path":"a","startLine":2}`, "read_open", `{"path":"a","selection":{"lines":{"start":2}}}`},
	{"read_extract", `{"path":"a","heading":"Install"}`, "read_open", `{"path":"a","selection":{"section":{"heading":"Install"}}}`},
	{"read_extract", `{"path":"a","selection":{"lines":{"start":1}}}`, "read_open", `{"path":"a","selection":{"lines":{"start":1}}}`},
	{"read_list", `{"path":"d"}`, "read_discover", `{"mode":"list","path":"d"}`},
	{"ls", ``, "read_discover", `{"mode":"list"}`},
	{"ls", `{"path":".","limit":5000}`, "read_discover", `{"mode":"list","path":".","max_results":1000}`},
	{"ls", `{"recursive":false,"all":true}`, "read_discover", `{"mode":"list"}`},
	{"read_locate", `{"query":"x","path":"d","searchMode":"path","limit":5}`, "read_discover", `{"mode":"locate","query":"x","root":"d","max_results":5}`},
	{"find", `{"pattern":"*.go"}`, "read_discover", `{"mode":"locate","query":"**/*.go"}`},
	{"find", `{"pattern":"main.go"}`, "read_discover", `{"mode":"locate","query":"**/main.go"}`},
	{"glob", `{"pattern":"src/*.go"}`, "read_discover", `{"mode":"locate","query":"src/*.go"}`},
	{"glob", `{"pattern":"**/*.go","path":"d","offset":0,"sort":"none","include_ignored":false}`, "read_discover", `{"mode":"locate","query":"**/*.go","root":"d"}`},
	{"edit", `{"file_path":"a","old_string":"x","new_string":"y"}`, "replace_block", `{"path":"a","old":"x","new":"y"}`},
	{"edit", `{"file_path":"a","old_string":"x","new_string":"y","replace_all":true}`, "replace_block", `{"path":"a","old":"x","new":"y","replace_all":true}`},
	{"edit", `{"path":"a","oldText":"x","newText":""}`, "replace_block", `{"path":"a","old":"x","new":""}`},
	{"edit", `{"path":"a","edits":[{"oldText":"x","newText":"y"},{"old_string":"z","new_string":"w"}]}`, "replace_block", `{"path":"a","edits":[{"old":"x","new":"y"},{"old":"z","new":"w"}]}`},
	{"edit", `{"path":"a","edits":"[{\"oldText\":\"x\",\"newText\":\"y\"},{\"oldText\":\"z\",\"newText\":\"\"}]"}`, "replace_block", `{"path":"a","edits":[{"old":"x","new":"y"},{"old":"z","new":""}]}`},
	{"edit", `{"path":"a","edits":[{"old":"x","new":"y","replace_all":true}]}`, "replace_block", `{"path":"a","old":"x","new":"y","replace_all":true}`},
	{"edit_file", `{"path":"a","operation":"replace_block","expectedOldText":"x","newText":"y","dryRun":true}`, "replace_block", `{"path":"a","old":"x","new":"y","dry_run":true}`},
	{"edit_file", `{"path":"a","operation":"write_file","content":"x"}`, "write_file", `{"path":"a","content":"x","overwrite":false}`},
	{"write", `{"path":"a","content":""}`, "write_file", `{"path":"a","content":"","overwrite":true}`},
	{"write", `{"file_path":"a","file_text":"<b>","overwrite":false}`, "write_file", `{"path":"a","content":"<b>","overwrite":false}`},
	{"bash", `{"command":"ls","description":"List","timeout":10}`, "terminal_session", `{"op":"exec","command":"ls","timeout_ms":10000}`},
	{"bash", `{"command":"ls","timeout":120000,"run_in_background":false}`, "terminal_session", `{"op":"exec","command":"ls","timeout_ms":120000}`},
	{"bash", `{"command":"ls","timeout":0.5}`, "terminal_session", `{"op":"exec","command":"ls","timeout_ms":500}`},
	{"bash", `{"command":"ls","timeout":-1}`, "terminal_session", `{"op":"exec","command":"ls"}`},
	{"bash", `{"cmd":"ls","cwd":"d","env":{"A":"b"},"timeoutMs":5}`, "terminal_session", `{"op":"exec","command":"ls","cwd":"d","env":{"A":"b"},"timeout_ms":5}`},
	{"workspace_mutation", `{"operation":"write","targetPath":"a","content":"x","overwrite":true}`, "write_file", `{"path":"a","content":"x","overwrite":true}`},
	{"workspace_mutation", `{"op":"write","path":"a","content":"x"}`, "write_file", `{"path":"a","content":"x"}`},
	{"workspace_mutation", `{"operation":"delete","targetPath":"a","recursive":true,"dryRun":true}`, "delete_path", `{"path":"a","recursive":true,"dry_run":true}`},
	{"workspace_mutation", `{"operation":"move","targetPath":"a","destinationPath":"b","overwrite":false}`, "move_path", `{"from":"a","to":"b","overwrite":false}`},
	{"workspace_mutation", `{"op":"edit","path":"a","old":"x","new":"y"}`, "replace_block", `{"path":"a","old":"x","new":"y"}`},
}

// schema loads a built-in tool's own schema, against which what an alias gives
// must hold.
func schema(t *testing.T, name string) *jsonschema.Resolved {
	t.Helper()
	p, err := os.ReadFile(filepath.Join("../core", name+".schema.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // terminal_session is native
	}
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(p, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestResolve(t *testing.T) {
	for _, c := range mapped {
		target, args, ok, err := Resolve(c.name, json.RawMessage(c.args))
		if !ok || err != nil || target != c.target {
			t.Errorf("Resolve(%s, %s) = %s, %v, %v; want %s", c.name, c.args, target, ok, err, c.target)
			continue
		}
		var got, want any
		if err := json.Unmarshal(args, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("Resolve(%s, %s) = %s, want %s", c.name, c.args, args, c.want)
		}
		if s := schema(t, target); s != nil {
			if err := s.Validate(got); err != nil {
				t.Errorf("Resolve(%s, %s) does not fit %s: %v", c.name, c.args, target, err)
			}
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, c := range []struct{ name, args, target, says string }{
		{"read", `{}`, "read_open", "$.path: missing"},
		{"read", `[]`, "read_open", "$: is not an object"},
		{"read", `{"path":"a"`, "read_open", "$: is not valid JSON"},
		{"read", `{"path":"a"} x`, "read_open", "$: has text after"},
		{"read", `{"path":"a","path":"b"}`, "read_open", `"path" occurs twice`},
		{"read", `{"path":"a","file_path":"b"}`, "read_open", "$.file_path: says something else than path"},
		{"read", `{"path":"a","offset":-3}`, "read_open", "$.offset: must be a whole number"},
		{"read", `{"path":"a","offset":1.5}`, "read_open", "$.offset: must be a whole number"},
		{"read", `{"path":"a","limit":0}`, "read_open", "$.limit: must be"},
		{"read", `{"path":"a","encoding":"latin1"}`, "read_open", "$.encoding"},
		{"read", `{"path":"a","selection":{},"offset":1}`, "read_open", "$.offset: does not map"},
		{"read", `{"path":"a","view_range":[3]}`, "read_open", "$.view_range"},
		{"read", `{"path":"a","pages":"x"}`, "read_open", "$.pages"},
		{"read_slice", `{"text":"abc","startLine":1}`, "read_open", "$.text: does not map"},
		{"ls", `{"recursive":true}`, "read_discover", "$.recursive"},
		{"ls", `{"ignore":["x"]}`, "read_discover", "$.ignore: does not map"},
		{"find", `{}`, "read_discover", "$.query: missing"},
		{"read_locate", `{"query":"x","searchMode":"content"}`, "read_discover", "use grep"},
		{"read_locate", `{"query":"x","extensions":["go"]}`, "read_discover", "$.extensions"},
		{"glob", `{"pattern":"x","offset":5}`, "read_discover", "$.offset"},
		{"glob", `{"pattern":"x","sort":"modified"}`, "read_discover", "$.sort"},
		{"glob", `{"pattern":"x","include_ignored":true}`, "read_discover", "$.include_ignored"},
		{"edit", `{"path":"a","instructions":"do","code_edit":"x"}`, "replace_block", "$.code_edit: does not map"},
		{"edit", `{"path":"a","edits":[{"old":"x"},5]}`, "replace_block", "$.edits[0].new: missing"},
		{"edit", `{"path":"a","edits":"no"}`, "replace_block", "$.edits"},
		{"edit", `{"path":"a","edits":[{"old":"x","new":"y","replace_all":true},{"old":"z","new":"w"}]}`, "replace_block", "$.edits[0].replace_all"},
		{"edit_file", `{"path":"a","operation":"append"}`, "replace_block", "$.operation"},
		{"write", `{"path":"a"}`, "write_file", "$.content: missing"},
		{"bash", `{"command":"ls","run_in_background":true}`, "terminal_session", "$.run_in_background"},
		{"bash", `{"command":"ls","attachSessionId":"x"}`, "terminal_session", "$.attachSessionId"},
		{"bash", `{"command":"ls","timeout":"x"}`, "terminal_session", "$.timeout"},
		{"bash", `{"command":"ls","timeout":1,"timeout_ms":1}`, "terminal_session", "$.timeout: stands beside"},
		{"workspace_mutation", `{"path":"a"}`, "write_file", "$.op: missing"},
		{"workspace_mutation", `{"op":"chmod","path":"a"}`, "write_file", "$.op: must be"},
		{"workspace_mutation", `{"op":"move","path":"a"}`, "move_path", "$.to: missing"},
	} {
		target, args, ok, err := Resolve(c.name, json.RawMessage(c.args))
		var e *tool.Error
		if !ok || args != nil || !errors.As(err, &e) || e.Code != tool.SchemaInvalid {
			t.Errorf("Resolve(%s, %s) = %s, %s, %v, %v; want schema_invalid", c.name, c.args, target, args, ok, err)
			continue
		}
		if target != c.target || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Resolve(%s, %s): target %s, %q; want %s, %q in it", c.name, c.args, target, err, c.target, c.says)
		}
	}
}

func TestResolveLeavesOthersAlone(t *testing.T) {
	for _, name := range []string{"", "read_open", "Read", "grep", "server__read"} {
		if target, args, ok, err := Resolve(name, json.RawMessage(`{}`)); target != "" || args != nil || ok || err != nil {
			t.Errorf("Resolve(%q) = %q, %s, %v, %v; want nothing", name, target, args, ok, err)
		}
	}
}

func TestNames(t *testing.T) {
	for target, want := range map[string][]string{
		"read_open":        {"read", "read_extract", "read_slice"},
		"read_discover":    {"find", "glob", "ls", "read_list", "read_locate"},
		"replace_block":    {"edit", "edit_file", "workspace_mutation"},
		"write_file":       {"edit_file", "workspace_mutation", "write"},
		"delete_path":      {"workspace_mutation"},
		"move_path":        {"workspace_mutation"},
		"terminal_session": {"bash"},
		"grep":             nil,
	} {
		if got := Names(target); !slices.Equal(got, want) {
			t.Errorf("Names(%s) = %q, want %q", target, got, want)
		}
	}
}

// FuzzResolve: whatever comes, an alias gives an object or a bounded error, and
// only to a target of its list.
func FuzzResolve(f *testing.F) {
	for _, c := range mapped {
		f.Add(c.name, c.args)
	}
	f.Add("edit", `{"edits":[{"old":{}}]}`)
	f.Fuzz(func(t *testing.T, name, args string) {
		target, out, ok, err := Resolve(name, json.RawMessage(args))
		if !ok {
			return
		}
		if !slices.Contains(rules[name].targets, target) {
			t.Fatalf("%s leads to %s", name, target)
		}
		if err != nil {
			if n := len(err.Error()); n > 8000 {
				t.Fatalf("an error of %d bytes", n)
			}
			return
		}
		var m map[string]any
		if err := json.Unmarshal(out, &m); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	})
}
