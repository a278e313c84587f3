package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/approval/policy"
)

// offered is a rule as a verdict offers it to be saved.
func offered(t *testing.T, path string) policy.Rule {
	t.Helper()
	v := policy.Judge(policy.Policy{}, policy.Call{Tool: "write_file", Targets: []policy.Target{{Verb: policy.Write, Path: path}}}, policy.Site{Now: noon, Root: "/w"})
	if v.Save == nil {
		t.Fatal("no rule is offered")
	}
	return *v.Save
}

// TestSaved: what was offered is what holds afterwards, until it is revoked.
func TestSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "rules")
	s := OpenSaved(dir)
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Fatalf("List of a folder that does not exist = %v, %v", list, err)
	}
	rule := offered(t, "docs/a.md")
	id, err := s.Add(rule.TOML(), "me at \"pts/1\"\nx", noon)
	if err != nil || id != rule.ID {
		t.Fatalf("Add = %s, %v; want the id %s that was offered", id, err, rule.ID)
	}
	if _, err := s.Add(rule.TOML(), "me", noon); err != nil {
		t.Fatalf("Add again: %v", err)
	}
	list, err := s.List()
	if err != nil || len(list) != 1 || list[0].Fault != nil {
		t.Fatalf("List = %+v, %v", list, err)
	}
	got := list[0]
	want := rule
	want.Origin = policy.Origin{Layer: policy.Saved, File: filepath.Join(dir, id+".toml"), Line: 2}
	if !reflect.DeepEqual(got.Rule, want) {
		t.Errorf("the rule is\n%+v\nwant\n%+v", got.Rule, want)
	}
	if !got.Saved.Equal(noon) || got.By != "me" {
		t.Errorf("saved %s by %q", got.Saved, got.By)
	}
	data, err := os.ReadFile(want.Origin.File)
	if err != nil || !strings.HasSuffix(string(data), "\n"+rule.TOML()) {
		t.Errorf("the file does not hold what was shown: %v\n%s", err, data)
	}
	if err := s.Revoke(id); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("after Revoke: %v, %v", list, err)
	}
	for _, id := range []string{id, "", "../x", "0123456789ab", strings.Repeat("a", 500)} {
		if err := s.Revoke(id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Revoke(%.20q) = %v, want ErrNotExist", id, err)
		}
	}
}

func TestSavedRefuses(t *testing.T) {
	s := OpenSaved(filepath.Join(t.TempDir(), "rules"))
	good := offered(t, "a")
	expired, forever, denies := good, good, good
	expired.Expires, forever.Expires, denies.Decision = noon, time.Time{}, policy.Deny
	for name, text := range map[string]string{
		"written otherwise": strings.Replace(good.TOML(), "\n", "\n\n", 1),
		"two rules":         good.TOML() + good.TOML(),
		"none":              "",
		"no TOML":           "[[rules",
		"expired":           expired.TOML(),
		"for ever":          forever.TOML(),
		"denies":            denies.TOML(),
		"a setting more":    "[approvals]\nmode = \"plan\"\n" + good.TOML(),
		"everything":        "[[rules]]\nverdict = \"allow\"\nexpires = 2027-01-01T00:00:00Z\n",
	} {
		if id, err := s.Add(text, "me", noon); err == nil {
			t.Errorf("%s: saved as %s", name, id)
		}
	}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("List = %v, %v; want nothing", list, err)
	}
}

// TestSavedFaults: a file that was changed by hand, a link and a FIFO allow
// nothing, are told, and can be revoked.
func TestSavedFaults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rules")
	s := OpenSaved(dir)
	id, err := s.Add(offered(t, "a").TOML(), "me", noon)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, id+".toml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(data), `paths = ["a"]`, `paths = ["**"]`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, filepath.Join(dir, "0123456789ab.toml")); err != nil {
		t.Skip("links cannot be made here: ", err)
	}
	list, err := s.List()
	if err != nil || len(list) != 2 {
		t.Fatalf("List = %v, %v", list, err)
	}
	for _, r := range list {
		if r.Fault == nil {
			t.Errorf("%s is taken", r.Rule.ID)
		}
	}
	src, err := NewSource(Places{Saved: dir}, nil)
	if err != nil || len(src.Policy().Rules) != 0 {
		t.Errorf("a source takes %v, %v", src.Policy().Rules, err)
	}
	if err := s.Revoke(id); err != nil {
		t.Error(err)
	}
}

// TestSavedByMany: processes that save, list and revoke at once lose nothing and
// see whole files only.
func TestSavedByMany(t *testing.T) {
	s := OpenSaved(filepath.Join(t.TempDir(), "rules"))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 10 {
				id, err := s.Add(offered(t, fmt.Sprintf("f%d-%d", i, j)).TOML(), "me", noon)
				if err != nil {
					t.Error(err)
				}
				list, err := s.List()
				if err != nil {
					t.Error(err)
				}
				for _, r := range list {
					if r.Fault != nil {
						t.Error(r.Fault)
					}
				}
				if j%2 == 1 {
					if err := s.Revoke(id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if list, err := s.List(); err != nil || len(list) != 40 {
		t.Errorf("%d rules are left (%v), want 40", len(list), err)
	}
}

// TestSource: what changes is read again, what becomes faulty leaves what held
// before, and what a workspace once tightened stays tight.
func TestSource(t *testing.T) {
	dir := t.TempDir()
	p := Places{User: filepath.Join(dir, "user.toml"), Saved: filepath.Join(dir, "rules"), Workspace: filepath.Join(dir, "w")}
	own := filepath.Join(p.Workspace, FileName)
	if err := os.Mkdir(p.Workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var told []string
	put(own, "[[rules]]\nverdict = 'deny'\npaths = ['one']\n")
	src, err := NewSource(p, func(s string) { told = append(told, s) })
	if err != nil {
		t.Fatal(err)
	}
	check := func(what, want string, notices int) {
		t.Helper()
		s := src.Settings()
		var got []string
		for _, r := range s.Rules {
			got = append(got, fmt.Sprintf("%s %s", r.Decision, strings.Join(r.Paths, ",")))
		}
		if g := fmt.Sprintf("%s, %d ms: %s", s.Approvals.Mode, s.Limits.TimeMS, strings.Join(got, "; ")); g != want {
			t.Errorf("%s:\n  %s\nwant\n  %s", what, g, want)
		}
		if len(told) != notices {
			t.Errorf("%s: %d notices, want %d: %q", what, len(told), notices, told)
		}
		told = nil
	}
	check("at first", "ask, 30000 ms: deny one", 0)
	put(p.User, "[approvals]\nmode = 'allow-edits'\n[[rules]]\nverdict = 'allow'\npaths = ['u']\n")
	check("a user's file", "allow-edits, 30000 ms: allow u; deny one", 0)
	rule := offered(t, "saved")
	if _, err := OpenSaved(p.Saved).Add(rule.TOML(), "me", noon); err != nil {
		t.Fatal(err)
	}
	check("a saved rule", "allow-edits, 30000 ms: allow u; deny one; allow saved", 0)
	put(own, "[limits]\ntime_ms = 50\n[[rules]]\nverdict = 'ask'\npaths = ['two']\n")
	check("another rule of the workspace", "allow-edits, 50 ms: allow u; deny one; ask two; allow saved", 0)
	put(own, "[limits]\ntime_ms = 90\n")
	check("fewer rules of the workspace", "allow-edits, 50 ms: allow u; deny one; ask two; allow saved", 0)
	put(own, "[[rules]]\nverdict = 'allow'\npaths = ['**']\n")
	check("a workspace that allows", "allow-edits, 50 ms: allow u; deny one; ask two; allow saved", 1)
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	check("no file of the workspace", "allow-edits, 50 ms: allow u; deny one; ask two; allow saved", 0)
	put(p.User, "[approvals]\nmode = 'plann'\n")
	check("a fault of the user", "allow-edits, 50 ms: allow u; deny one; ask two; allow saved", 1)
	if err := os.Remove(p.User); err != nil {
		t.Fatal(err)
	}
	check("no file of the user", "allow-edits, 50 ms: allow u; deny one; ask two; allow saved", 1)
	put(p.User, "[approvals]\nmode = 'plan'\n")
	check("a user's file again", "plan, 50 ms: deny one; ask two; allow saved", 0)
	if err := OpenSaved(p.Saved).Revoke(rule.ID); err != nil {
		t.Fatal(err)
	}
	check("a revoked rule", "plan, 50 ms: deny one; ask two", 0)
}

func BenchmarkSourceUnchanged(b *testing.B) {
	dir := b.TempDir()
	p := Places{User: filepath.Join(dir, "user.toml"), Saved: filepath.Join(dir, "rules"), Workspace: dir}
	if err := os.WriteFile(p.User, []byte(everything), 0o600); err != nil {
		b.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(p.User, old, old); err != nil {
		b.Fatal(err)
	}
	src, err := NewSource(p, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		src.Policy()
	}
}
