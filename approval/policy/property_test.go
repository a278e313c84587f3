package policy_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/tool"
)

// random makes policies and calls of few words, so that rules and calls meet.
type random struct{ *rand.Rand }

func pick[T any](r random, of ...T) T { return of[r.IntN(len(of))] }

func some[T any](r random, most int, of ...T) []T {
	var out []T
	for range r.IntN(most + 1) {
		out = append(out, pick(r, of...))
	}
	return out
}

var (
	manyPaths = []string{"a", "docs/a", "docs/b/c", ".git/config", ".env", "/etc/hosts", "a*[1]", "bad\xff"}
	manyGlobs = []string{"**", "docs/**", "docs/*", "a", ".git/config", ".git/**", "/etc/*", `a\*\[1\]`, "*"}
	manyHosts = []string{"h.example", "*.example", "*", "h.example:443", "api.h.example", "[::1]:80", "::1"}
	manyTexts = []string{"ls", "ls -la | head", "git push", "rm -rf docs", "echo x > docs/a", "cat .env", "sudo rm a", "$(evil)", "ls; evil", "\x00", "cat /etc/hosts"}
)

func (r random) rule(d policy.Decision) policy.Rule {
	rule := policy.Rule{Name: fmt.Sprint("r", r.IntN(1000)), Decision: d}
	if r.IntN(2) == 0 {
		rule.Tools = some(r, 2, "x", "y", "*", "x*")
	}
	if r.IntN(4) == 0 {
		rule.Sources = some(r, 2, tool.Builtin, tool.MCP, tool.Installed)
	}
	if r.IntN(6) == 0 {
		rule.Modules = []tool.Digest{pick(r, digest("m"), digest("n"))}
	}
	if r.IntN(6) == 0 {
		rule.Inputs = []tool.Digest{pick(r, digest("{}"), digest("n"))}
	}
	if r.IntN(4) == 0 {
		rule.Effects = tool.Effects(r.IntN(64))
	}
	if r.IntN(2) == 0 {
		rule.Paths = some(r, 2, manyGlobs...)
	}
	if r.IntN(3) == 0 {
		rule.Protected = some(r, 1, "git", "editor")
	}
	if r.IntN(3) == 0 {
		rule.Hosts = some(r, 2, manyHosts...)
	}
	if r.IntN(3) == 0 {
		rule.Commands = some(r, 2, []string{"ls"}, []string{"git", "push"}, []string{"rm"}, []string{"cat"}, []string{"head"}, []string{"echo"})
	}
	if r.IntN(8) == 0 {
		rule.Exact = some(r, 2, []string{"ls"}, []string{"rm", "-rf", "docs"})
	}
	if r.IntN(5) == 0 {
		rule.Profiles = some(r, 2, "none", "read-only", "workspace-write")
	}
	if r.IntN(6) == 0 {
		rule.Expires = pick(r, noon.Add(-time.Hour), noon.Add(time.Hour))
	}
	if r.IntN(8) == 0 {
		rule.Workspaces = []string{pick(r, "/work", "/other")}
	}
	return rule
}

func (r random) policy() policy.Policy {
	p := policy.Policy{
		Mode:        pick(r, "", policy.ModeAsk, policy.ModeAllowEdits, policy.ModePlan, policy.ModeDeny),
		Unsandboxed: r.IntN(2) == 0,
	}
	for range r.IntN(6) {
		p.Rules = append(p.Rules, r.rule(pick(r, policy.Allow, policy.Allow, policy.Ask, policy.Deny)))
	}
	return p
}

func (r random) call() policy.Call {
	c := policy.Call{
		Tool: pick(r, "x", "y"), Source: pick(r, tool.Builtin, tool.Native, tool.MCP, tool.Installed, "odd"),
		Module: pick(r, "", digest("m")), Effects: tool.Effects(r.IntN(64)), Trusted: r.IntN(2) == 0,
		Hosts: some(r, 2, manyHosts...),
	}
	for _, p := range some(r, 3, manyPaths...) {
		t := policy.Target{Verb: pick(r, policy.Read, policy.Make, policy.Write, policy.Delete, policy.Erase), Path: p}
		switch p {
		case ".git/config":
			t.List = "git"
		case ".env":
			t.List, t.Secret = "env", true
		}
		c.Targets = append(c.Targets, t)
	}
	if r.IntN(3) == 0 {
		c.Command = &policy.Command{
			Text: pick(r, manyTexts...), Cwd: pick(r, "/work", "/work/docs", "/etc"),
			Profile: pick(r, "", "none", "read-only"), Shell: pick(r, "", "", "zsh"), Changed: r.IntN(5) == 0,
		}
	}
	return c
}

func (r random) site() policy.Site {
	return policy.Site{Now: pick(r, noon, time.Time{}), Fold: r.IntN(2) == 0, Root: "/work", Home: "/home/me", Path: []string{"/usr/bin"},
		Listed: func(p string) (string, bool) {
			switch p {
			case ".env":
				return "env", true
			case ".git/config":
				return "git", false
			}
			return "", false
		}}
}

func seeds(t *testing.T, f func(random)) {
	t.Helper()
	n := uint64(5_000)
	if testing.Short() {
		n = 1_000
	}
	for seed := range n {
		f(random{rand.New(rand.NewPCG(seed, 1))})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func strictness(d policy.Decision) int {
	return slices.Index([]policy.Decision{policy.Allow, policy.Ask, policy.Deny}, d)
}

// TestStricterRulesNeverLoosen: a rule more that asks or denies, and a rule less
// that allows, never makes a verdict looser.
func TestStricterRulesNeverLoosen(t *testing.T) {
	moved := 0
	seeds(t, func(r random) {
		p, c, s := r.policy(), r.call(), r.site()
		before := policy.Judge(p, c, s)

		more := p
		more.Rules = slices.Insert(slices.Clone(p.Rules), r.IntN(len(p.Rules)+1), r.rule(pick(r, policy.Ask, policy.Deny)))
		after := policy.Judge(more, c, s)
		if strictness(after.Decision) < strictness(before.Decision) {
			t.Errorf("a stricter rule more turns %s (%v) into %s (%v)\ncall %+v\nrules %+v", before.Decision, before.Rule, after.Decision, after.Rule, c, more.Rules)
		}
		if after.Decision != before.Decision {
			moved++
		}
		less := p
		less.Rules = slices.DeleteFunc(slices.Clone(p.Rules), func(rule policy.Rule) bool { return rule.Decision == policy.Allow && r.IntN(2) == 0 })
		if after := policy.Judge(less, c, s); strictness(after.Decision) < strictness(before.Decision) {
			t.Errorf("an allowing rule less turns %s into %s\ncall %+v\nrules %+v", before.Decision, after.Decision, c, less.Rules)
		}
	})
	if moved == 0 {
		t.Error("no verdict changed: the test compares nothing")
	}
}

// TestOrderDoesNotMatter: the place of a rule changes nothing about the verdict.
func TestOrderDoesNotMatter(t *testing.T) {
	seeds(t, func(r random) {
		p, c, s := r.policy(), r.call(), r.site()
		before := policy.Judge(p, c, s)
		mixed := p
		mixed.Rules = slices.Clone(p.Rules)
		r.Shuffle(len(mixed.Rules), func(i, j int) { mixed.Rules[i], mixed.Rules[j] = mixed.Rules[j], mixed.Rules[i] })
		if after := policy.Judge(mixed, c, s); after.Decision != before.Decision {
			t.Errorf("in another order %s becomes %s\ncall %+v\nrules %+v", before.Decision, after.Decision, c, p.Rules)
		}
	})
}

// TestJudgeIsDeterministic also holds that nothing that was given is changed.
func TestJudgeIsDeterministic(t *testing.T) {
	seeds(t, func(r random) {
		p, c, s := r.policy(), r.call(), r.site()
		rules, targets := fmt.Sprintf("%+v", p.Rules), fmt.Sprintf("%+v", c.Targets)
		one, two := policy.Judge(p, c, s), policy.Judge(p, c, s)
		if !reflect.DeepEqual(one, two) {
			t.Errorf("two verdicts on one call:\n%+v\n%+v", one, two)
		}
		if fmt.Sprintf("%+v", p.Rules) != rules || fmt.Sprintf("%+v", c.Targets) != targets {
			t.Error("Judge changed what it was given")
		}
	})
}

// TestSmallestAlways: whenever a rule is offered it allows the call, and without
// one the verdict says what else a person could do.
func TestSmallestAlways(t *testing.T) {
	offered := 0
	seeds(t, func(r random) {
		p, c, s := r.policy(), r.call(), r.site()
		v := policy.Judge(p, c, s)
		if v.Decision == policy.Allow {
			return
		}
		if v.Smallest == nil {
			if v.Instead == "" {
				t.Errorf("%s without a way out: %+v", v.Decision, c)
			}
			return
		}
		offered++
		with := p
		with.Rules = append(slices.Clone(p.Rules), *v.Smallest)
		if again := policy.Judge(with, c, s); again.Decision != policy.Allow {
			t.Errorf("with the smallest rule %s stays %s (%v: %s)\ncall %+v %+v\n%s", v.Decision, again.Decision, again.Rule, again.Reason, c, c.Command, v.Smallest.TOML())
		}
	})
	if offered == 0 {
		t.Error("no rule was ever offered: the test compares nothing")
	}
}
