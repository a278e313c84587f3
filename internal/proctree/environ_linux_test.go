//go:build amd64 || arm64

package proctree_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/internal/proctree"
)

// keyRole lets the test binary be a server that was started with a key, which is
// the variable's value.
const keyRole = "PROCTREE_TEST_KEY"

// sayKey tells line by line whether the key is found where a program of the same
// user looks for it: before the first start, and then by programs under each profile.
func sayKey() int {
	key := os.Getenv(keyRole)
	own, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("before", strings.Contains(string(own), key))
	h := proctree.Open(proctree.Options{})
	defer h.Close()
	profiles := []proctree.Profile{{Name: proctree.None}}
	if canBox() {
		profiles = append(profiles, proctree.Profile{Name: proctree.WorkspaceWrite, Network: proctree.NetworkOff}, proctree.Profile{Name: proctree.ReadOnly, Network: proctree.NetworkOff})
	}
	for _, profile := range profiles {
		s := script("/", `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n'; echo read`)
		s.Profile = profile
		p, err := h.Start(context.Background(), s)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		out, err := io.ReadAll(p.Stdout)
		p.Stdout.Close()
		if cerr := p.Close(); err != nil || cerr != nil || !strings.Contains(string(out), "read") {
			fmt.Println(err, cerr, string(out))
			return 1
		}
		fmt.Println(profile.Name, strings.Contains(string(out), key))
	}
	cmd := exec.Command("/bin/sh", "-c", "echo $"+keyRole)
	out, err := cmd.Output()
	if own, rerr := os.ReadFile("/proc/self/environ"); rerr == nil {
		fmt.Println("tag", strings.Contains("\x00"+string(own), "\x00"+proctree.Tag+"=of-another\x00"))
	}
	fmt.Println("own", err == nil && os.Getenv(keyRole) == key && strings.TrimSpace(string(out)) == key)
	return 0
}

// TestKeysAreNotShown: what the server's environment holds is its own, and is in
// no file of /proc that programs can read.
func TestKeysAreNotShown(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), keyRole+"=sk-"+newMarker(), proctree.Tag+"=of-another")
	out, err := cmd.CombinedOutput()
	want := "before true\nnone false\n"
	if canBox() {
		want += "workspace-write false\nread-only false\n"
	}
	want += "tag true\nown true\n"
	if err != nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}
