package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// secretTree has a secret behind every kind of name. All of them hold topSecret.
func secretTree(b *box) {
	b.build("f = plain", ".env = "+topSecret, "d/.env.local = "+topSecret, ".ssh/config = "+topSecret, "conf = "+topSecret,
		"l => .env", "dl => d", "sl => .ssh", ".npmrc => conf", ".aws => keys", "keys/k = "+topSecret, "ll => l", "pl => .npmrc", "pd => .aws", "n/.config/gcloud/x = "+topSecret,
		".docker => dock", "dock/config.json = "+topSecret, "own/secret.env = "+topSecret, ".env.example = "+topSecret)
	if err := os.Link(b.W+"/.env", b.W+"/hard"); err != nil {
		b.t.Skip(err)
	}
}

// TestSecrets: no verb reaches a secret, by whatever name. The control is the
// same call where the user has taken everything off the list.
func TestSecrets(t *testing.T) {
	link := []string{"remove", "move from", "move to"} // of a link they mean the link
	cases := []struct {
		path   string
		except []string // verbs that are not about the secret, and so do not answer protected
		gone   bool     // there is no such file where file systems know case
	}{
		{path: ".env"}, {path: "./d/../.env"}, {path: "$W/.env"}, {path: "d/.env.local"}, {path: "dl/.env.local"}, {path: ".ssh"}, {path: ".ssh/config"},
		{path: "sl/config"}, {path: ".ssh/none"}, {path: ".npmrc"}, {path: ".aws"}, {path: ".aws/k"}, {path: "n/.config/gcloud/x"}, {path: "n/.config/gcloud"},
		{path: ".docker/config.json"}, {path: "own/secret.env"},
		{path: "l", except: link}, {path: "ll", except: link}, {path: "sl", except: link},
		{path: "pl", except: link}, {path: "pd", except: link}, {path: "pd/k"}, {path: "pd/new"},
		{path: "hard", except: []string{"list", "mkdir"}},
		{path: ".ENV", gone: true}, {path: ".e\u200dnv", gone: true}, {path: ".env.", gone: true}, {path: "．ｅｎｖ", gone: true}, {path: ".env:x", gone: true}, {path: "ENV~1", gone: true},
		{path: ".env.staging", gone: true}, {path: "new/.env", gone: true}, {path: "new/id_rsa", gone: true}, {path: "OWN/Secret.ENV", gone: true},
	}
	eachWay(t, func(t *testing.T, b *box) {
		for _, guarded := range []bool{true, false} {
			opts := b.opts
			opts.AllowHardLinks, opts.DenyRead = true, []Rule{{Glob: "own/secret.env", Name: "own", Where: "/home/u/wasmtools.toml:3"}}
			if !guarded {
				opts.DenyRead, opts.AllowRead = nil, []Rule{{Glob: "**", Name: "all"}}
			}
			b := newBox(t, opts)
			secretTree(b)
			for _, c := range cases {
				for _, v := range verbs {
					o := b.overlay()
					text, err := v.do(o, t, strings.ReplaceAll(c.path, "$W", b.W))
					refused := tool.CodeOf(err) == tool.Protected
					switch {
					case guarded && strings.Contains(text, topSecret):
						t.Errorf("%s %s told the secret", v.name, c.path)
					case guarded && slices.Contains(c.except, v.name):
					case guarded && !refused:
						t.Errorf("%s %s = %v, want protected", v.name, c.path, err)
					case guarded:
						wantCode(t, err, tool.Protected)
						if s := err.Error(); !strings.Contains(s, "rule") || !strings.Contains(s, "wasmtools.toml") || strings.Contains(s, "/home/u") {
							t.Errorf("%s %s: %q does not say by which rule, and how a person allows it", v.name, c.path, s)
						}
						if !o.WriteSet().Empty() || o.Diff(0) != "" {
							t.Errorf("%s %s is pending: %s", v.name, c.path, o.Diff(0))
						}
					case refused:
						t.Errorf("control: %s %s = %v", v.name, c.path, err)
					case v.name == "read" && !c.gone && err == nil && text != topSecret:
						t.Errorf("control: read %s = %q", c.path, text)
					case v.name == "write" && err != nil && !strings.HasPrefix(c.path, ".ssh") && tool.CodeOf(err) != tool.NotRegular:
						t.Errorf("control: write %s = %v", c.path, err)
					}
					o.Close()
				}
			}
		}
	})
}

// TestSecretNeighbours: what is near a secret works as ever.
func TestSecretNeighbours(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		secretTree(b)
		o := b.overlay()
		for _, p := range []string{".env.example", "conf", "keys/k", "dock/config.json", "own/secret.env"} {
			if got, err := readAll(t, o, p); got != topSecret || err != nil {
				t.Errorf("read %s = %q, %v", p, got, err)
			}
		}
		write(t, o, "d/env", "x")
		must(t, second(o.Remove(t.Context(), "l", false)), second(o.Rename(t.Context(), "sl", "sl2", false)), b.commit(o))
	})
}

// TestSecretsInTrees: a directory that holds a secret neither goes nor moves, and
// none is made by moving a directory.
func TestSecretsInTrees(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		secretTree(b)
		b.build("in/x/gcloud/k = k", "home/deep/f = f", "set/.config/x = x")
		for name, call := range map[string]func(*Overlay) error{
			"remove":           func(o *Overlay) error { return second(o.Remove(t.Context(), "d", true)) },
			"remove deep":      func(o *Overlay) error { return second(o.Remove(t.Context(), "n", true)) },
			"move":             func(o *Overlay) error { return second(o.Rename(t.Context(), "d", "e", false)) },
			"move to a secret": func(o *Overlay) error { return second(o.Rename(t.Context(), "in/x", "in/.config", false)) },
			"move as a secret": func(o *Overlay) error { return second(o.Rename(t.Context(), "home", ".aws2/../.kube", false)) },
			"in two steps": func(o *Overlay) error {
				must(t, second(o.Rename(t.Context(), "in/x/gcloud", "in/gcloud", false)))
				return second(o.Rename(t.Context(), "in/gcloud", "set/.config/gcloud", false))
			},
			"a file": func(o *Overlay) error { return second(o.Rename(t.Context(), "f", "id_rsa", false)) },
		} {
			o := b.overlay()
			err := call(o)
			wantCode(t, err, tool.Protected)
			if err == nil {
				t.Errorf("%s worked", name)
			}
		}
		o := b.overlay()
		must(t, second(o.Rename(t.Context(), "in/x", "in/y", false)), second(o.Remove(t.Context(), "home", true)), b.commit(o))
	})
}

// TestSecretListed: a listing tells the name and the kind of a secret, and that
// it is one. The control is its neighbour.
func TestSecretListed(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		secretTree(b)
		page, err := b.overlay().List(t.Context(), ".", ListOptions{})
		must(t, err)
		seen := map[string]Info{}
		for _, in := range page.Entries {
			seen[in.Name] = in
		}
		for name, want := range map[string]Info{
			".env": {Type: File, Secret: "env"}, ".ssh": {Type: Dir, Secret: "key"}, ".npmrc": {Type: Link, Secret: "npm"}, "hard": {Type: File, Secret: "env"},
		} {
			want.Name, want.Path = name, name
			if seen[name] != want {
				t.Errorf("%s = %+v, want %+v", name, seen[name], want)
			}
		}
		p, err := json.Marshal(seen[".env"])
		must(t, err)
		if got := string(p); got != `{"path":".env","name":".env","type":"file","size":0,"mtime":0,"mode":0,"secret":"env"}` {
			t.Errorf("the JSON of a secret is %s", got)
		}
		if in := seen[".env.example"]; in.Secret != "" || in.Size != int64(len(topSecret)) || in.MTime == 0 {
			t.Errorf("a neighbour = %+v", in)
		}
		if in := seen["l"]; in.Target != ".env" || in.Secret != "" {
			t.Errorf("a link to a secret = %+v", in)
		}
	})
}

// TestAllowRead takes a path off the built-in list, and not off a rule that was
// added, by its exact spelling only.
func TestAllowRead(t *testing.T) {
	b := newBox(t, Options{
		DenyRead:  []Rule{{Glob: "certs/own.pem", Name: "own", Where: "w.toml:1"}},
		AllowRead: []Rule{{Glob: "certs/*.pem", Name: "certs", Where: "u.toml:9"}},
	})
	b.build("certs/ca.pem = a", "certs/own.pem = b", "other/ca.pem = c", "certs/ca.key = d")
	for path, want := range map[string]tool.Code{
		"certs/ca.pem": "", "certs/own.pem": tool.Protected, "other/ca.pem": tool.Protected, "certs/ca.key": tool.Protected, "CERTS/ca.pem": tool.Protected,
		"certs/x/../ca.pem": "",
	} {
		if _, err := readAll(t, b.overlay(), path); tool.CodeOf(err) != want {
			t.Errorf("read %s = %v, want %q", path, err, want)
		}
	}
	if _, err := Open(b.W, Options{AllowRead: []Rule{{Glob: "[", Where: "u.toml:2"}}}); err == nil || !strings.Contains(err.Error(), "u.toml:2") {
		t.Errorf("Open with a bad rule = %v", err)
	}
}

// TestSecretAliases: names of a secret that come and go while the workspace is
// open are told by the file itself, not by what was seen before.
func TestSecretAliases(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("a = "+topSecret, "sub/x = x", "two = t")
		link := func(from, to string) { must(t, os.Link(b.W+"/"+from, b.W+"/"+to)) }
		link("two", "three")
		read := func(p string) error { _, err := readAll(t, b.overlay(), p); return err }
		must(t, read("two"), read("a"))
		link("a", "sub/.env")
		wantCode(t, read("a"), tool.Protected)
		must(t, read("two"), os.Remove(b.W+"/sub/.env"), read("a"))
		link("a", "sub/plain")
		must(t, read("a"), os.Rename(b.W+"/sub/plain", b.W+"/sub/.npmrc"))
		wantCode(t, read("a"), tool.Protected)
		if err := b.overlay().AllowsFile(t.Context(), VerbRead, "a", "a", Info{Type: File, Links: 2, ID: id(t, b.W+"/a")}); tool.CodeOf(err) != tool.Protected {
			t.Errorf("AllowsFile = %v", err)
		}
		must(t, read("three"))
	})
}

// TestAliasOfALargeTree: if not every name could be seen, a file with several
// names is refused, unless the user allows hard links.
func TestAliasOfALargeTree(t *testing.T) {
	for _, allow := range []bool{false, true} {
		b := newBox(t, Options{AllowHardLinks: allow})
		b.build("a = x")
		must(t, os.Link(b.W+"/a", b.W+"/b"))
		deep := strings.Repeat("/d", maxDepth+2)
		must(t, os.MkdirAll(b.W+deep, 0o755))
		_, err := readAll(t, b.overlay(), "a")
		if got := tool.CodeOf(err); !allow && got != tool.TooLarge || allow && err != nil {
			t.Errorf("hard links %v: read = %v", allow, err)
		}
	}
}

// TestCommitKeepsSecrets: a write set that no overlay would have made.
func TestCommitKeepsSecrets(t *testing.T) {
	b := newBox(t, Options{NoSync: true})
	b.build("f = x", ".env = "+topSecret)
	before := tree(t, b.W)
	blob := []byte("PWN")
	f, err := os.Stat(b.W + "/f")
	must(t, err)
	e := tool.Write{Op: tool.OpWrite, Path: "x/.env", After: tool.DigestOf(blob), Size: 3, Blob: blob, Mode: 0o644}
	for _, ws := range []*tool.WriteSet{
		{Entries: []tool.Write{{Op: tool.OpMkdir, Path: "x", Mode: os.ModeDir | 0o755}, e}},
		{Entries: []tool.Write{{Op: tool.OpMove, From: "f", Path: "id_rsa", Identity: id(t, b.W+"/f"), Mode: f.Mode(), Before: tool.DigestOf([]byte("x"))}}},
		{Entries: []tool.Write{{Op: tool.OpDelete, Path: ".env", Identity: id(t, b.W+"/.env"), Mode: f.Mode(), Before: tool.DigestOf([]byte(topSecret))}}},
	} {
		wantCode(t, b.w.Commit(t.Context(), ws, tool.ProtectedPath{Path: ".", Rule: "env"}, tool.ProtectedPath{Path: ".", Rule: "key"}), tool.Protected)
	}
	if after := tree(t, b.W); after != before {
		t.Errorf("something changed:\n%s", after)
	}
	e.Path = "env"
	must(t, b.w.Commit(t.Context(), &tool.WriteSet{Entries: []tool.Write{e}}))
}

// TestRandomSecretWays swaps, at random, links and names on the way to a secret
// while reads go on. None may see it.
func TestRandomSecretWays(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("open/k = fine", ".ssh/k = "+topSecret, "way => open")
		stop := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			r := rand.New(rand.NewPCG(5, 6))
			var err error
			for i := 0; err == nil; i++ {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				tmp := fmt.Sprintf("%s/t%d", b.W, i)
				err = errors.Join(os.Symlink([]string{"open", ".ssh"}[r.IntN(2)], tmp), os.Rename(tmp, b.W+"/way"))
			}
			done <- err
		}()
		fine, refused := 0, 0
		begin := time.Now()
		for time.Since(begin) < 300*time.Millisecond || (fine == 0 || refused == 0) && time.Since(begin) < 10*time.Second {
			o := b.overlay()
			text, err := readAll(t, o, "way/k")
			must(t, o.Close()) // it keeps the file open
			switch {
			case strings.Contains(text, topSecret):
				t.Fatal("a read saw the secret")
			case err == nil:
				fine++
			case tool.CodeOf(err) == tool.Protected:
				refused++
			}
		}
		close(stop)
		must(t, <-done)
		if fine == 0 || refused == 0 {
			t.Errorf("%d reads and %d refusals: there was no race", fine, refused)
		}
	})
}

// TestListed is what policies ask.
func TestListed(t *testing.T) {
	noGitSettings(t)
	b := newBox(t, Options{Protect: []Rule{{Glob: "deploy/**", Name: "deploy", Where: "w.toml:4"}}})
	b.build("l => .git", ".git/config = [core]\nhooksPath = h\n", "e => .env", "plain = x")
	for path, want := range map[string][3]string{
		"l/config": {".git/config", "", "git"}, "e": {"e", "env", ""}, ".env": {".env", "env", ""}, "deploy/x": {"deploy/x", "", "deploy"},
		"plain": {"plain", "", ""}, "a/../new": {"new", "", ""}, ".envrc": {".envrc", "env", "shell"}, "h/x": {"h/x", "", "hooks"},
	} {
		l, err := b.w.Listed(context.Background(), path)
		name := func(r *Rule) string {
			if r == nil {
				return ""
			}
			return r.Name
		}
		if got := [3]string{l.Path, name(l.Secret), name(l.Protected)}; err != nil || got != want {
			t.Errorf("Listed(%s) = %q, %v; want %q", path, got, err, want)
		}
		l, err = b.w.ListedByName(context.Background(), path)
		if want[2] == "hooks" {
			want[2] = ""
		}
		if got := [3]string{l.Path, name(l.Secret), name(l.Protected)}; err != nil || got != want {
			t.Errorf("ListedByName(%s) = %q, %v; want %q", path, got, err, want)
		}
	}
}

// TestTighten: rules that are added hold for the next step of a call that runs.
func TestTighten(t *testing.T) {
	noGitSettings(t)
	b := newBox(t, Options{NoSync: true, AllowHardLinks: true, DenyRead: []Rule{{Glob: "one", Name: "one"}}})
	b.build("one = "+topSecret, "two = "+topSecret, "run/x = x")
	must(t, os.Link(b.W+"/two", b.W+"/hard"))
	o := b.overlay()
	_, err := readAll(t, o, "hard")
	must(t, err, b.w.Tighten(nil, nil), b.w.Tighten([]Rule{{Glob: "one"}}, nil))
	if err := b.w.Tighten([]Rule{{Glob: "ok"}}, []Rule{{Glob: "[", Where: "w.toml:5"}}); err == nil || !strings.Contains(err.Error(), "w.toml:5") {
		t.Errorf("a bad rule: %v", err)
	}
	write(t, o, "run/x", "y")
	must(t, b.w.Tighten([]Rule{{Glob: "two", Name: "two"}}, []Rule{{Glob: "run/**", Name: "run"}}))
	for _, p := range []string{"one", "two", "hard"} {
		if text, err := readAll(t, o, p); tool.CodeOf(err) != tool.Protected {
			t.Errorf("read %s = %q, %v", p, text, err)
		}
	}
	wantCode(t, b.commit(o), tool.Protected)
	list, err := o.Protected(t.Context())
	must(t, err)
	if got := protectedText(list); got != "run/x:run" {
		t.Errorf("protected: %s", got)
	}
	must(t, b.w.Commit(t.Context(), o.WriteSet(), list...))
}
