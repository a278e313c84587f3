package terminal

import (
	"maps"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/tool"
)

const fallbackPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// passed are the variables of the server that programs get. Keys and tokens are
// not among them, whatever they are called.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}

// fixed keeps programs from waiting for somebody who reads, or edits: pagers
// print, and the editor is a command that agrees with what is there. A colon is
// known to every shell, also with an empty PATH.
var fixed = map[string]string{
	"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "GH_PAGER": "cat", "SYSTEMD_PAGER": "cat", "LESS": "-FRX",
	"EDITOR": ":", "VISUAL": ":", "GIT_EDITOR": ":", "GIT_SEQUENCE_EDITOR": ":",
	"GIT_TERMINAL_PROMPT": "0", "DEBIAN_FRONTEND": "noninteractive", "PYTHONUNBUFFERED": "1", "HISTFILE": "",
}

// environment is what programs get: what may pass of the server's, what is fixed,
// and on top what the call itself sets. tag marks them as a unit's.
func (o *Options) environment(own map[string]string, tty, sandboxed bool, tag string) []string {
	env := map[string]string{}
	for _, kv := range o.Environ {
		name, value, ok := strings.Cut(kv, "=")
		if ok && (slices.Contains(passed, name) || strings.HasPrefix(name, "LC_") || slices.Contains(o.PassEnv, name)) {
			env[name] = value
		}
	}
	if env["PATH"] == "" {
		env["PATH"] = fallbackPath
	}
	if sandboxed {
		delete(env, "TMPDIR") // /tmp is their own, and what they cache, as the home cannot be written
		env["XDG_CACHE_HOME"], env["npm_config_cache"] = ownCache, ownCache+"/npm"
	}
	maps.Copy(env, fixed)
	if tty {
		env["TERM"] = "xterm-256color"
	} else {
		env["TERM"], env["NO_COLOR"] = "dumb", "1"
	}
	maps.Copy(env, own)
	env[tagName] = tag
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// ownCache is where programs in a sandbox keep their caches: builds of Go, wheels
// of pip and packages of npm among them. It is kept as long as the server runs.
const ownCache = "/tmp/.cache"

// tagName marks what a unit started, for whoever has to find it later.
const tagName = proctree.Tag

// lookup is the value of a variable; "" if there is none.
func lookup(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if n, v, ok := strings.Cut(kv, "="); ok && n == name {
			return v
		}
	}
	return ""
}

// maxEnv bounds what a call sets: programs get it with their arguments, and the
// kernel takes 128 KiB in one string.
const (
	maxEnvNames = 256
	maxEnvBytes = 128<<10 - 1
)

func checkEnv(env map[string]string) error {
	if len(env) > maxEnvNames {
		return tool.Errorf(tool.TooLarge, "env sets %d variables, at most %d are taken", len(env), maxEnvNames)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00") || name[0] >= '0' && name[0] <= '9':
			return tool.Errorf(tool.InvalidArguments, "env: %s is no name of a variable", tool.QuotePath(clip(name)))
		case name == tagName:
			return tool.Errorf(tool.InvalidArguments, "env: %s is set by the runtime", name)
		case strings.ContainsRune(env[name], 0):
			return tool.Errorf(tool.InvalidArguments, "env: the value of %s holds a NUL", tool.QuotePath(clip(name)))
		case len(name)+len(env[name]) > maxEnvBytes:
			return tool.Errorf(tool.TooLarge, "env: the value of %s has %d bytes, at most %d are taken", tool.QuotePath(clip(name)), len(env[name]), maxEnvBytes)
		}
	}
	return nil
}
