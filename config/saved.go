package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/tool"
)

// Saved is the folder of the rules that people saved from answers: one file a
// rule, named by the rule's id. A file appears whole or not at all, and is never
// changed, so several processes can save, list and revoke without a lock. It is
// safe for concurrent use.
type Saved struct{ dir string }

// Bounds on saved rules.
const (
	maxSaved     = 1000
	maxSavedFile = 64 << 10
	savedSuffix  = ".toml"
)

// SavedRule is one of them.
type SavedRule struct {
	Rule  policy.Rule // with ID and Origin
	Saved time.Time
	By    string // who saved it, as it was given
	Fault error  // the file cannot be used, and Rule is empty but for ID and Origin
}

// OpenSaved gives the saved rules in dir, which need not exist.
func OpenSaved(dir string) Saved { return Saved{dir} }

// Add saves a rule: text is what was shown to the person, to the byte
// ([policy.Rule.TOML]), by is who said yes and how. Saving a rule again does
// nothing. The rule must allow, and must expire.
func (s Saved) Add(text, by string, now time.Time) (id string, err error) {
	rule, err := parseSaved("the rule", []byte(text))
	switch {
	case err != nil:
		return "", err
	case rule.TOML() != text:
		return "", errors.New("the rule is not written as it would be shown")
	case rule.Expires.IsZero() || !now.Before(rule.Expires):
		return "", errors.New("a rule can be saved only if it expires, and has not yet")
	}
	id = rule.ContentID()
	root, err := s.open(true)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if names, err := s.names(root); err != nil {
		return "", err
	} else if len(names) >= maxSaved && !slices.Contains(names, id+savedSuffix) {
		return "", fmt.Errorf("%d rules are saved already; revoke some (wasmtools policy rules)", len(names))
	}
	head := fmt.Sprintf("# saved %s by %s\n", now.UTC().Format(time.RFC3339), strconv.Quote(by))
	temp := ".new-" + rand.Text()
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.WriteString(f, head+text)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = root.Rename(temp, id+savedSuffix)
	}
	if err != nil {
		_ = root.Remove(temp)
		return "", err
	}
	return id, nil
}

// List returns the saved rules, those that expired included, by id.
func (s Saved) List() ([]SavedRule, error) {
	root, err := s.open(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := s.names(root)
	if err != nil {
		return nil, err
	}
	var out []SavedRule
	for _, name := range names {
		rule := SavedRule{Rule: policy.Rule{ID: strings.TrimSuffix(name, savedSuffix), Origin: policy.Origin{Layer: policy.Saved, File: filepath.Join(s.dir, name), Line: 1}}}
		data, err := readIn(root, name, maxSavedFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue // revoked just now
		}
		if err == nil {
			err = rule.read(data)
		}
		if err != nil {
			rule.Fault = fmt.Errorf("%s: %w", rule.Rule.Origin.File, err)
		}
		out = append(out, rule)
	}
	return out, nil
}

// read takes the file apart.
func (r *SavedRule) read(data []byte) error {
	at, id := r.Rule.Origin, r.Rule.ID
	rule, err := parseSaved(at.File, data)
	if err != nil {
		return err
	}
	if rule.ContentID() != id {
		return errors.New("the file is not named by the rule that it holds; it was changed by hand")
	}
	rule.ID = id
	r.Rule = rule
	head, _, _ := strings.Cut(string(data), "\n")
	if rest, ok := strings.CutPrefix(head, "# saved "); ok {
		when, who, _ := strings.Cut(rest, " by ")
		r.Saved, _ = time.Parse(time.RFC3339, when)
		r.By, _ = strconv.Unquote(who)
	}
	return nil
}

// Revoke removes the rule with this id; [fs.ErrNotExist] if there is none.
func (s Saved) Revoke(id string) error {
	if !savedName(id + savedSuffix) {
		return fmt.Errorf("%s names no saved rule; wasmtools policy rules lists them: %w", tool.QuotePath(clip(id)), fs.ErrNotExist)
	}
	root, err := s.open(false)
	if err == nil {
		defer root.Close()
		err = root.Remove(id + savedSuffix)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no saved rule has the id %s; wasmtools policy rules lists them: %w", id, fs.ErrNotExist)
	}
	return err
}

func parseSaved(file string, data []byte) (policy.Rule, error) {
	r := &reader{file: file, kind: SavedFile}
	t := r.read(data)
	s := r.settings(t)
	if err := r.err(); err != nil {
		return policy.Rule{}, err
	}
	if len(s.Rules) != 1 || s.Rules[0].Decision != policy.Allow {
		return policy.Rule{}, errors.New("the file holds no single rule that allows")
	}
	return s.Rules[0], nil
}

// open opens the folder and makes sure that it is ours.
func (s Saved) open(create bool) (*os.Root, error) {
	if create {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	fi, err := root.Stat(".")
	if err == nil {
		err = oursAlone(fi)
	}
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("the folder of saved rules (%s): %w", s.dir, err)
	}
	return root, nil
}

func (s Saved) names(root *os.Root) ([]string, error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.Readdirnames(10 * maxSaved)
	if err != nil && err != io.EOF {
		return nil, err
	}
	names := slices.DeleteFunc(all, func(n string) bool { return !savedName(n) })
	slices.Sort(names)
	return names[:min(len(names), maxSaved)], nil
}

// savedName reports whether a name can be that of a saved rule's file.
func savedName(name string) bool {
	id, ok := strings.CutSuffix(name, savedSuffix)
	return ok && len(id) == 12 && strings.Trim(id, "0123456789abcdef") == ""
}
