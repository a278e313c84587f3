package shell_test

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/approval/shell"
)

// ownCase is one line of a file of cases.
type ownCase struct {
	place   string
	want    string
	command string
	rules   shell.Rules
}

// ownCases reads the files of cases; testdata/cases.txt says how to read them.
func ownCases(t testing.TB) []ownCase {
	t.Helper()
	return append(casesOf(t, "testdata/cases.txt"), casesOf(t, "testdata/classes.txt")...)
}

func casesOf(t testing.TB, name string) []ownCase {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []ownCase
	var rules shell.Rules
	scan := bufio.NewScanner(f)
	for n := 1; scan.Scan(); n++ {
		tag, rest, _ := strings.Cut(scan.Text(), " ")
		rest = strings.TrimLeft(rest, " ")
		switch tag {
		case "", "#":
		case "rules":
			rules = ownRules(t, rest)
		case "yes", "no", "deny":
			if strings.HasPrefix(rest, `"`) {
				if s, err := strconv.Unquote(rest); err == nil {
					rest = s
				}
			}
			out = append(out, ownCase{fmt.Sprintf("%s:%d", name, n), tag, rest, rules})
		default:
			t.Fatalf("%s:%d: no line begins with %q", name, n, tag)
		}
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func ownRules(t testing.TB, line string) shell.Rules {
	t.Helper()
	var r shell.Rules
	pattern := func(w string) shell.Pattern { return shell.Pattern{Words: strings.Split(w, "_")} }
	for w := range strings.FieldsSeq(line) {
		switch {
		case w == "WP":
			r.WorkspacePaths = true
		case w == "ENV":
			r.Files = func(op shell.Op, p string) (shell.Verdict, string) {
				if path.Base(p) == ".env" || strings.HasPrefix(p, "keys/") {
					return shell.Deny, p + " is a secret"
				}
				return shell.Allow, ""
			}
		case w == "everyday":
			file, err := publicCases()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range file.Cases {
				if c.ID == "everyday-01" {
					r = c.Rules.rules()
				}
			}
		case w[0] == '+':
			r.Allow = append(r.Allow, pattern(w[1:]))
		case w[0] == '-':
			r.Deny = append(r.Deny, pattern(w[1:]))
		default:
			t.Fatalf("testdata/cases.txt: no rule is written %q", w)
		}
	}
	return r
}

func TestOwnCases(t *testing.T) {
	f := newFixture(t, "")
	want := map[string]string{"yes": "should_allow", "no": "must_not_allow", "deny": "must_deny"}
	count := map[string]int{}
	for _, c := range ownCases(t) {
		count[c.want]++
		res := shell.Judge(f.fill(c.command), f.site(".", ""), c.rules)
		if bad := honours(want[c.want], res.Verdict); bad != "" {
			t.Errorf("%s: Judge(%q): %s\n\treason given: %s", c.place, c.command, bad, res.Reason)
		}
		if res.Verdict != shell.Allow && res.Reason == "" {
			t.Errorf("%s: Judge(%q) gives no reason", c.place, c.command)
		}
	}
	t.Logf("%d to allow, %d not to allow, %d to deny", count["yes"], count["no"], count["deny"])
}
