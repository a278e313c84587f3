package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/budget"
	"github.com/wasmtools/wasmtools/config"
	"github.com/wasmtools/wasmtools/workspace"
)

// places are where the settings for a workspace come from.
func places(dir string) config.Places {
	d := userDirs()
	return config.Places{User: userConfig(d), Saved: savedRules(d), Workspace: realPath(dir)}
}

func userConfig(d dirs) string { return filepath.Join(d.config, config.FileName) }
func savedRules(d dirs) string { return filepath.Join(d.state, "rules") }

// settings reads the settings for a workspace, with the file that --rules names
// in place of the user's own configuration and the saved rules.
func settings(c *cobra.Command, dir, rules string) (*config.Source, error) {
	if err := namesFile(c, "rules"); err != nil {
		return nil, err
	}
	p := places(dir)
	if rules != "" {
		p.User, p.Must, p.Saved = rules, true, ""
	}
	src, err := config.NewSource(p, notice(c))
	if err != nil {
		return nil, usageError{fmt.Errorf("the configuration cannot be used:\n%w", err)}
	}
	return src, nil
}

// namesFile refuses flags for files that were given without a name, such as that
// of an unset variable: that would be the same as not giving them.
func namesFile(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if f := c.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return usageError{fmt.Errorf("--%s names no file", name)}
		}
	}
	return nil
}

// limits are l as the runtime takes them.
func limits(l config.Limits) wasmtools.Limits {
	return wasmtools.Limits{
		MemoryBytes: int64(l.MemoryMiB) << 20, OutputBytes: int64(l.OutputKiB) << 10, HostCalls: int64(l.HostCalls),
		Time: time.Duration(l.TimeMS) * time.Millisecond, Concurrency: l.Concurrency,
	}
}

// gates are b as the runtime takes them.
func gates(b config.Budget) budget.Gates {
	g := budget.Gates{Gate: budget.Gate{Text: b.TextKiB << 10, Structured: b.StructuredKiB << 10}}
	if len(b.Tools) > 0 {
		g.Tools = make(map[string]budget.Gate, len(b.Tools))
	}
	for name, kib := range b.Tools {
		g.Tools[name] = budget.Gate{Text: kib << 10}
	}
	return g
}

// kept is a as the store of artifacts takes it.
func kept(a config.Artifacts) artifact.Options {
	return artifact.Options{MaxStored: int64(a.MaxMiB) << 20, MaxAge: time.Duration(a.KeepDays) * 24 * time.Hour}
}

// journal is u as the workspace takes it.
func journal(u config.Undo) workspace.JournalOptions {
	return workspace.JournalOptions{Off: !u.Enabled, MaxBytes: int64(u.MaxMiB) << 20, MaxAge: time.Duration(u.KeepDays) * 24 * time.Hour}
}

// ruleKeeper saves rules from answers in the folder of saved rules.
type ruleKeeper struct{ saved config.Saved }

// Offer gives the rule as it would be saved.
func (ruleKeeper) Offer(r policy.Rule) (approval.Rule, bool) {
	return approval.Rule{ID: r.ContentID(), TOML: r.TOML()}, true
}

// Save keeps a rule that was offered.
func (k ruleKeeper) Save(r approval.Rule, d approval.Decision) error {
	_, err := k.saved.Add(r.TOML, fmt.Sprintf("%s through %s", d.By, d.Channel), time.Now())
	return err
}
