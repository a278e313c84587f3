package workspace

import (
	"context"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

const (
	maxSurveyed = 5_000_000 // names
	maxPlaces   = 1000      // repositories, links, or what they lead to; more is no tree that people work in
	surveyTime  = 10 * time.Second

	// For this time, and for this many times as long as it took, other calls make
	// do with what a survey saw, except where a file says itself that it has
	// changed since: so a large tree costs a twentieth of the time at most.
	surveyAge   = 2 * time.Second
	surveyShare = 20
)

// survey is what one walk over the names of the tree found that no path tells by
// itself. It opens no file.
type survey struct {
	began time.Time // before the first name was read
	took  time.Duration
	whole bool // everything was seen

	aliases map[tool.Identity]*entry // files of several names of which one is a secret
	secrets []string                 // files that are listed as secrets, by any of their names
	guarded []string                 // files that are listed as protected
	places  []gitPlace               // what repositories and protected names that are links lead to
}

type surveys struct {
	turn chan struct{} // holds one token: a survey is made, or last is looked at
	last *survey
}

// forget makes the next call look for itself, by rules that are new.
func (s *surveys) forget() {
	s.turn <- struct{}{}
	s.last = nil
	<-s.turn
}

// surveyed gives a survey that is good enough, made now if need be. One is made
// at a time; who waits takes the result if that will do.
func (w *Workspace) surveyed(ctx context.Context, enough func(*survey) bool) (*survey, error) {
	select {
	case w.surveys.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-w.surveys.turn }()
	if s := w.surveys.last; s != nil && enough(s) {
		return s, nil
	}
	s, err := w.survey(ctx)
	if err != nil {
		return nil, err
	}
	w.surveys.last = s
	return s, nil
}

func (s *survey) recent() bool {
	return time.Since(s.began) < s.took+max(surveyAge, surveyShare*s.took)
}

func (w *Workspace) survey(ctx context.Context) (*survey, error) {
	s := &survey{began: time.Now(), whole: true, aliases: map[tool.Identity]*entry{}}
	soon, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	d, err := w.openDir(".")
	if err != nil {
		return nil, pathError(".", err)
	}
	t := surveyor{w: w, s: s, ctx: soon, buf: make([]byte, 32<<10)}
	t.dir(d, ".", 0)
	d.close()
	t.findPlaces()
	s.took = time.Since(s.began)
	return s, ctx.Err()
}

type surveyor struct {
	w     *Workspace
	s     *survey
	ctx   context.Context
	buf   []byte
	count int

	repos []string    // directories that hold a .git, or are git directories themselves
	links []linkPlace // links that stand under a protected name
}

// linkPlace is a protected name that is a link.
type linkPlace struct {
	path string
	rule *entry
}

// dir looks at the names of one directory, and goes on below. Only what is
// listed is looked at further.
func (t *surveyor) dir(d dir, path string, depth int) {
	if depth > maxDepth || t.ctx.Err() != nil {
		t.s.whole = false
		return
	}
	type below struct {
		name string
		sure bool // that it is a directory
	}
	var dirs []below
	var git gitMarks
	for {
		end, err := d.readNames(t.buf, func(name []byte, typ Type) bool {
			t.count++
			git.see(name)
			if typ == Dir || typ == "" {
				dirs = append(dirs, below{string(name), typ == Dir})
			}
			if typ != Dir {
				t.name(d, path, string(name))
			}
			return t.count < maxSurveyed
		})
		if err != nil || end {
			break
		}
		if t.count >= maxSurveyed {
			t.s.whole = false
			break
		}
	}
	if git.pointer || git.looksLikeOne() {
		if len(t.repos) < maxPlaces {
			t.repos = append(t.repos, path)
		}
	}
	for _, b := range dirs {
		if !t.s.whole {
			return
		}
		if isGitName(b.name) {
			t.s.guarded = append(t.s.guarded, join(join(path, b.name), "hooks"), join(join(path, b.name), "config"))
			continue // what is in it needs no look: all of it is protected, and none of it the user's
		}
		sub, err := d.openDir(b.name)
		if err != nil {
			continue // no directory, gone, not ours to read, or another file system
		}
		t.dir(sub, join(path, b.name), depth+1)
		sub.close()
	}
}

func (t *surveyor) name(d dir, parent, name string) {
	path := join(parent, name)
	secret := t.w.rules().secretRule(path)
	protected := t.w.rules().protectedRule(path)
	if secret == nil && protected == nil {
		return
	}
	st, err := d.lstat(name)
	if err != nil {
		return
	}
	if secret != nil {
		t.s.secrets = append(t.s.secrets, path)
	} else {
		t.s.guarded = append(t.s.guarded, path)
	}
	switch {
	case st.typ == File && st.nlink > 1 && secret != nil:
		t.s.aliases[st.id] = secret
	case st.typ == Link && protected != nil && len(t.links) < maxPlaces:
		t.links = append(t.links, linkPlace{path, protected})
	}
}

// findPlaces follows what was found.
func (t *surveyor) findPlaces() {
	g := newGitFinder(&view{w: t.w})
	for _, r := range t.repos {
		g.work(at{true, r})
		if g.v.looksLikeGit(r) {
			g.repository(at{true, r}, at{true, r})
		}
	}
	t.s.places = g.finish()
	for _, l := range t.links {
		target := g.settle(g.abs(at{true, l.path}))
		if target.in && !under(l.path, target.path) {
			t.s.places = append(t.s.places, gitPlace{path: target.path, folded: fold(target.path), rule: l.rule.Rule})
		}
	}
}

// aliasRule gives the rule by which a file is a secret because another of its
// names is. Only files with several names need the look, and those only a
// survey that is younger than the last change of the file.
func (w *Workspace) aliasRule(ctx context.Context, path string, st stat) (*entry, error) {
	if st.nlink < 2 || st.typ != File {
		return nil, nil
	}
	now := time.Now()
	s, err := w.surveyed(ctx, func(s *survey) bool {
		if !s.began.Before(now) {
			return true
		}
		return s.recent() && st.ctime != 0 && s.began.UnixNano()-st.ctime > int64(racyTime)
	})
	if err != nil {
		return nil, err
	}
	r := s.aliases[st.id]
	if r == nil && !s.whole && !w.opts.AllowHardLinks {
		return nil, tool.PathErrorf(tool.TooLarge, path, "the file has %d names (hard links), and the workspace is too large to make sure that none of them is a secret", st.nlink).
			WithNext("copy it to a new file in a terminal, or ask a person to allow hard links")
	}
	return r, nil
}

// refuseAlias is as refuseSecret.
func refuseAlias(path string, r *Rule) error {
	return tool.PathErrorf(tool.Protected, path, "another name of this file (hard link) is a secret, by the rule %s of the list of secrets", r).
		With("list", "secret").With("rule", r.Name).
		WithNext("leave it; only a person can allow this, by a rule in their own wasmtools.toml that names the other path: allow_read in [workspace]")
}
