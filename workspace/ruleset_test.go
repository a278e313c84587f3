package workspace

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// TestBuiltInNames writes down what should be on the lists, and what should not.
func TestBuiltInNames(t *testing.T) {
	for _, c := range []struct {
		path              string
		secret, protected string // the rule's name; "" if it is not on the list
	}{
		// Secrets.
		{".env", "env", ""},
		{"a/b/.env.local", "env", ""},
		{".envrc", "env", "shell"},
		{".env.example", "", ""},
		{"x/.env.sample", "", ""},
		{".env.example.local", "env", ""},
		{".env/lib/x.py", "env", ""},
		{".ENV", "env", ""},
		{"env", "", ""},
		{"prod.env", "", ""},
		{"a.env.b", "", ""},
		{"deploy/id_rsa", "key", ""},
		{"deploy/id_rsa.pub", "", ""},
		{"id_ed25519", "key", ""},
		{"tls/server.pem", "key", ""},
		{"tls/SERVER.PEM", "key", ""},
		{"tls/server.key", "key", ""},
		{"keys.go", "", ""},
		{"key", "", ""},
		{"monkey", "", ""},
		{".key", "key", ""},
		{".npmrc", "npm", ""},
		{"npmrc", "", ""},
		{".aws/credentials", "cloud", ""},
		{".aws", "cloud", ""},
		{"aws/credentials", "", ""},
		{"x/.config/gcloud/y", "cloud", ""},
		{".config/gcloud", "cloud", ""},
		{"x.config/gcloud", "", ""},
		{".config/gcloudx", "", ""},
		{".docker/config.json", "credentials", ""},
		{".docker/other.json", "", ""},
		{"docker/config.json", "", ""},
		{".ssh/known_hosts", "key", ""},
		{".git-credentials", "credentials", ""},

		// Protected.
		{".git", "", "git"},
		{".git/config", "", "git"},
		{"sub/.git", "", "git"},
		{".gitignore", "", ""},
		{".github/workflows/ci.yml", "", ""},
		{".gitmodules", "", "git"},
		{"git/config", "", ""},
		{"x.git/notes", "", ""},
		{".hg/hgrc", "", "vcs"},
		{".husky/pre-commit", "", "hooks"},
		{"husky/pre-commit", "", ""},
		{".pre-commit-config.yaml", "", "hooks"},
		{".vscode/tasks.json", "", "editor"},
		{"team.code-workspace", "", "editor"},
		{"vscode/tasks.json", "", ""},
		{".claude/settings.json", "", "agent"},
		{".mcp.json", "", "agent"},
		{"mcp.json", "", ""},
		{"CLAUDE.md", "", "agent"},
		{"AGENTS.md", "", "agent"},
		{"home/.bashrc", "", "shell"},
		{"bashrc", "", ""},
		{".config/fish/config.fish", "", "shell"},
		{"wasmtools.toml", "", "wasmtools"},
		{"Makefile", "", ""},
		{"package.json", "", ""},
		{"", "", ""},
		{".", "", ""},
		{"...", "", ""},

		// Other spellings of them.
		{".GiT/config", "", "git"},
		{".g\u200cit/config", "", "git"},
		{".git\ufeff", "", "git"},
		{".git./config", "", "git"},
		{".git . ./config", "", "git"},
		{".ｇｉｔ/config", "", "git"},
		{"．git", "", "git"},
		{".git::$INDEX_ALLOCATION/config", "", "git"},
		{"git~1/config", "", "git"},
		{"GIT~2", "", "git"},
		{"git~1x", "", ""},
		{"git~", "", ""},
		{"gi7eba~1", "credentials", "git"}, // which of the names with these two letters cannot be told,
		{"GITMOD~1", "", "git"},
		{"mcp~1.jso", "", "agent"},
		{"mcp~1.txt", "", ""},
		{"vscode~1/tasks.json", "", "editor"},
		{"env~1.loc", "env", ""},
		{"npmrc~1", "npm", ""},
		{".ßh/id", "key", ""},
		{".vſcode/x", "", "editor"},
		{".Kube/config", "cloud", ""},
		{".env:stream", "env", ""},
		{"a:b.pem", "key", ""},
		{"a.pem:b", "key", ""},
		{".gít/config", "", ""}, // another letter on every system
		{".git\xff", "", ""},
		{"\xff/.git", "", "git"},
		{".env.example.", "", ""},
		{".env.example:x", "env", ""},
	} {
		for _, list := range []struct {
			what string
			set  *ruleSet
			want string
		}{{"secret", builtInSecrets(), c.secret}, {"protected", builtInProtected(), c.protected}} {
			got := ""
			if e := list.set.find(c.path); e != nil {
				got = e.Name
			}
			if got != list.want {
				t.Errorf("%s list: find(%q) = %q, want %q", list.what, c.path, got, list.want)
			}
		}
	}
}

// TestOwnRules: what the user and the workspace add.
func TestOwnRules(t *testing.T) {
	for _, c := range []struct {
		glob    string
		yes, no []string
	}{
		{"secret.env", []string{"secret.env", "a/secret.env", "secret.env/x", "SECRET.env"}, []string{"secret.env2", "xsecret.env"}},
		{"/top.txt", []string{"top.txt", "top.txt/x", "TOP.TXT"}, []string{"a/top.txt"}},
		{"./top.txt", []string{"top.txt"}, []string{"a/top.txt"}},
		{"vault/", []string{"vault", "a/vault/x"}, []string{"vaults"}},
		{"a/b", []string{"a/b", "a/b/c", "A/B./c"}, []string{"b", "x/a/b", "a/bc"}},
		{"**/a/b", []string{"a/b", "x/y/a/b/c"}, []string{"xa/b", "a/x/b"}},
		{"secrets/**", []string{"secrets/x", "secrets/x/y", "secrets"}, []string{"x/secrets/y"}},
		{"conf/*.json", []string{"conf/a.json", "conf/A.JSON", "conf/a.json/x"}, []string{"conf/d/a.json", "a.json"}},
		{"prod-*", []string{"prod-1", "x/PROD-2/y"}, []string{"prod"}},
		{"*.{crt,cer}", []string{"a.crt", "x/a.CER"}, []string{"a.crts"}},
		{"{a,b{c,d}}/{x,}y", []string{"a/xy", "bc/y", "BD/XY/z"}, []string{"b/y", "bcd/y", "z/a/y"}},
		{`{a\,b,[{,}]}`, []string{"a,b", "{", "x/,"}, []string{"a", "b"}},
		{"{..,ok}/x", []string{"ok/x"}, []string{"x"}},
		{"[A-C]?.txt", []string{"B1.txt", "b1.TXT"}, []string{"d1.txt", "b.txt"}},
		{"x[!a-z]", []string{"x1", "xB"}, []string{"xb"}},
		{`a\*b`, []string{"a*b"}, []string{"axb"}},
		{"a＊b", []string{"a＊b", "a*b"}, []string{"axb"}},
		{"caf\u00e9/**", []string{"cafe\u0301/x", "CAFÉ/x", "caf\u00e9/x"}, []string{"cafe/x"}},
		{"dots.", []string{"dots.", "dots"}, []string{"dots.x"}},
		{"*.", []string{"a."}, []string{"a", "a.b"}},
		{"**", []string{"a", "a/b"}, nil},
		{"*", []string{"a", "a/b"}, nil},
		{"two words", []string{"two words", "TWO WORDS "}, []string{"twowords"}},
		{"bad\xffname", []string{"bad\xffname"}, []string{"badname"}},
		{"bad\xff*", []string{"bad\xffname", "BAD\xffx"}, []string{"badname"}},
	} {
		s, err := ownRules([]Rule{{Glob: c.glob, Where: "f:1"}})
		if err != nil {
			t.Errorf("%q: %v", c.glob, err)
			continue
		}
		for _, p := range c.yes {
			if s.find(p) == nil {
				t.Errorf("%q does not fit %q", c.glob, p)
			}
		}
		for _, p := range c.no {
			if s.find(p) != nil {
				t.Errorf("%q fits %q", c.glob, p)
			}
		}
	}
	for _, bad := range []string{"", ".", "/", "a//b", "../x", "a/./b", "a\x00b", "[a", "{a", `a\`, strings.Repeat("x", 2000),
		strings.Repeat("{a,b}", 9), "{..}/x"} {
		if _, err := ownRules([]Rule{{Glob: bad, Where: "wasmtools.toml:7"}}); err == nil || !strings.Contains(err.Error(), "wasmtools.toml:7") {
			t.Errorf("rule %q: %v, want an error that names its place", bad, err)
		}
	}
}

// slowFind asks every rule about every name on the way, by way of full case
// folding and a list of code points of its own. It gives the names of all rules
// that fit.
func slowFind(rows []listed, own []Rule, path string) []string {
	var out []string
	add := func(name string, hit bool) {
		if hit && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	parts := strings.Split(path, "/")
	for n := 1; n <= len(parts); n++ {
		var whole, bare []string
		for _, p := range parts[:n] {
			f := slowFold(p)
			whole = append(whole, f)
			if i := strings.IndexByte(f, ':'); i > 0 {
				f = strings.TrimRight(f[:i], ". ")
			}
			bare = append(bare, f)
		}
		for _, row := range rows {
			for _, g := range row.globs {
				for _, form := range [][]string{whole, bare} {
					add(row.name, slowMatch(g, form) && !slices.Contains(row.except, form[n-1]) || slowShort(g, form[n-1]))
				}
			}
		}
		for _, r := range own {
			for _, form := range [][]string{whole, bare} {
				add(r.Name, slowMatch(foldGlob(r.Glob), form) || slowShort(foldGlob(r.Glob), form[n-1]))
			}
			add(r.Name, slowMatch(r.Glob, parts[:n]))
		}
	}
	return out
}

func slowMatch(glob string, parts []string) bool {
	if !strings.Contains(glob, "/") {
		return doublestar.MatchUnvalidated(glob, parts[len(parts)-1])
	}
	return doublestar.MatchUnvalidated(glob, strings.Join(parts, "/"))
}

var shortRe = regexp.MustCompile(`^([^~]{1,6})~[0-9]+(?:\.([^.]{0,3}|[^/]{0,3}))?$`)

func slowShort(glob, name string) bool {
	lit, open := strings.CutSuffix(glob, "*")
	if strings.Contains(glob, "/") || strings.ContainsAny(lit, `*?[]{}\`) {
		return false
	}
	m := shortRe.FindStringSubmatch(name)
	if m == nil {
		return false
	}
	stem, ext := shortForm(lit)
	if stem == "" {
		return false
	}
	isHash, _ := regexp.MatchString(`^..[0-9a-f]{4}$`, m[1])
	isHash = isHash && cut(stem, 2) != cut(stem, 1) && cut(m[1], 2) == cut(stem, 2)
	if open {
		return strings.HasPrefix(m[1], stem) || isHash
	}
	return (m[1] == stem || isHash) && m[2] == ext
}

func slowFold(s string) string {
	name := s
	for range 8 {
		s = strings.Map(func(r rune) rune {
			for _, x := range [][2]rune{{0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c}, {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f},
				{0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0},
				{0xfff0, 0xfff8}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}} {
				if x[0] <= r && r <= x[1] || unicode.Is(unicode.Cf, r) {
					return -1
				}
			}
			return r
		}, norm.NFKC.String(s))
		s = norm.NFKC.String(cases.Fold().String(norm.NFKC.String(s)))
	}
	if s == "" {
		return name
	}
	s = strings.ReplaceAll(s, "/", "\u2215")
	if t := strings.TrimRight(s, ". "); t != "" {
		return t
	}
	return s
}

var spellings = map[rune][]string{
	'a': {"A", "ａ", "Ａ"}, 'c': {"C", "ｃ"}, 'e': {"E", "ｅ"}, 'g': {"G", "ｇ"}, 'i': {"I", "ｉ", "ⅰ"}, 'k': {"K", "\u212a", "ｋ"}, 'n': {"N", "ⁿ"},
	's': {"S", "ſ", "ｓ"}, 't': {"T", "ｔ"}, 'v': {"V", "ⅴ"}, '.': {"．", "\u2024", "\ufe52"}, '_': {"＿"}, '-': {"－"}, '1': {"１", "①", "¹"},
	'ü': {"u\u0308", "Ü", "U\u0308"},
}

// respell writes a path as another that some system takes for it.
func respell(r *rand.Rand, path string) string {
	var b strings.Builder
	for _, c := range path {
		if alt := spellings[c]; alt != nil && r.IntN(4) == 0 {
			b.WriteString(alt[r.IntN(len(alt))])
		} else {
			b.WriteRune(c)
		}
		if c != '/' && r.IntN(8) == 0 {
			b.WriteString([]string{"\u200b", "\u200d", "\ufeff", "\u00ad", "\u2060", "\ufe0f", "\u034f", "\U000e0041"}[r.IntN(8)])
		}
	}
	parts := strings.Split(b.String(), "/")
	for i := range parts {
		switch r.IntN(8) {
		case 0:
			parts[i] += []string{".", " ", ". .", "\u00a0", "\u2003."}[r.IntN(5)]
		case 1:
			parts[i] += []string{":", ":x", "::$DATA", "：y", ".:z"}[r.IntN(5)]
		}
	}
	return strings.Join(parts, "/")
}

// TestOtherSpellings: however a listed name is spelt, it is on the list.
func TestOtherSpellings(t *testing.T) {
	own := []Rule{{Glob: "grüße-*", Name: "own"}, {Glob: "geheim/**", Name: "own"}}
	set, err := ownRules(own)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		list := []struct {
			set  *ruleSet
			path string
		}{
			{builtInProtected(), ".git/config"}, {builtInProtected(), "x/.vscode/tasks.json"}, {builtInProtected(), "a/.claude"},
			{builtInSecrets(), ".env"}, {builtInSecrets(), "d/.env.local"}, {builtInSecrets(), "d/id_rsa"}, {builtInSecrets(), ".aws/x"},
			{builtInSecrets(), ".config/gcloud/k"}, {set, "grüße-1"}, {set, "geheim/v"},
		}
		c := list[r.IntN(len(list))]
		p := respell(r, c.path)
		if c.set.find(p) == nil {
			t.Fatalf("%q, which is %q in another spelling, is not found", p, c.path)
		}
		// The control: the same spelling of a name that is not listed.
		q := respell(r, "agents/"+strings.ReplaceAll(strings.ReplaceAll(c.path, ".", "n"), "_", "k")+"n")
		if e := c.set.find(q); e != nil && c.set != set {
			t.Fatalf("%q is found by %s", q, e.Rule)
		}
	}
}

// TestFindAsTwin holds the fast way against the slow one.
func TestFindAsTwin(t *testing.T) {
	own := []Rule{
		{Glob: "exact", Name: "1"}, {Glob: "pre*", Name: "2"}, {Glob: "*.suf", Name: "3"}, {Glob: "a/b", Name: "4"}, {Glob: "**/a/git", Name: "5"},
		{Glob: "a/*/c", Name: "6"}, {Glob: "[a-c]?", Name: "7"}, {Glob: "ü*", Name: "8"}, {Glob: "**/x/**/y", Name: "9"}, {Glob: "environment", Name: "10"},
	}
	set, err := ownRules(own)
	if err != nil {
		t.Fatal(err)
	}
	words := []string{
		".git", ".env", "env", "git", "exact", "pre", "prefix", "x.suf", ".suf", "a", "b", "c", "x", "y", "ü", "u\u0308", "Ü", "ß", "ss", ".", "..", " ", ":", "~1", "~12", "~",
		"git~1", "gi7eba~1", "ENV~1.LOC", "enviro~1", "environment", ".pem", "pem", "id_rsa", "ID_RSA", ".config", "gcloud", ".ssh", ".ſsh", "\u200c", "\xff", "é", "\u0301",
		"．", "ｇ", "\u2126", "\u03c9", "ﬁ", "K", "k", "ı", ".example", ".sample", "mcp", ".json", ".jso", "*", "＊", "[", "／",
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 4_000 {
		var parts []string
		for range 1 + r.IntN(3) {
			var b strings.Builder
			for range 1 + r.IntN(3) {
				b.WriteString(words[r.IntN(len(words))])
			}
			parts = append(parts, b.String())
		}
		sameAsTwin(t, strings.Join(parts, "/"), own, set)
	}
}

func sameAsTwin(t *testing.T, path string, own []Rule, set *ruleSet) {
	t.Helper()
	for _, c := range []struct {
		set  *ruleSet
		slow []string
	}{
		{builtInSecrets(), slowFind(secretPaths, nil, path)},
		{builtInProtected(), slowFind(protectedPaths, nil, path)},
		{set, slowFind(nil, own, path)},
	} {
		e := c.set.find(path)
		if e == nil && len(c.slow) > 0 || e != nil && !slices.Contains(c.slow, e.Name) {
			got := "nothing"
			if e != nil {
				got = e.Name
			}
			t.Fatalf("find(%q) = %s, and the slow way finds %q", path, got, c.slow)
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, s := range []string{".git/config", ".g\u200cit", "git~1", "a.pem:x", ".ßh", "\xff.git", "é/ü", ".env.example", "a:b:c/d.", "~1", strings.Repeat("x", 300)} {
		f.Add(s, "*.x", "plain")
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, path, glob1, glob2 string) {
		if len(path) > 1000 || strings.Contains(path, "//") {
			return
		}
		var own []Rule
		for i, g := range []string{glob1, glob2} {
			if _, err := newEntries(Rule{Glob: g}); err == nil && strings.Trim(g, "/") == g && !strings.HasPrefix(g, "./") {
				own = append(own, Rule{Glob: g, Name: fmt.Sprint(i)})
			}
		}
		set, err := ownRules(own)
		if err != nil {
			t.Fatal(err)
		}
		if set == nil {
			set = newRuleSet()
		}
		for _, s := range []*ruleSet{builtInSecrets(), builtInProtected(), set} {
			s.find(path)
		}
		folded := fold(path)
		if again := fold(folded); again != folded {
			t.Errorf("fold(%q) = %q, and again %q", path, folded, again)
		}
		for _, r := range own {
			// A path fits itself as a glob, whatever is in it.
			if clean, bad := cleanGlob(escapeGlob(path)); bad == "" && clean == escapeGlob(path) {
				s, err := ownRules([]Rule{{Glob: "/" + clean, Name: r.Name}})
				if err != nil || s.find(path) == nil {
					t.Errorf("%q is not found by itself (%v)", path, err)
				}
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	own, err := ownRules([]Rule{{Glob: "secrets/**", Name: "1"}, {Glob: "*.secret", Name: "2"}})
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range []string{"README.md", "src/runtime/rewrite/rewrite.go", "a/b/c/d/e/f/g/h/i.txt", "docs/grüße.md"} {
		b.Run("built-in/"+strings.ReplaceAll(path, "/", "_"), func(b *testing.B) {
			for b.Loop() {
				builtInSecrets().find(path)
			}
		})
		b.Run("own/"+strings.ReplaceAll(path, "/", "_"), func(b *testing.B) {
			for b.Loop() {
				own.find(path)
			}
		})
	}
}
