package config

import (
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/tool"
)

// TestOffersAreReadable: every rule that a verdict offers is one that a file may
// hold, and is read as the same rule; every rule that it offers for saving can be
// saved.
func TestOffersAreReadable(t *testing.T) {
	saved := OpenSaved(filepath.Join(t.TempDir(), "rules"))
	paths := []string{"a", "docs/a.md", "a b", "ü", "a*[1]{x}?\\", "-x", "#", "\"", "'", "a\nb", "a\u202eb", "bad\xff", ".git/config", "~x", "/etc/hosts", ".", "/", "a//b", "../x"}
	hosts := []string{"h.example", "*.example.com", "*", "h:443", "[::1]:80", "::1", "UPPER.example.", "no host at all", ""}
	texts := []string{"ls", "ls 'a b'", "git commit -m \"it's\"", "echo x > a.txt", "echo $'\\n'", "printf '\\t' 'ü' '\u202e'", "make x && ls", "$(x)", "rm -- -x"}
	sources := []tool.Source{tool.Builtin, tool.Native, tool.Installed, tool.MCP, tool.Host, tool.Extension, "", "odd"}
	offers, saves := 0, 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 4))
		c := policy.Call{
			Tool: []string{"write_file", "github__x", "thing", "odd name"}[r.IntN(4)], Source: sources[r.IntN(len(sources))],
			Effects: tool.Effects(r.IntN(64)), Arguments: []byte("{}"),
		}
		if r.IntN(2) == 0 {
			c.Module = tool.DigestOf([]byte("m"))
		}
		for range r.IntN(3) {
			c.Targets = append(c.Targets, policy.Target{Verb: policy.Write, Path: paths[r.IntN(len(paths))], List: []string{"", "", "git"}[r.IntN(3)]})
		}
		for range r.IntN(2) {
			c.Hosts = append(c.Hosts, hosts[r.IntN(len(hosts))])
		}
		if r.IntN(3) == 0 {
			c.Command = &policy.Command{Text: texts[r.IntN(len(texts))], Cwd: "/w", Profile: profiles[r.IntN(3)]}
		}
		v := policy.Judge(policy.Policy{Unsandboxed: true}, c, policy.Site{Now: noon, Root: "/w", Path: []string{"/usr/bin"}})
		for _, offer := range []*policy.Rule{v.Smallest, v.Save} {
			if offer == nil {
				continue
			}
			offers++
			s, err := Parse("f", []byte(offer.TOML()))
			if err != nil {
				t.Errorf("seed %d: %v\n%s", seed, err, offer.TOML())
				continue
			}
			got := s.Rules[0]
			got.Origin, got.ID = offer.Origin, offer.ID
			if !reflect.DeepEqual(got, *offer) {
				t.Errorf("seed %d: read as\n%+v\nnot\n%+v", seed, got, *offer)
			}
		}
		if v.Save != nil {
			saves++
			if saves > 500 {
				continue
			}
			if id, err := saved.Add(v.Save.TOML(), "me", noon); err != nil || id != v.Save.ID {
				t.Errorf("seed %d: Add = %s, %v\n%s", seed, id, err, v.Save.TOML())
			}
		}
	}
	if offers == 0 || saves == 0 {
		t.Error("nothing was offered: the test compares nothing")
	}
}
