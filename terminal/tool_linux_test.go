package terminal_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wasmtools/wasmtools/terminal"
	"github.com/wasmtools/wasmtools/tool"
)

// gate agrees, and remembers what it was asked.
type gate struct {
	asked []terminal.Question
	plan  *tool.Plan
	err   error
	first func() // before it answers
}

func (g *gate) Ask(_ context.Context, _ tool.Invocation, q terminal.Question) (*tool.Plan, error) {
	g.asked = append(g.asked, q)
	if g.first != nil {
		g.first()
	}
	return g.plan, g.err
}

func call(t *testing.T, x tool.Tool, args string) (tool.Result, terminal.Result) {
	t.Helper()
	r, err := x.Call(context.Background(), tool.Invocation{Tool: "terminal_session", Arguments: json.RawMessage(args)}, nil)
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	var s terminal.Result
	if r.Structured != nil {
		if err := json.Unmarshal(r.Structured, &s); err != nil {
			t.Fatal(err)
		}
	}
	return r, s
}

// TestTool: each operation through the tool, as a model calls it.
func TestTool(t *testing.T) {
	t.Parallel()
	m, g := plain(t), &gate{}
	x := terminal.NewTool(m, g)
	r, s := call(t, x, `{"op":"exec","command":"echo out; exit 3","env":{"A":"b"},"timeout_ms":5000}`)
	if r.IsError || s.State != terminal.Finished || s.Output != "out\n" || *s.ExitCode != 3 || !strings.Contains(r.PlainText(), "exit code 3") || !strings.Contains(r.PlainText(), "\nout\n") {
		t.Errorf("exec: %+v\n%s", s, r.PlainText())
	}
	q := g.asked[0]
	if q.Kind != terminal.IsCommand || q.Preview.Command != "echo out; exit 3" || q.Preview.Env["A"] != "b" || q.Profile != "none" || q.Timeout.Seconds() != 5 || q.Effects != tool.Executes || q.Preview.Cwd == "" {
		t.Errorf("it asked %+v", q)
	}
	r, s = call(t, x, `{"op":"open","cols":80,"rows":24}`)
	id := s.Session
	if id == "" || g.asked[1].Kind != terminal.Opens {
		t.Fatalf("open: %s", r.PlainText())
	}
	for _, c := range []struct{ args, want string }{
		{`{"op":"run","session":"ID","command":"cd /; echo in"}`, "in\n"},
		{`{"op":"run","session":"ID","command":"sleep 1000 & echo bg","until":"finished","yield_ms":5000,"max_output_bytes":1000}`, "bg\n"},
		{`{"op":"read","session":"ID","cursor":0,"max_bytes":256}`, "in\n"},
		{`{"op":"screen","session":"ID"}`, "[screen 80x24"},
		{`{"op":"resize","session":"ID","cols":100,"rows":30}`, "[finished"},
		{`{"op":"send","session":"ID","text":"echo typ''ed\n"}`, "typed\n"},
		{`{"op":"send","session":"ID","keys":["C-c"]}`, ""},
		{`{"op":"wait","session":"ID","until":"idle:50","timeout_ms":1000}`, ""},
		{`{"op":"signal","session":"ID","signal":"INT","target":"foreground"}`, ""},
		{`{"op":"list"}`, "session ID"},
		{`{"op":"close","session":"ID"}`, "session_ended"},
		{`{"op":"read","session":"ID"}`, "session_ended"},
	} {
		r, s := call(t, x, strings.ReplaceAll(c.args, "ID", id))
		if r.IsError || s.State == "" || !strings.Contains(r.PlainText(), strings.ReplaceAll(c.want, "ID", id)) {
			t.Errorf("%s:\n%s", c.args, r.PlainText())
		}
	}
	if r, _ := call(t, terminal.NewTool(m, nil), `{"op":"exec","command":"true"}`); r.Code != tool.Denied {
		t.Errorf("without a gate: %+v", r)
	}
	if r, _ := call(t, x, `{"op":"run","session":"s-aaaaaaaaaaaa","command":"true"}`); r.Code != tool.Lost {
		t.Errorf("an unknown session: %+v", r)
	}
	g.err = tool.Errorf(tool.Denied, "no")
	if r, _ := call(t, x, `{"op":"exec","command":"touch denied"}`); r.Code != tool.Denied {
		t.Errorf("denied: %+v", r)
	}
}

// TestArguments: faults are told with their place, all at once.
func TestArguments(t *testing.T) {
	for args, want := range map[string][]string{
		`[]`:              {"no JSON object"},
		`{}`:              {"$.op"},
		`{"op":"rm"}`:     {"$.op", "exec, open, run"},
		`{"op":"exec"}`:   {"$.command: op exec needs it"},
		`{"op":"screen"}`: {"$.session: op screen needs session or process"},
		`{"op":"exec","command":"x","session":"s","cols":3}`:                 {"$.cols: op exec does not take it", "$.session"},
		`{"op":"run","session":"s","command":"x","cwd":"y"}`:                 {"$.cwd"},
		`{"op":"wait","session":"s","process":"p","until":"never"}`:          {"$.process", "$.until"},
		`{"op":"send","session":"s"}`:                                        {"$.text: op send takes one of"},
		`{"op":"send","session":"s","text":"a","keys":["b"]}`:                {"2 are given"},
		`{"op":"exec","command":"x","yield_ms":1,"timeout_ms":-1}`:           {"$.yield_ms: 1 is not between 50 and 120000", "$.timeout_ms"},
		`{"op":"exec","command":7}`:                                          {"$.command"},
		`{"op":"exec","command":"x","env":{"A":1}}`:                          {"$.env"},
		`{"op":"resize","session":"s","cols":0,"rows":1000}`:                 {"$.cols", "$.rows"},
		`{"op":"signal","session":"s","signal":"NOPE","target":"everybody"}`: {"$.signal", "$.target"},
		`{"op":"read","session":"s","max_bytes":1}`:                          {"$.max_bytes"},
	} {
		_, err := terminal.Decode(json.RawMessage(args))
		if tool.CodeOf(err) != tool.InvalidArguments {
			t.Errorf("Decode(%s) = %v", args, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("Decode(%s) = %v; want %q in it", args, err, w)
			}
		}
	}
}

// TestSchema: the schema is one, knows exactly the arguments that operations take,
// and the description is as short as clients want it.
func TestSchema(t *testing.T) {
	d := terminal.NewTool(nil, nil).Definition()
	var s jsonschema.Schema
	if err := json.Unmarshal(d.Input, &s); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resolve(nil); err != nil {
		t.Fatal(err)
	}
	if len(d.Description) > 1500 || !tool.ValidName(d.Name) {
		t.Errorf("description of %d bytes", len(d.Description))
	}
	known := terminal.TakenArguments()
	for name := range s.Properties {
		if name != "op" && !slices.Contains(known, name) {
			t.Errorf("no operation takes %s", name)
		}
	}
	for _, name := range known {
		if s.Properties[name] == nil {
			t.Errorf("the schema does not know %s", name)
		}
	}
	if len(s.Properties["op"].Enum) != len(terminal.Ops) {
		t.Errorf("operations %v", s.Properties["op"].Enum)
	}
	for _, op := range terminal.Ops {
		if !slices.Contains(s.Properties["op"].Enum, any(op)) || !strings.Contains(d.Description, op) {
			t.Errorf("operation %s is not explained", op)
		}
	}
}

// TestBinding: whatever changes what a call does changes the question's digest.
func TestBinding(t *testing.T) {
	m := plain(t)
	bind := func(args string) tool.Digest {
		t.Helper()
		p, err := m.Prepare(context.Background(), json.RawMessage(args))
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		defer p.Close()
		return p.Question.Preview.Binding
	}
	const base = `{"op":"exec","command":"true"`
	first := bind(base + "}")
	if bind(base+"}") != first || bind(base+`,"yield_ms":100,"max_output_bytes":300}`) != first {
		t.Error("the same call has another digest")
	}
	seen := map[tool.Digest]string{first: base}
	id := session(t, m, terminal.OpenRequest{})
	for _, args := range []string{
		`{"op":"exec","command":"true "}`, base + `,"tty":true}`, base + `,"split":true}`, base + `,"env":{"A":"b"}}`, base + `,"env":{"A":"c"}}`,
		base + `,"timeout_ms":1000}`, base + `,"cwd":"/"}`, `{"op":"run","session":"` + id + `","command":"true"}`,
		`{"op":"send","session":"` + id + `","text":"true"}`, `{"op":"send","session":"` + id + `","keys":["Enter"]}`, `{"op":"send","session":"` + id + `","keys":["Up"]}`,
		`{"op":"send","session":"` + id + `","secret_ref":"a"}`, `{"op":"open"}`, `{"op":"open","shell":"sh"}`,
	} {
		d := bind(args)
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", args, other)
		}
		seen[d] = args
	}
	run(t, m, id, "cd /")
	if d := bind(`{"op":"run","session":"` + id + `","command":"true"}`); seen[d] != "" {
		t.Error("another directory has the same digest")
	}
}

// TestMismatch: what changed while somebody thought about it is not done.
func TestMismatch(t *testing.T) {
	t.Parallel()
	root := realDir(t)
	m := open(t, terminal.Options{Root: root, State: realDir(t), Profile: "none", AllowUnsandboxed: true})
	g := &gate{}
	x := terminal.NewTool(m, g)
	if err := errors.Join(os.Mkdir(root+"/a", 0o700), os.Mkdir(root+"/b", 0o700)); err != nil {
		t.Fatal(err)
	}
	id := session(t, m, terminal.OpenRequest{})
	control := func(args string) {
		t.Helper()
		g.first = nil
		if r, _ := call(t, x, args); r.IsError {
			t.Errorf("nothing changed: %s", r.PlainText())
		}
	}
	swap := func() {
		if err := errors.Join(os.Rename(root+"/a", root+"/c"), os.Rename(root+"/b", root+"/a"), os.Mkdir(root+"/b", 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	const inA = `{"op":"exec","command":"touch here","cwd":"a"}`
	control(inA)
	g.first = swap
	if r, _ := call(t, x, inA); r.Code != tool.ApprovalMismatch {
		t.Errorf("another directory: %s", r.PlainText())
	}
	if _, err := os.Stat(root + "/a/here"); err == nil {
		t.Error("it ran in the other directory")
	}
	here := `{"op":"run","session":"` + id + `","command":"touch moved"}`
	control(here)
	g.first = func() { run(t, m, id, "cd /tmp") }
	if r, _ := call(t, x, here); r.Code != tool.ApprovalMismatch {
		t.Errorf("the session moved: %s", r.PlainText())
	}
	send := `{"op":"send","session":"` + id + `","text":"true\n"}`
	control(send)
	g.first = func() {
		if _, err := m.Run(context.Background(), terminal.RunRequest{Session: id, Command: "cat", Until: until(t, "input")}, terminal.Feedback{}); err != nil {
			t.Fatal(err)
		}
	}
	if r, _ := call(t, x, send); r.Code != tool.ApprovalMismatch {
		t.Errorf("another program: %s", r.PlainText())
	}
}

// TestPlan: what was judged runs, and nothing of the session's state has a part in it.
func TestPlan(t *testing.T) {
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	run(t, m, id, "mkdir sub; cd sub; alias echo='echo ALIAS'; echo() { printf FUNCTION; }; printf() { :; }; export PATH=/nowhere BASH_ENV=/tmp/x X=exported; IFS=x")
	g := &gate{plan: &tool.Plan{Script: "echo planned $X; pwd | sed 's,.*/,,'", Env: []string{"PATH=/usr/bin:/bin"}}}
	x := terminal.NewTool(m, g)
	r, s := call(t, x, `{"op":"run","session":"`+id+`","command":"echo original"}`)
	if s.Output != "planned\nsub\n" {
		t.Errorf("a script: %s", r.PlainText())
	}
	g.plan = &tool.Plan{Pipe: []tool.Exec{{Path: "/bin/echo", Args: []string{"echo", "a'b $X *", "c"}}, {Path: "/usr/bin/tr", Args: []string{"tr", "a", "A"}}}, Env: []string{"PATH=/usr/bin:/bin"}}
	if r, s = call(t, x, `{"op":"run","session":"`+id+`","command":"echo original"}`); s.Output != "A'b $X * c\n" {
		t.Errorf("a pipe: %s", r.PlainText())
	}
	if r, s = call(t, x, `{"op":"exec","command":"echo original"}`); s.Output != "A'b $X * c\n" {
		t.Errorf("a pipe without a session: %s", r.PlainText())
	}
	g.plan.Pipe = g.plan.Pipe[:1]
	if r, s = call(t, x, `{"op":"exec","command":"echo original"}`); s.Output != "a'b $X * c\n" {
		t.Errorf("one program: %s", r.PlainText())
	}
	g.plan = &tool.Plan{Script: "echo $0 $PATH", Env: []string{"PATH=/bin"}}
	if r, s = call(t, x, `{"op":"exec","command":"echo original"}`); s.Output != "bash /bin\n" {
		t.Errorf("a script without a session: %s", r.PlainText())
	}
}

// TestKinds: what is typed into a program that takes commands is a command.
func TestKinds(t *testing.T) {
	t.Parallel()
	m := plain(t)
	for _, c := range []struct {
		command, send string
		want          terminal.Kind
	}{
		{"", `"text":"y\n"`, terminal.IsCommand}, // the shell itself
		{"", `"keys":["Enter"]`, terminal.IsCommand},
		{"", `"keys":["C-c"]`, terminal.IsAnswer},
		{"cat", `"text":"y\n"`, terminal.IsAnswer},
		{"cat", `"text":"rm -rf\n"`, terminal.IsInput},
		{"cat", `"keys":["Up","Enter"]`, terminal.IsAnswer},
		{"cat", `"keys":["C-z"]`, terminal.IsInput},
		{"cat | bash", `"text":"y\n"`, terminal.IsCommand},
		{"cp /bin/sh harmless && ./harmless", `"text":"y\n"`, terminal.IsCommand},
		{"python3 -c 'input()'", `"text":"y\n"`, terminal.IsCommand},
	} {
		id := session(t, m, terminal.OpenRequest{})
		if c.command != "" {
			if _, err := m.Run(context.Background(), terminal.RunRequest{Session: id, Command: c.command, Until: until(t, "input"), Yield: patience}, terminal.Feedback{}); err != nil {
				t.Fatal(err)
			}
		}
		p, err := m.Prepare(context.Background(), json.RawMessage(`{"op":"send","session":"`+id+`",`+c.send+`}`))
		if err != nil {
			t.Fatal(err)
		}
		if p.Question.Kind != c.want {
			t.Errorf("%s into %q: %s, want %s (%+v)", c.send, c.command, p.Question.Kind, c.want, p.Question.Program)
		}
		p.Close()
		if _, err := m.Close(context.Background(), id, terminal.Feedback{}); err != nil {
			t.Error(err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"op":"exec","command":"x","env":{"A":"b"}}`))
	f.Add([]byte(`{"op":"wait","session":"s","until":"regex:a(b","timeout_ms":1e3}`))
	f.Add([]byte(`{"op":"send","keys":["C-c",""],"session":null}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		a, err := terminal.Decode(p)
		if err != nil && tool.CodeOf(err) != tool.InvalidArguments {
			t.Errorf("Decode(%q) = %v", p, err)
		}
		if err == nil && !slices.Contains(terminal.Ops, a.Op) {
			t.Errorf("Decode(%q) = %+v", p, a)
		}
	})
}
