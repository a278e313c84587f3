package search

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// needTool skips the test if a program is missing, unless WASMTOOLS_REQUIRE
// names it: where it must be installed its absence is a failure.
func needTool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	required := strings.FieldsFunc(os.Getenv("WASMTOOLS_REQUIRE"), func(r rune) bool { return r == ',' || r == ' ' })
	if slices.Contains(required, name) {
		t.Fatalf("%s is not installed, and WASMTOOLS_REQUIRE names it", name)
	}
	t.Skipf("%s is not installed", name)
	return ""
}

// goroot is where the toolchain's sources are, or a name that does not exist.
func goroot() string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "no-go-here"
	}
	return strings.TrimSpace(string(out))
}
