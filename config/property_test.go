package config

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/tool"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// writer writes random files of few words, so that they meet.
type writer struct {
	*rand.Rand
	b strings.Builder
}

func (w *writer) pick(of ...string) string { return of[w.IntN(len(of))] }

func (w *writer) some(key string, of ...string) {
	if w.IntN(2) == 0 {
		return
	}
	fmt.Fprintf(&w.b, "%s = [%q", key, w.pick(of...))
	for range w.IntN(2) {
		fmt.Fprintf(&w.b, ", %q", w.pick(of...))
	}
	w.b.WriteString("]\n")
}

func (w *writer) limits() {
	w.b.WriteString("[limits]\n")
	for _, k := range []string{"memory_mib", "time_ms", "output_kib", "host_calls", "concurrency"} {
		if w.IntN(2) == 0 {
			fmt.Fprintf(&w.b, "%s = %d\n", k, 1+w.IntN(32))
		}
	}
}

func (w *writer) budget() {
	w.b.WriteString("[budget]\n")
	for _, k := range []string{"text_kib", "structured_kib"} {
		if w.IntN(2) == 0 {
			fmt.Fprintf(&w.b, "%s = %d\n", k, 32+w.IntN(100))
		}
	}
}

func (w *writer) rule(verdicts ...string) {
	fmt.Fprintf(&w.b, "[[rules]]\nverdict = %q\n", w.pick(verdicts...))
	w.some("tools", "write_file", "x", "*")
	switch w.IntN(3) {
	case 0:
		w.b.WriteString("paths = [\"docs/**\"]\n")
	case 1:
		w.b.WriteString("commands = [\"ls\"]\n")
	default:
		w.b.WriteString("hosts = [\"*.example.com\"]\n")
	}
}

// own is a workspace's own file: whatever the closed list has.
func (w *writer) own() string {
	w.b.Reset()
	w.b.WriteString("[workspace]\n")
	w.some("deny_read", "a", "docs/**")
	w.some("protect", "a", "docs/**", "b")
	w.limits()
	w.budget()
	w.b.WriteString("[tools]\n")
	w.some("remove", "write_file", "x*")
	w.some("only", "*", "write_file", "x")
	for range w.IntN(4) {
		w.rule("ask", "deny")
	}
	return w.b.String()
}

func (w *writer) user() string {
	w.b.Reset()
	fmt.Fprintf(&w.b, "[approvals]\nmode = %q\n[terminal]\nallow_unsandboxed = %v\n", w.pick(modes...), w.IntN(2) == 0)
	w.b.WriteString("[workspace]\n")
	w.some("deny_read", "a", "docs/**")
	w.some("protect", "a", "docs/**", "b")
	w.limits()
	w.budget()
	if w.IntN(2) == 0 {
		fmt.Fprintf(&w.b, "tools = { x = %d }\n", 32+w.IntN(100))
	}
	w.b.WriteString("[tools]\n")
	w.some("remove", "write_file", "x*")
	w.some("only", "*", "write_file", "x")
	for range w.IntN(6) {
		w.rule("allow", "allow", "ask", "deny")
	}
	return w.b.String()
}

func (w *writer) call() policy.Call {
	c := policy.Call{Tool: w.pick("write_file", "x", "y"), Source: tool.Builtin, Effects: tool.Effects(w.IntN(64)), Arguments: []byte("{}")}
	for range w.IntN(3) {
		c.Targets = append(c.Targets, policy.Target{Verb: policy.Write, Path: w.pick("a", "docs/a", "b")})
	}
	for range w.IntN(2) {
		c.Hosts = append(c.Hosts, w.pick("api.example.com", "h"))
	}
	if w.IntN(3) == 0 {
		c.Command = &policy.Command{Text: w.pick("ls", "rm a", "ls > docs/a"), Cwd: "/w"}
	}
	return c
}

// TestWorkspaceOnlyTightens: whatever a workspace's own file holds, no call is
// judged more loosely, no limit is higher, no tool is there and no path is off
// the lists that was not before.
func TestWorkspaceOnlyTightens(t *testing.T) {
	order := []policy.Decision{policy.Allow, policy.Ask, policy.Deny}
	tighter := 0
	for seed := range uint64(2000) {
		w := &writer{Rand: rand.New(rand.NewPCG(seed, 2))}
		userText, ownText := w.user(), w.own()
		user, err := Parse("user", []byte(userText))
		if err != nil {
			t.Fatalf("%v\n%s", err, userText)
		}
		own, err := ParseWorkspace("own", []byte(ownText))
		if err != nil {
			t.Fatalf("%v\n%s", err, ownText)
		}
		kept := fmt.Sprintf("%+v", user)
		both := user.Tighten(own)
		if fmt.Sprintf("%+v", user) != kept {
			t.Fatal("Tighten changed its receiver")
		}
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d: %s\nuser:\n%s\nworkspace:\n%s", seed, fmt.Sprintf(format, args...), userText, ownText)
		}
		for _, l := range [][2]int{
			{user.Limits.MemoryMiB, both.Limits.MemoryMiB}, {user.Limits.TimeMS, both.Limits.TimeMS}, {user.Limits.OutputKiB, both.Limits.OutputKiB},
			{user.Limits.HostCalls, both.Limits.HostCalls}, {user.Limits.Concurrency, both.Limits.Concurrency},
			{user.Budget.TextKiB, both.Budget.TextKiB}, {user.Budget.StructuredKiB, both.Budget.StructuredKiB},
			{cmp.Or(user.Budget.Tools["x"], user.Budget.TextKiB), cmp.Or(both.Budget.Tools["x"], both.Budget.TextKiB)},
			{cmp.Or(own.Budget.TextKiB, 1<<20), cmp.Or(both.Budget.Tools["x"], both.Budget.TextKiB)},
		} {
			if l[1] > l[0] || l[1] <= 0 {
				fail("a limit of %d became %d", l[0], l[1])
			}
		}
		for _, name := range []string{"write_file", "x", "xx", "y"} {
			if both.Tools.Has(name) && !user.Tools.Has(name) {
				fail("the tool %s came back", name)
			}
		}
		for _, g := range user.Workspace.DenyRead {
			if !slices.Contains(both.Workspace.DenyRead, g) {
				fail("%v can be read", g)
			}
		}
		for _, g := range user.Workspace.Protect {
			if !slices.Contains(both.Workspace.Protect, g) {
				fail("%v is not protected", g)
			}
		}
		if !reflect.DeepEqual(both.Terminal, user.Terminal) || both.Approvals != user.Approvals || both.Artifacts != user.Artifacts || !reflect.DeepEqual(both.Workspace.AllowRead, user.Workspace.AllowRead) {
			fail("what is not on the closed list changed")
		}
		for range 10 {
			c, site := w.call(), policy.Site{Now: noon, Root: "/w"}
			before, after := policy.Judge(user.Policy(), c, site), policy.Judge(both.Policy(), c, site)
			if slices.Index(order, after.Decision) < slices.Index(order, before.Decision) {
				fail("%+v was %s and becomes %s by %v", c, before.Decision, after.Decision, after.Rule)
			}
			if after.Decision != before.Decision {
				tighter++
			}
		}
	}
	if tighter == 0 {
		t.Error("no verdict changed: the test compares nothing")
	}
}

// FuzzParse: no text makes the reader panic or run away, faults have places, and
// what is taken is taken again and only ever judges.
func FuzzParse(f *testing.F) {
	f.Add([]byte(everything), true)
	f.Add([]byte(everything), false)
	f.Add([]byte("[[rules]]\nverdict='deny'\ncommands=[['ls'],'a b']\n[rules.x]\n"), false)
	f.Add([]byte("a.b.c=[[{x=1}]]\n[a.b]\n"), true)
	f.Add([]byte("[[a]]\n[[a.b]]\n[a.b.c]\n[[a]]\nx={y=[{z='''\n'''}]}"), true)
	if starter, err := os.ReadFile("starter.toml"); err == nil {
		f.Add(starter, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, own bool) {
		data = bytes.Clone(data)
		var s Settings
		var err error
		if own {
			var r Restrictions
			r, err = ParseWorkspace("f", data)
			s = Default().Tighten(r)
		} else {
			s, err = Parse("f", data)
		}
		if faults, ok := err.(Faults); err != nil && (!ok || len(faults) == 0) {
			t.Fatalf("an error that names no fault: %v", err)
		} else if ok {
			for _, f := range faults {
				if f.File != "f" || f.Line < 1 || f.Column < 1 || f.Line > bytes.Count(data, []byte("\n"))+2 || f.Text == "" {
					t.Errorf("%+v stands nowhere", f)
				}
			}
			return
		}
		for _, r := range s.Rules {
			if own && r.Decision == policy.Allow {
				t.Errorf("a workspace allows:\n%s", r.TOML())
			}
			again, err := Parse("g", []byte(r.TOML()))
			if err != nil || len(again.Rules) != 1 {
				t.Fatalf("a rule is not read again: %v\n%s", err, r.TOML())
			}
			got := again.Rules[0]
			got.Origin = r.Origin
			if got.TOML() != r.TOML() {
				t.Errorf("a rule is read again as\n%s\nnot\n%s", got.TOML(), r.TOML())
			}
		}
		policy.Judge(s.Policy(), policy.Call{Tool: "x", Effects: tool.Writes | tool.UsesNetwork}, policy.Site{Now: noon, Root: "/w"})
	})
}
