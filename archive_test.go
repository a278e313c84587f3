package wasmtools_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

// bulky is a tool that answers what result says.
func bulky(result func(tool.Sink) tool.Result) tool.Tool {
	return host("bulky", tool.Parallel, tool.Reads, func(_ context.Context, _ tool.Invocation, s tool.Sink) (tool.Result, error) {
		return result(s), nil
	})
}

func saying(text string) tool.Tool {
	return bulky(func(tool.Sink) tool.Result { return tool.TextResult(text) })
}

// shelf is a runtime over one workspace whose artifacts a test looks at.
type shelf struct {
	options wasmtools.Options
	space   wasmtools.Workspace
	tools   []tool.Tool
}

func (s shelf) open(t testing.TB) *wasmtools.Turn {
	t.Helper()
	o := s.options
	if s.space.Dir == "" {
		s.space.Dir = t.TempDir()
	}
	o.Workspaces = append([]wasmtools.Workspace{s.space}, o.Workspaces...)
	o.Sources = []catalog.Source{catalog.Static("test", s.tools...)}
	if o.StateDir == "" {
		o.StateDir = filepath.Join(cacheDir(t), "state")
	}
	if o.StateDir == "none" {
		o.StateDir = ""
	}
	o.CacheDir = filepath.Join(cacheDir(t), "cache")
	rt, err := wasmtools.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	turn, err := rt.Begin(t.Context(), wasmtools.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// storeOf is the folder of the artifacts of a workspace.
func storeOf(t testing.TB, workspace string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		t.Fatal(err)
	}
	return artifact.Dir(filepath.Join(cacheDir(t), "state"), real)
}

var inReceipt = regexp.MustCompile(`(?m)^artifact: artifact:([a-z2-7]{26})$`)

// kept makes the call of bulky and returns the handle of its receipt.
func kept(t testing.TB, turn *wasmtools.Turn) string {
	t.Helper()
	r := turn.Call(t.Context(), []wasmtools.Request{{Tool: "bulky"}})[0].Result
	m := inReceipt.FindStringSubmatch(r.PlainText())
	if m == nil {
		t.Fatalf("no receipt: %.600s", r.PlainText())
	}
	return m[1]
}

func openAt(t testing.TB, turn *wasmtools.Turn, path, more string) tool.Result {
	t.Helper()
	return turn.Call(t.Context(), []wasmtools.Request{{Tool: "read_open", Arguments: json.RawMessage(fmt.Sprintf(`{"path":%q%s}`, path, more))}})[0].Result
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d of the output\n", i+1)
	}
	return b.String()
}

// TestLongResult: a result that is too long is kept whole; its receipt says where,
// how to read it, and the calls that it names do.
func TestLongResult(t *testing.T) {
	text := lines(10_000)
	l := &ledger{}
	space := wasmtools.Workspace{Dir: t.TempDir(), Evidence: l}
	turn := shelf{space: space, tools: []tool.Tool{bulky(func(tool.Sink) tool.Result {
		r := tool.TextResult(text)
		r.Content = append(r.Content, tool.Content{Kind: tool.KindImage, Data: []byte("png"), MIMEType: "image/png"})
		return r
	})}}.open(t)
	out := turn.Call(t.Context(), []wasmtools.Request{{CallID: "long", Tool: "bulky", Arguments: json.RawMessage(`{"query":"what\nis it","x":1}`)}})[0]
	receipt := out.Result.PlainText()
	m := inReceipt.FindStringSubmatch(receipt)
	if m == nil || len(receipt) > 1500 || strings.Contains(receipt, "line 7 of") {
		t.Fatalf("the receipt is %q", receipt)
	}
	name, digest := "artifact:"+m[1], tool.DigestOf([]byte(text))
	for _, want := range []string{"tool: bulky\n", `source: query "what is it"` + "\n", fmt.Sprintf("size: %d bytes, 10000 lines, %s\n", len(text), digest)} {
		if !strings.Contains(receipt, want) {
			t.Errorf("the receipt has no %q: %s", want, receipt)
		}
	}
	if c := out.Result.Content; len(c) != 3 || c[1].Kind != tool.KindImage || c[2].Kind != tool.KindResourceLink || c[2].URI != "artifact:"+m[1] {
		t.Errorf("the blocks are %v; want the receipt, the image and a link", c)
	}
	if d, _ := out.Result.Details["archived"].(map[string]any); d["artifact"] != name || d["sha256"] != string(digest) || d["shown"] != "receipt" {
		t.Errorf("details %v", out.Result.Details)
	}
	// The calls that the receipt proposes, as they stand there.
	for i, c := range regexp.MustCompile(`with (grep|read_open): (\{.*?\})[;)]`).FindAllStringSubmatch(receipt, -1) {
		r := turn.Call(t.Context(), []wasmtools.Request{{Tool: c[1], Arguments: json.RawMessage(strings.Replace(c[2], `"..."`, `"line 777 "`, 1))}})[0].Result
		want := []string{name + ":777: line 777 of the output\n", "200\tline 200 of the output\n[lines 1-200 of 10000"}[i]
		if r.IsError || !strings.Contains(r.PlainText(), want) {
			t.Errorf("%s %s says %.300q; want %q", c[1], c[2], r.PlainText(), want)
		}
		if r.Details["path"] != nil && r.Details["path"] != name {
			t.Errorf("%s: details name %v", c[1], r.Details["path"])
		}
	}
	if r := openAt(t, turn, name, `,"selection":{"range":{"offset":7,"length":12}}`); !strings.Contains(r.PlainText(), text[7:19]) {
		t.Errorf("a range: %q", r.PlainText())
	}
	if r := openAt(t, turn, name, `,"selection":{"lines":{"start":20000}}`); r.Code != tool.InvalidArguments || !strings.Contains(r.PlainText(), name) {
		t.Errorf("past the end: %q", r.PlainText())
	}
	if r := call(t, turn, "grep", fmt.Sprintf(`{"pattern":"absent","path":%q}`, name)).Result; r.IsError || !strings.Contains(r.PlainText(), "no match in 1 file below "+name) {
		t.Errorf("no match: %q", r.PlainText())
	}
	records := l.check(t)
	e := records["long"]
	if a := e.last().Artifact; len(a) != 1 || a[0].Handle != m[1] || a[0].Digest != digest || a[0].Bytes != int64(len(text)) || !strings.Contains(e.kinds(), "artifact") {
		t.Errorf("the record has %+v, events %s", a, e.kinds())
	}
	for _, e := range records {
		if e.intent.Tool == "read_open" && len(e.last().Used.Paths) != 1 {
			t.Errorf("the record of reading names %q", e.last().Used.Paths)
		}
		for _, p := range e.last().Used.Paths {
			if p != name {
				t.Errorf("the record of reading names %q; want %q", p, name)
			}
		}
	}
}

// TestWhatIsArchived: the limits to the byte of JSON, what stays, and what
// stands there when nothing can be kept.
func TestWhatIsArchived(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	text := func(n int) tool.Result { return tool.TextResult(strings.Repeat("x", n)) }
	deaf := wasmtools.Workspace{Tools: func(name string) bool { return name != "read_open" }}
	broken := wasmtools.Workspace{Dir: t.TempDir()}
	if err := os.MkdirAll(filepath.Dir(storeOf(t, broken.Dir)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(file), storeOf(t, broken.Dir)); err != nil {
		t.Fatal(err)
	}
	failing := func(n int) tool.Result {
		r := text(n)
		r.IsError, r.Code = true, tool.Trap
		return r
	}
	failed, sensitive := failing(64<<10+1), text(64<<10+1)
	sensitive.Sensitive = true
	many := tool.Result{Content: []tool.Content{tool.Text(strings.Repeat("a", 40<<10)), {Kind: tool.KindAudio}, tool.Text(strings.Repeat("b", 40<<10))}}
	noticed := ""
	const whole, receipt, ends = "whole", "receipt", "ends"
	for name, c := range map[string]struct {
		shelf  shelf
		result tool.Result
		shown  string
		says   string
	}{
		"at the limit":            {result: text(64 << 10), shown: whole},
		"over it":                 {result: text(64<<10 + 1), shown: receipt, says: "65537 bytes, 1 lines"},
		"a long line":             {result: text(64<<10 + 1), shown: receipt, says: `"range":{"offset":0,"length":16384}`},
		"escapes count":           {result: tool.TextResult(strings.Repeat("\n", 32<<10)), shown: whole},
		"escapes over it":         {result: tool.TextResult(strings.Repeat("\n", 32<<10) + "x"), shown: receipt},
		"control characters":      {result: tool.TextResult(strings.Repeat("\x01", 11<<10)), shown: receipt},
		"invalid bytes":           {result: tool.TextResult(strings.Repeat("\xff", 22<<10)), shown: receipt},
		"letters of other tongue": {result: tool.TextResult(strings.Repeat("é", 32<<10)), shown: whole},
		"two blocks":              {result: many, shown: receipt, says: "81921 bytes"},
		"an error":                {result: failed, shown: receipt, says: "xxx\n[this result is too long"},
		"an error at the limit":   {result: failing(8000), shown: whole},
		"an error over it":        {result: failing(8001), shown: receipt, says: "result: error trap\n"},
		"an error, no reader":     {shelf: shelf{space: deaf}, result: failing(60 << 10), shown: whole},
		"a sensitive one":         {result: sensitive, shown: ends, says: "63489 bytes are not shown; and they are not kept: a sensitive result is not archived"},
		"no reader":               {shelf: shelf{space: deaf}, result: text(256 << 10), shown: whole},
		"no reader, more":         {shelf: shelf{space: deaf}, result: text(256<<10 + 1), shown: ends, says: "wasmtools artifacts export "},
		"no store":                {shelf: shelf{options: wasmtools.Options{StateDir: "none"}}, result: text(256 << 10), shown: whole},
		"no store, more":          {shelf: shelf{options: wasmtools.Options{StateDir: "none"}}, result: text(256<<10 + 1), shown: ends, says: "no artifact store is open"},
		"a store that fails":      {shelf: shelf{space: broken, options: wasmtools.Options{Notice: func(s string) { noticed += s }}}, result: text(64<<10 + 1), shown: ends, says: "cannot be archived"},
	} {
		c.shelf.tools = []tool.Tool{bulky(func(tool.Sink) tool.Result { return c.result })}
		turn := c.shelf.open(t)
		r := call(t, turn, "bulky", `{}`).Result
		got := r.PlainText()
		shown := whole
		switch {
		case inReceipt.MatchString(got):
			shown = receipt
		case got != c.result.PlainText():
			shown = ends
		}
		if shown != c.shown || !strings.Contains(got, c.says) {
			t.Errorf("%s: shown as %s: %.300q; want %s that says %q", name, shown, got, c.shown, c.says)
		}
		if shown != whole && len(got) > 2500 && !(r.IsError && len(got) < 6000) {
			t.Errorf("%s: %d bytes are shown", name, len(got))
		}
		if r.IsError != c.result.IsError || r.Code != c.result.Code {
			t.Errorf("%s: the answer has the code %q", name, r.Code)
		}
		if name == "two blocks" && (len(r.Content) != 3 || r.Content[1].Kind != tool.KindAudio) {
			t.Errorf("%s: the blocks are %v", name, r.Content)
		}
		if name == "control characters" || name == "invalid bytes" {
			if p, err := json.Marshal(c.result.PlainText()); err != nil || len(p)-2 <= 64<<10 {
				t.Errorf("%s: %d bytes in JSON, %v", name, len(p), err)
			}
		}
	}
	if !strings.Contains(noticed, "the folder of the artifacts is a link") {
		t.Errorf("a person is told %q", noticed)
	}
}

// TestHandlesLeadNowhereElse: guessed handles, those of another session or
// workspace, and what only looks like a handle. The answer to the first three is
// the same word for word. Control: the session that made it reads it.
func TestHandlesLeadNowhereElse(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "x"), []byte("outside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tools := []tool.Tool{saying(lines(5_000))}
	mine := shelf{space: wasmtools.Workspace{Dir: dir}, tools: tools}.open(t)
	name := "artifact:" + kept(t, mine)
	if r := openAt(t, mine, name, ""); r.IsError {
		t.Fatalf("its own session: %s", r.PlainText())
	}
	same := shelf{space: wasmtools.Workspace{Dir: dir}, tools: tools}.open(t)
	away := shelf{space: wasmtools.Workspace{Dir: other}, tools: tools}.open(t)
	_ = kept(t, same) // each has a store with something in it
	_ = kept(t, away)
	guess := "artifact:" + strings.Repeat("a", 26)
	want := openAt(t, mine, guess, "").PlainText()
	for who, c := range map[string]struct {
		turn *wasmtools.Turn
		path string
	}{
		"a guess": {mine, guess}, "another session": {same, name}, "another workspace": {away, name},
		"no store": {shelf{options: wasmtools.Options{StateDir: "none"}}.open(t), name},
	} {
		for _, search := range []bool{false, true} {
			r := openAt(t, c.turn, c.path, "")
			if search {
				r = call(t, c.turn, "grep", fmt.Sprintf(`{"pattern":"line","path":%q}`, c.path)).Result
			}
			if r.Code != tool.NotFound || r.PlainText() != want {
				t.Errorf("%s: %q; want %q", who, r.PlainText(), want)
			}
		}
	}
	escaped := strings.Replace(name, "artifact", `\u0061rtifact`, 1)
	if r := call(t, mine, "read_open", `{"path":"`+escaped+`"}`).Result; r.IsError {
		t.Errorf("a handle spelled with an escape: %s", r.PlainText())
	}
	digest := sha256.Sum256([]byte(lines(5_000)))
	for _, path := range []string{
		"artifact:../x", "artifact:../../x", name + "/../x", name + "/", "./" + name, strings.ToUpper(name), name + "\x00", "artifact:", name[:len(name)-1],
		fmt.Sprintf("artifact:objects/%x.txt", digest), fmt.Sprintf("artifact:%x.txt", digest), fmt.Sprintf("%x.txt", digest), fmt.Sprintf("%x", digest), "Artifact:" + name[9:], " " + name, "file://" + name,
	} {
		r := openAt(t, mine, path, "")
		if !r.IsError || strings.Contains(r.PlainText(), "line 1") || strings.Contains(r.PlainText(), "outside") {
			t.Errorf("read_open %q: %.200s", path, r.PlainText())
		}
		if r := call(t, mine, "grep", fmt.Sprintf(`{"pattern":"l","path":%q,"mode":"content"}`, path)).Result; !r.IsError {
			t.Errorf("grep in %q: %.200s", path, r.PlainText())
		}
	}
	// What only begins like a handle is a file, and a real file of such a name is
	// opened as one.
	if err := os.WriteFile(filepath.Join(dir, "artifact:x"), []byte("a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := openAt(t, mine, "artifact:x", ""); !strings.Contains(r.PlainText(), "a file") {
		t.Errorf("a file whose name begins like a handle: %s", r.PlainText())
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte("a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := openAt(t, mine, "./"+name, ""); !strings.Contains(r.PlainText(), "a file") {
		t.Errorf("a real file: %s", r.PlainText())
	}
	if r := openAt(t, mine, name, ""); strings.Contains(r.PlainText(), "a file") {
		t.Errorf("the handle: %s", r.PlainText())
	}
	for _, c := range [][2]string{
		{"write_file", `{"path":%q,"content":"x","overwrite":true}`}, {"delete_path", `{"path":%q}`}, {"read_discover", `{"mode":"list","path":%q}`},
	} {
		if r := call(t, mine, c[0], fmt.Sprintf(c[1], name)).Result; r.Code != tool.InvalidArguments {
			t.Errorf("%s takes a handle: %s", c[0], r.PlainText())
		}
	}
}

// TestStoreIsOutOfReach: a workspace that holds the state folder shows nothing of
// it. Control: the file is there.
func TestStoreIsOutOfReach(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	turn := shelf{space: wasmtools.Workspace{Dir: dir}, options: wasmtools.Options{StateDir: state}, tools: []tool.Tool{saying(lines(5_000))}}.open(t)
	kept(t, turn)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	store := artifact.Dir(filepath.Join(real, "state"), real)
	store = filepath.Join(state, "artifacts", filepath.Base(store))
	object := filepath.Join(store, "objects", strings.TrimPrefix(string(tool.DigestOf([]byte(lines(5_000)))), "sha256:")+".txt")
	if p, err := os.ReadFile(object); err != nil || !strings.HasPrefix(string(p), "line 1 ") {
		t.Fatalf("control: %v", err)
	}
	path, err := filepath.Rel(dir, object)
	if err != nil {
		t.Fatal(err)
	}
	if r := openAt(t, turn, filepath.ToSlash(path), ""); !r.IsError {
		t.Errorf("read_open %s: %.100s", path, r.PlainText())
	}
	if r := call(t, turn, "grep", `{"pattern":"line 77 of"}`).Result; !strings.HasPrefix(r.PlainText(), "no match") {
		t.Errorf("grep finds %s", r.PlainText())
	}
}

// TestTamperedStore: what somebody puts in the place of an artifact is never
// shown. Control: a reader that trusts the name shows it.
func TestTamperedStore(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("the secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, attack := range map[string]func(object string) error{
		"other bytes": func(o string) error { return os.WriteFile(o, []byte("the secret\n"), 0o600) },
		"a link out":  func(o string) error { os.Remove(o); return os.Symlink(secret, o) },
		"a link to another artifact": func(o string) error {
			os.Remove(o)
			inside := filepath.Join(filepath.Dir(o), strings.Repeat("0", 64))
			if err := os.WriteFile(inside, []byte("the secret\n"), 0o600); err != nil {
				return err
			}
			return os.Symlink(filepath.Base(inside), o)
		},
		"the folder is a link": func(o string) error {
			dir := filepath.Dir(o)
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			away := filepath.Join(filepath.Dir(secret), "away")
			if err := os.Mkdir(away, 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(away, filepath.Base(o)), []byte("the secret\n"), 0o600)
		},
		"a second name of the secret": func(o string) error { os.Remove(o); return os.Link(secret, o) },
	} {
		for _, before := range []bool{true, false} {
			dir := t.TempDir()
			turn := shelf{space: wasmtools.Workspace{Dir: dir}, tools: []tool.Tool{saying(lines(5_000))}}.open(t)
			handle := "artifact:" + kept(t, turn)
			if before {
				if r := openAt(t, turn, handle, ""); r.IsError {
					t.Fatal(r.PlainText())
				}
			}
			object := filepath.Join(storeOf(t, dir), "objects", strings.TrimPrefix(string(tool.DigestOf([]byte(lines(5_000)))), "sha256:")+".txt")
			if err := attack(object); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if name == "the folder is a link" {
				away := filepath.Join(filepath.Dir(secret), "away")
				if err := os.Symlink(away, filepath.Dir(object)); err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(away)
			}
			if p, err := os.ReadFile(object); err != nil || string(p) != "the secret\n" {
				t.Fatalf("%s: control: %q, %v", name, p, err)
			}
			for _, c := range []string{`{"path":%q}`, `{"path":%q,"pattern":"e","mode":"content"}`} {
				which := "read_open"
				if strings.Contains(c, "pattern") {
					which = "grep"
				}
				r := call(t, turn, which, fmt.Sprintf(c, handle)).Result
				if strings.Contains(r.PlainText(), "the secret") || r.Code != tool.Lost {
					t.Errorf("%s, read before %v: %s answers %q", name, before, which, r.PlainText())
				}
			}
			os.RemoveAll(filepath.Join(filepath.Dir(secret), "away"))
		}
	}
}

// TestPrunedArtifact: a handle whose content a person removed says so, also
// while it is being read.
func TestPrunedArtifact(t *testing.T) {
	dir := t.TempDir()
	turn := shelf{space: wasmtools.Workspace{Dir: dir}, tools: []tool.Tool{saying(lines(5_000))}}.open(t)
	handle := "artifact:" + kept(t, turn)
	person := artifact.Open(storeOf(t, dir), artifact.Options{})
	defer person.Close()
	if gone, err := person.Prune(artifact.Retention{MaxBytes: -1}, time.Now()); err != nil || len(gone) != 1 {
		t.Fatalf("Prune = %v, %v", gone, err)
	}
	if r := openAt(t, turn, handle, ""); r.Code != tool.Lost || !strings.Contains(r.PlainText(), "was removed") {
		t.Errorf("after it was removed: %s", r.PlainText())
	}
	if again := "artifact:" + kept(t, turn); again == handle {
		t.Error("a handle was given twice")
	} else if r := openAt(t, turn, again, ""); r.IsError {
		t.Errorf("the same content, kept again: %s", r.PlainText())
	}
}

// TestSecretsAreNotKept: neither values of secrets nor what looks like one is in
// the store, whichever way it came there. Control: the text is shown as it is
// where it is short.
func TestSecretsAreNotKept(t *testing.T) {
	secrets := "hunter2hunter2 ghp_" + strings.Repeat("A1b2", 10) + "\npassword=s3cr3t-of-mine\n"
	hidden := wasmtools.Options{Hidden: func() []string { return []string{"hunter2hunter2"} }}
	for name, give := range map[string]func(tool.Sink) tool.Result{
		"a long result": func(tool.Sink) tool.Result { return tool.TextResult(lines(3_000) + secrets + lines(3_000)) },
		"a tool's own artifact": func(s tool.Sink) tool.Result {
			ref, err := s.Artifact(tool.ArtifactInfo{Title: "log"}, strings.NewReader(lines(20_000)+secrets+lines(20_000)))
			if err != nil {
				return tool.ErrorResult(err)
			}
			return tool.TextResult("artifact: artifact:" + ref.Handle)
		},
	} {
		dir := t.TempDir()
		turn := shelf{options: hidden, space: wasmtools.Workspace{Dir: dir}, tools: []tool.Tool{bulky(give)}}.open(t)
		handle := "artifact:" + kept(t, turn)
		files, err := filepath.Glob(filepath.Join(storeOf(t, dir), "*", "*"))
		if err != nil || len(files) != 2 {
			t.Fatalf("%s: the store has %q, %v", name, files, err)
		}
		for _, f := range files {
			p, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range strings.Fields(strings.ReplaceAll(secrets, "password=", "")) {
				if bytes.Contains(p, []byte(s)) {
					t.Errorf("%s: %s holds %q", name, filepath.Base(f), s)
				}
			}
		}
		r := call(t, turn, "grep", fmt.Sprintf(`{"pattern":"redacted","path":%q,"mode":"content"}`, handle)).Result
		if !strings.Contains(r.PlainText(), "password=[redacted]") {
			t.Errorf("%s: %s", name, r.PlainText())
		}
	}
	turn := shelf{options: hidden, tools: []tool.Tool{saying(secrets)}}.open(t)
	if r := call(t, turn, "bulky", `{}`).Result; r.PlainText() != secrets {
		t.Errorf("control: %q", r.PlainText())
	}
}

// TestArtifactOfATool: what a tool gives its sink is kept within the limit of
// one artifact, read and searched to its end, and named in the record.
func TestArtifactOfATool(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 64 MiB")
	}
	const line = "a line of some output that goes on and on and on until the limit\n"
	l := &ledger{}
	turn := shelf{space: wasmtools.Workspace{Dir: t.TempDir(), Evidence: l}, tools: []tool.Tool{bulky(func(s tool.Sink) tool.Result {
		end := strings.NewReader("the end\n")
		ref, err := s.Artifact(tool.ArtifactInfo{Title: "log"}, io.MultiReader(&repeat{line, artifact.MaxBytes/len(line) - 1}, end, &repeat{line, 20_000}))
		if err != nil {
			return tool.ErrorResult(err)
		}
		return tool.TextResult(fmt.Sprintf("artifact: artifact:%s\ndropped %d of %d", ref.Handle, ref.Dropped, ref.Dropped+ref.Bytes))
	})}}.open(t)
	out := turn.Call(t.Context(), []wasmtools.Request{{CallID: "log", Tool: "bulky"}})[0]
	m := inReceipt.FindStringSubmatch(out.Result.PlainText())
	if m == nil || !strings.Contains(out.Result.PlainText(), "dropped 1") {
		t.Fatalf("bulky says %q", out.Result.PlainText())
	}
	name := "artifact:" + m[1]
	n := artifact.MaxBytes / len(line)
	r := call(t, turn, "grep", fmt.Sprintf(`{"pattern":"^the end","path":%q,"mode":"content"}`, name)).Result
	if want := fmt.Sprintf("%s:%d: the end\n", name, n); !strings.Contains(r.PlainText(), want) {
		t.Errorf("grep says %.300q; want %q", r.PlainText(), want)
	}
	off := (n - 1) * len(line)
	if r := openAt(t, turn, name, fmt.Sprintf(`,"selection":{"range":{"offset":%d,"length":8}}`, off)); !strings.Contains(r.PlainText(), "the end") {
		t.Errorf("the range at %d is %q", off, r.PlainText())
	}
	if a := l.check(t)["log"].last().Artifact; len(a) != 1 || a[0].Handle != m[1] || a[0].Bytes != artifact.MaxBytes || a[0].Digest == "" {
		t.Errorf("the record names %+v", a)
	}
}

// repeat gives a text n times.
type repeat struct {
	text string
	n    int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := 0
	for r.n > 0 && len(p)-n >= len(r.text) {
		n += copy(p[n:], r.text)
		r.n--
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestWholeDiff: a call that waits shows the beginning of a long diff and keeps
// all of it, once.
func TestWholeDiff(t *testing.T) {
	l := &ledger{}
	turn := shelf{space: wasmtools.Workspace{Dir: t.TempDir(), Evidence: l}}.open(t)
	args, err := json.Marshal(map[string]string{"path": "a.txt", "content": lines(5_000)})
	if err != nil {
		t.Fatal(err)
	}
	var names []any
	for range 2 {
		o := turn.Call(t.Context(), []wasmtools.Request{{CallID: fmt.Sprint("w", len(names)), Tool: "write_file", Arguments: args}})[0]
		wantCode(t, o, tool.ApprovalRequired)
		names = append(names, o.Result.Details["diff_artifact"])
		if !strings.Contains(o.Result.PlainText(), fmt.Sprint("whole diff is ", names[0], ",")) {
			t.Errorf("the answer is %.300q", o.Result.PlainText())
		}
	}
	if names[0] == nil || names[0] != names[1] {
		t.Fatalf("the diffs are %v; want one", names)
	}
	r := call(t, turn, "grep", fmt.Sprintf(`{"pattern":"^.line 4999 ","path":%q,"mode":"content"}`, names[0])).Result
	if !strings.Contains(r.PlainText(), "+line 4999 of the output") {
		t.Errorf("grep says %q", r.PlainText())
	}
	if e := l.check(t)["w0"]; len(e.last().Artifact) != 1 || e.last().Artifact[0].Title != "the diff of write_file" {
		t.Errorf("the record names %+v", e.last().Artifact)
	}
	short := call(t, turn, "write_file", `{"path":"b.txt","content":"x"}`).Result
	if short.Code != tool.ApprovalRequired || short.Details["diff_artifact"] != nil {
		t.Errorf("a short diff: %v", short.Details)
	}
}

// TestStoreIsLazy: opening, listing and calls with short answers touch no store.
func TestStoreIsLazy(t *testing.T) {
	dir := t.TempDir()
	turn := shelf{space: wasmtools.Workspace{Dir: dir}, tools: []tool.Tool{saying("short")}}.open(t)
	_ = turn.Tools()
	_ = call(t, turn, "bulky", `{}`)
	_ = openAt(t, turn, "artifact:"+strings.Repeat("a", 26), "")
	if _, err := os.Lstat(storeOf(t, dir)); !os.IsNotExist(err) {
		t.Errorf("the store is there: %v", err)
	}
}

// TestArtifactsAtOnce: calls of one batch keep and read at once, and each handle
// leads to its own text.
func TestArtifactsAtOnce(t *testing.T) {
	turn := shelf{tools: []tool.Tool{host("bulky", tool.Parallel, tool.Reads, func(_ context.Context, i tool.Invocation, _ tool.Sink) (tool.Result, error) {
		return tool.TextResult("I am " + string(i.Arguments) + "\n" + lines(4_000)), nil
	})}}.open(t)
	batch := make([]wasmtools.Request, 12)
	for i := range batch {
		batch[i] = wasmtools.Request{Tool: "bulky", Arguments: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}
	}
	out := turn.Call(t.Context(), batch)
	var wg sync.WaitGroup
	for i, o := range out {
		m := inReceipt.FindStringSubmatch(o.Result.PlainText())
		if m == nil {
			t.Fatalf("call %d: %.300s", i, o.Result.PlainText())
		}
		wg.Go(func() {
			r := openAt(t, turn, "artifact:"+m[1], `,"selection":{"lines":{"start":1,"end":1}}`)
			if want := fmt.Sprintf("1\tI am {\"n\":%d}\n", i); !strings.HasPrefix(r.PlainText(), want) {
				t.Errorf("artifact %d begins %.100q; want %q", i, r.PlainText(), want)
			}
		})
	}
	wg.Wait()
}

func BenchmarkReadArtifact(b *testing.B) {
	turn := shelf{tools: []tool.Tool{saying(lines(5_000))}}.open(b)
	name := "artifact:" + kept(b, turn)
	for b.Loop() {
		if r := openAt(b, turn, name, `,"selection":{"lines":{"start":100,"end":140}}`); r.IsError {
			b.Fatal(r.PlainText())
		}
	}
}

func BenchmarkLongResult(b *testing.B) {
	turn := shelf{tools: []tool.Tool{saying(lines(5_000))}}.open(b)
	b.SetBytes(int64(len(lines(5_000))))
	for b.Loop() {
		kept(b, turn)
	}
}
