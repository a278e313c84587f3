//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/internal/proctree/helper"
	"github.com/wasmtools/wasmtools/internal/proctree/wire"
)

// TestHelperStartsEarly: a helper runs before the heavy packages of this program
// are initialised.
func TestHelperStartsEarly(t *testing.T) {
	initialised := func(args ...string) string {
		ours, theirs, err := wire.Pair()
		if err != nil {
			t.Fatal(err)
		}
		sock := os.NewFile(uintptr(theirs), "socket")
		defer sock.Close()
		os.NewFile(uintptr(ours), "socket").Close() // a helper without a server ends
		var errOut strings.Builder
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Env = []string{"GODEBUG=inittrace=1"}
		cmd.ExtraFiles = []*os.File{sock}
		cmd.Stderr = &errOut
		if err := cmd.Run(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, errOut.String())
		}
		return errOut.String()
	}
	const heavy = "github.com/tetratelabs/wazero"
	early := initialised(helper.Arg, helper.RoleZygote)
	if n := strings.Count(early, "\ninit "); strings.Contains(early, heavy) || n == 0 || n > 40 {
		t.Errorf("%d packages were initialised:\n%s", n, early)
	}
	if all := initialised("-test.run=^$"); !strings.Contains(all, heavy) { // the control
		t.Errorf("the program itself does not initialise %s:\n%s", heavy, all)
	}
}
