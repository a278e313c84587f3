package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/workspace"
)

// Places are where the settings come from. A place that is "" gives nothing, a
// file that does not exist neither.
type Places struct {
	User      string // the user's configuration
	Must      bool   // somebody named User: it has to be there
	Saved     string // the folder of saved rules
	Workspace string // the root of the workspace, with its own file in it
}

// Load reads everything once. A fault in any file is an error: running with
// less than was written could be running with less protection.
func Load(p Places) (Settings, error) {
	s, err := NewSource(p, nil)
	if err != nil {
		return Settings{}, err
	}
	return s.Settings(), nil
}

// Source keeps the settings of a running program up to date. It is safe for
// concurrent use.
type Source struct {
	places Places
	notice func(string)

	mu    sync.Mutex
	user  watched
	own   watched
	saved watched

	settings Settings     // of the user's file
	had      bool         // there was one
	tight    Restrictions // everything that the workspace's own file ever held
	rules    []policy.Rule
	joined   Settings // of all three
}

// NewSource reads the files for the first time. Notice, if not nil, is told of
// faults that are found later; it must be safe for concurrent use.
func NewSource(p Places, notice func(string)) (*Source, error) {
	if notice == nil {
		notice = func(string) {}
	}
	s := &Source{places: p, notice: notice, settings: Default()}
	for _, err := range []error{s.readUser(), s.readOwn(), s.readSaved()} {
		if err != nil {
			return nil, err
		}
	}
	s.join()
	return s, nil
}

// Settings returns what holds now. Files that changed are read again. One that
// has become faulty leaves what was read before in force; what the workspace's
// own file once held stays in force until the program ends, whatever becomes of
// the file. The caller must not change what it gets.
func (s *Source) Settings() Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := false
	for _, f := range []struct {
		watched *watched
		path    string
		read    func() error
	}{
		{&s.user, s.places.User, s.readUser},
		{&s.own, s.ownFile(), s.readOwn},
		{&s.saved, s.places.Saved, s.readSaved},
	} {
		if !f.watched.changed(f.path) {
			continue
		}
		changed = true
		if err := f.read(); err != nil {
			s.notice(fmt.Sprintf("the configuration changed and cannot be used, so what held before still does: %v", err))
		}
	}
	if changed {
		s.join()
	}
	return s.joined
}

// Policy is the part of the settings that calls are judged by.
func (s *Source) Policy() policy.Policy { return s.Settings().Policy() }

// Lists are the globs of the settings that add to the lists of secret and of
// protected paths.
func (s *Source) Lists() (denyRead, protect []workspace.Rule) {
	w := s.Settings().Workspace
	return w.DenyRead, w.Protect
}

func (s *Source) join() {
	s.joined = s.settings.Tighten(s.tight)
	s.joined.Rules = join(s.joined.Rules, s.rules)
}

func (s *Source) ownFile() string {
	if s.places.Workspace == "" {
		return ""
	}
	return filepath.Join(s.places.Workspace, FileName)
}

func (s *Source) readUser() error {
	if s.places.User == "" {
		return nil
	}
	s.user.look(s.places.User)
	data, err := readUser(s.places.User)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !s.had && s.places.Must:
		return fmt.Errorf("%s does not exist", s.places.User)
	case errors.Is(err, fs.ErrNotExist) && !s.had:
		return nil
	case errors.Is(err, fs.ErrNotExist): // perhaps an editor is about to put it back
		return fmt.Errorf("%s is gone", s.places.User)
	case err != nil:
		return err
	}
	settings, err := Parse(s.places.User, data)
	if err == nil {
		s.settings, s.had = settings, true
	}
	return err
}

func (s *Source) readOwn() error {
	file := s.ownFile()
	if file == "" || sameFile(file, s.places.User) { // a workspace around the user's own folder
		return nil
	}
	s.own.look(file)
	data, err := readWorkspace(s.places.Workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	r, err := ParseWorkspace(file, data)
	if err != nil {
		return err
	}
	joined := s.tight.and(r)
	if n := len(joined.Rules) + len(joined.DenyRead) + len(joined.Protect) + len(joined.Tools.Only); n > maxKept {
		return fmt.Errorf("%s has held %d different rules since the program was started; at most %d are kept", file, n, maxKept)
	}
	s.tight = joined
	return nil
}

// maxKept bounds what is kept of a workspace's own file that changes and
// changes.
const maxKept = 4 * maxRules

func (s *Source) readSaved() error {
	if s.places.Saved == "" {
		return nil
	}
	s.saved.look(s.places.Saved)
	list, err := OpenSaved(s.places.Saved).List()
	if err != nil {
		return err
	}
	s.rules = nil
	for _, r := range list {
		if r.Fault != nil { // one rule less that allows
			s.notice(fmt.Sprintf("a saved rule is left out: %v", r.Fault))
			continue
		}
		s.rules = append(s.rules, r.Rule)
	}
	return nil
}

func sameFile(a, b string) bool {
	if b == "" {
		return false
	}
	fa, errA := os.Stat(a)
	fb, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(fa, fb)
}

// and joins what a file held before with what it holds now.
func (r Restrictions) and(now Restrictions) Restrictions {
	s := Settings{Workspace: Workspace{DenyRead: r.DenyRead, Protect: r.Protect}, Limits: r.Limits, Budget: r.Budget, Tools: r.Tools, Rules: r.Rules}
	s = s.Tighten(Restrictions{
		DenyRead: newRules(now.DenyRead, r.DenyRead), Protect: newRules(now.Protect, r.Protect), Limits: now.Limits, Budget: now.Budget,
		Tools: Tools{
			Remove: missing(now.Tools.Remove, r.Tools.Remove, func(s string) string { return s }),
			Only:   missing(now.Tools.Only, r.Tools.Only, func(list []string) string { return strings.Join(list, " ") }),
		},
		Rules: missing(now.Rules, r.Rules, policy.Rule.TOML),
	})
	return Restrictions{DenyRead: s.Workspace.DenyRead, Protect: s.Workspace.Protect, Limits: s.Limits, Budget: s.Budget, Tools: s.Tools, Rules: s.Rules}
}

func newRules(now, before []workspace.Rule) []workspace.Rule {
	return missing(now, before, func(r workspace.Rule) string { return r.Glob })
}

// missing is what of now is not in before.
func missing[T any](now, before []T, name func(T) string) []T {
	have := make(map[string]bool, len(before))
	for _, b := range before {
		have[name(b)] = true
	}
	var out []T
	for _, n := range now {
		if !have[name(n)] {
			out = append(out, n)
		}
	}
	return out
}

// watched is what a file or folder looked like when it was last read.
type watched struct {
	seen   bool
	exists bool
	info   fs.FileInfo
	at     time.Time
}

// racy is how close to its last change a file has to have been read for a
// change more to be possible that its time does not show.
const racy = 100 * time.Millisecond

// look remembers what path looks like, before it is read.
func (w *watched) look(path string) {
	info, err := os.Stat(path)
	*w = watched{seen: true, exists: err == nil, info: info, at: time.Now()}
}

// changed reports whether path may hold something else than when it was read.
func (w *watched) changed(path string) bool {
	if !w.seen {
		return false
	}
	info, err := os.Stat(path)
	switch {
	case (err == nil) != w.exists:
		return true
	case err != nil:
		return false
	}
	return info.Size() != w.info.Size() || !info.ModTime().Equal(w.info.ModTime()) || !os.SameFile(info, w.info) ||
		w.at.Sub(w.info.ModTime()).Abs() < racy
}

// Check looks at everything that would be read: it names the files that are
// there and all their faults. An error is a file that cannot be read at all.
func Check(p Places) (files []string, faults Faults, err error) {
	look := func(file string, data []byte, readErr error, parse func(string, []byte) error) error {
		switch {
		case errors.Is(readErr, fs.ErrNotExist):
			return nil
		case readErr != nil:
			return readErr
		}
		files = append(files, file)
		var found Faults
		if err := parse(file, data); errors.As(err, &found) {
			faults = append(faults, found...)
		}
		return nil
	}
	if p.User != "" {
		data, readErr := readUser(p.User)
		err = errors.Join(err, look(p.User, data, readErr, func(f string, d []byte) error { _, err := Parse(f, d); return err }))
	}
	if p.Workspace != "" {
		if file := filepath.Join(p.Workspace, FileName); !sameFile(file, p.User) {
			data, readErr := readWorkspace(p.Workspace)
			err = errors.Join(err, look(file, data, readErr, func(f string, d []byte) error { _, err := ParseWorkspace(f, d); return err }))
		}
	}
	if p.Saved != "" {
		list, listErr := OpenSaved(p.Saved).List()
		err = errors.Join(err, listErr)
		for _, r := range list {
			files = append(files, r.Rule.Origin.File)
			var found Faults
			switch {
			case errors.As(r.Fault, &found):
				faults = append(faults, found...)
			case r.Fault != nil:
				faults = append(faults, Fault{File: r.Rule.Origin.File, Line: 1, Column: 1, Text: r.Fault.Error()})
			}
		}
	}
	return files, faults, err
}

// ReadFile reads a configuration or a file of rules that a person names.
func ReadFile(file string) ([]byte, error) { return readUser(file) }
