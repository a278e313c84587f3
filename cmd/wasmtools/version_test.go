package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

// TestVersionNamesTheCommit: what the go command records of the checkout is
// printed, and a checkout that was changed is not passed off as its commit.
func TestVersionNamesTheCommit(t *testing.T) {
	info := func(settings ...debug.BuildSetting) *debug.BuildInfo { return &debug.BuildInfo{Settings: settings} }
	revision, dirty := debug.BuildSetting{Key: "vcs.revision", Value: "5f5440bb"}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, c := range []struct {
		info     *debug.BuildInfo
		begins   string
		commit   string
		modified bool
	}{
		{nil, "wasmtools " + version + " go", "", false},
		{info(), "wasmtools " + version + " go", "", false},
		{info(revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "wasmtools " + version + " (5f5440bb) go", "5f5440bb", false},
		{info(revision, dirty), "wasmtools " + version + " (5f5440bb, modified) go", "5f5440bb", true},
	} {
		b := buildOf(c.info)
		if got := b.String(); !strings.HasPrefix(got, c.begins) || b.Commit != c.commit || b.Modified != c.modified {
			t.Errorf("%+v: %q, %+v; want %q at the start", c.info, got, b, c.begins)
		}
	}
}
