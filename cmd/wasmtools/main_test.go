package main

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// update rewrites what golden scripts and documents show.
var update = flag.Bool("update", false, "rewrite golden output")

// TestMain makes this test binary the wasmtools command when it is started
// under that name, so that scripts and clients run the real program.
func TestMain(m *testing.M) {
	if isCompileChild() { // of the program under test, which is this binary
		os.Exit(run())
	}
	for _, e := range os.Environ() { // by GIT_DIR a test would work in the repository in which it is run
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "GIT_") {
			os.Unsetenv(name)
		}
	}
	testscript.Main(tests{m}, map[string]func(){
		"wasmtools":         func() { os.Exit(run()) },
		"wasmtools-session": func() { os.Exit(actSession()) }, // see TestSessionHasNoPower
	})
}

type tests struct{ m *testing.M }

func (t tests) Run() int {
	defer func() { os.RemoveAll(homeDir); os.RemoveAll(compiledDir) }()
	return t.m.Run()
}

// required reports whether the environment says that what needs a program may
// not be skipped (WASMTOOLS_REQUIRE, set by .ci/run).
func required(what string) bool {
	for _, w := range strings.Split(os.Getenv("WASMTOOLS_REQUIRE"), ",") {
		if w == what {
			return true
		}
	}
	return false
}

// skip skips t for a missing program or right, unless it is required.
func skip(t *testing.T, what, why string) {
	t.Helper()
	if required(what) {
		t.Fatalf("%s is required here: %s", what, why)
	}
	t.Skipf("skipped without %s: %s", what, why)
}

// sharedHome is one WASMTOOLS_HOME for all tests of this process, so that the
// built-in module is compiled once.
var (
	homeOnce sync.Once
	homeDir  string
	homeErr  error
)

func sharedHome(t *testing.T) string {
	t.Helper()
	homeOnce.Do(func() {
		homeDir, homeErr = os.MkdirTemp("", "wasmtools-test-home-")
	})
	if homeErr != nil {
		t.Fatal(homeErr)
	}
	return homeDir
}
