package guestbuild

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Toolchain is the release of Go that builds guests to the byte. A compiler's
// next patch release may give other bytes, so it is pinned to the patch; raise
// it together with the committed .wasm files.
const Toolchain = "go1.26.8"

// passed lists what of the environment reaches the compiler, and why. Nothing
// of it may change the bytes of a module; everything else is left out, because
// a GOFLAGS, GOEXPERIMENT or GOWASM that somebody set would.
var passed = []struct{ why, names string }{
	{"to find the go command, and what it runs to fetch modules", "PATH"},
	{"where caches and credentials for modules lie by default", "HOME USERPROFILE LOCALAPPDATA APPDATA XDG_CACHE_HOME XDG_CONFIG_HOME"},
	{"room for intermediate files", "TMPDIR TEMP TMP"},
	{"programs on Windows do not start without it", "SYSTEMROOT"},
	{"to reach module servers through proxies and private authorities", "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR"},
}

// asked lists settings of the go command itself that say where modules and
// compiled packages are. They may stand in its own configuration file, which is
// shut out with the rest, so the go command is asked for them.
var asked = []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE", "GOAUTH", "GOVCS"}

// fixed decides about the bytes.
var fixed = []string{
	"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0",
	"GOFLAGS=", "GOENV=off", "GOWORK=off", "GOEXPERIMENT=", "GOWASM=", "GODEBUG=", "GO111MODULE=on",
}

// ErrToolchain means that the pinned toolchain is neither here nor to be had.
var ErrToolchain = errors.New("the toolchain " + Toolchain + " is not available")

// FoundToolchain is a go command and the environment to run it in.
type FoundToolchain struct {
	Version string // "go1.26.8"
	env     []string
}

// FindToolchain finds the pinned toolchain: the go command in PATH if it is
// that one, else it lets the go command fetch it. If that fails too, the error
// is [ErrToolchain], or with any set the go command in PATH is used as it is.
func FindToolchain(ctx context.Context, any bool) (FoundToolchain, error) {
	settings, err := goEnv(ctx, os.Environ(), asked...)
	if err != nil {
		return FoundToolchain{}, fmt.Errorf("no go command: %w", err)
	}
	env := base()
	for _, name := range asked {
		if v := settings[name]; v != "" {
			env = append(env, name+"="+v)
		}
	}
	env = append(env, fixed...)
	local := append(env[:len(env):len(env)], "GOTOOLCHAIN=local")
	here, err := goEnv(ctx, local, "GOVERSION")
	if err != nil {
		return FoundToolchain{}, fmt.Errorf("no go command: %w", err)
	}
	if here["GOVERSION"] == Toolchain {
		return FoundToolchain{Toolchain, local}, nil
	}
	fetched := append(env[:len(env):len(env)], "GOTOOLCHAIN="+Toolchain)
	there, err := goEnv(ctx, fetched, "GOVERSION")
	if err == nil && there["GOVERSION"] == Toolchain {
		return FoundToolchain{Toolchain, fetched}, nil
	}
	if any {
		return FoundToolchain{here["GOVERSION"], local}, nil
	}
	return FoundToolchain{}, fmt.Errorf("%w: the go command is %s and could not fetch it", ErrToolchain, here["GOVERSION"])
}

// base is the part of our own environment that is passed on.
func base() []string {
	var env []string
	for _, p := range passed {
		for _, name := range strings.Fields(p.names) {
			if v, ok := os.LookupEnv(name); ok {
				env = append(env, name+"="+v)
			}
		}
	}
	return env
}

// goEnv asks the go command for some of its settings. It runs outside any
// module, so that no go.mod can choose another toolchain.
func goEnv(ctx context.Context, env []string, names ...string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"env", "-json"}, names...)...)
	cmd.Dir = os.TempDir()
	cmd.Env = env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, &CompileError{Output: reason(stderr.Bytes()), Err: err}
	}
	m := map[string]string{}
	if err := json.Unmarshal(stdout.Bytes(), &m); err != nil {
		return nil, err
	}
	return m, nil
}
