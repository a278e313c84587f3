package main

import (
	"strings"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

// Limits of single arguments, in bytes. The host has the same; here they are
// told with the name of the argument.
const (
	maxPath = 4096    // PATH_MAX of Linux
	maxText = 8 << 10 // of a pattern, query, glob list or cursor
)

// checkText refuses texts that are longer than any that the host takes.
func checkText(a guest.Value, keys ...string) error { return checkLength(a, maxText, keys) }

func checkLength(a guest.Value, limit int, keys []string) error {
	for _, k := range keys {
		if n := len(a.Get(k).TextOr("")); n > limit {
			return guest.Fail(guest.InvalidArguments, k+" has "+count(n, "byte")+"; at most "+itoa(limit)+" are allowed").
				WithNext("give a shorter " + k)
		}
	}
	return nil
}

// checkPaths looks at arguments that are paths, in the tools that only know
// files: too long ones, and handles of something else than a file, are refused.
func checkPaths(a guest.Value, keys ...string) error {
	if err := checkLength(a, maxPath, keys); err != nil {
		return err
	}
	for _, k := range keys {
		if p := a.Get(k).TextOr(""); handleOf(p) != "" {
			return guest.FailPath(guest.InvalidArguments, p, k+" is a handle that only read_open and grep take").
				WithNext("put ./ before the name if a file of the workspace is meant")
		}
	}
	return nil
}

// checkOpenable is checkPaths for the tools that take handles. The host answers
// for those that it keeps something for, so none that comes here leads anywhere.
func checkOpenable(a guest.Value, key string) error {
	if err := checkLength(a, maxPath, []string{key}); err != nil {
		return err
	}
	p := a.Get(key).TextOr("")
	if kind := handleOf(p); kind != "" {
		return guest.FailPath(guest.NotFound, p, "there is no such "+kind+" in this session").
			WithNext("put ./ before the name if a file of the workspace is meant")
	}
	return nil
}

// handleOf says what p is a handle of, "" if it is a path: artifact:, or
// skill:<name>/<path>. A real file of such a name is ./artifact:x.
func handleOf(p string) string {
	if isArtifact(p) {
		return "artifact"
	}
	if rest, ok := strings.CutPrefix(p, "skill:"); ok {
		if i := strings.IndexByte(rest, '/'); i > 0 && i+1 < len(rest) {
			return "skill"
		}
	}
	return ""
}

// isArtifact reports whether p is artifact: and 26 digits of base 32.
func isArtifact(p string) bool {
	id, ok := strings.CutPrefix(p, "artifact:")
	if !ok || len(id) != 26 {
		return false
	}
	for _, c := range []byte(id) {
		if !('a' <= c && c <= 'z' || '2' <= c && c <= '7') {
			return false
		}
	}
	return true
}

// named gives the path of a file as every tool takes it: as it is, but for a
// name that would be taken for a handle.
func named(path string) string {
	if handleOf(path) != "" {
		return "./" + path
	}
	return path
}

// quoted is named for one line of text.
func quoted(path string) string { return guest.QuotePath(named(path)) }
