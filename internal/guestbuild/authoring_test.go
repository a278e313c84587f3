package guestbuild_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// guideBlock is a block of docs/authoring.md that a reader types: commands, or
// a file that is named in its first line.
var guideBlock = regexp.MustCompile("(?s)```(console|go)\n(.*?)```\n")

// TestAuthoringGuide follows docs/authoring.md to the letter, beside a checkout:
// it writes the files and runs the commands in the order of the page, each of
// which has to end well and print what the page shows. "..." stands for anything.
func TestAuthoringGuide(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("the page's commands are bash's: ", err)
	}
	needToolchain(t) // what the page shows is the build of the pinned release
	page, err := os.ReadFile(filepath.Join(root, "docs/authoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	if err := os.Symlink(here, filepath.Join(top, "wasmtools")); err != nil {
		t.Fatal(err)
	}
	goTool(t, here, "build", "-o", filepath.Join(top, "bin", "wasmtools"), "./cmd/wasmtools")
	env := append(os.Environ(), "PATH="+filepath.Join(top, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"),
		"WASMTOOLS_HOME="+filepath.Join(top, "home"), "NO_COLOR=1", "GOFLAGS=", "GOWORK=off")

	cwd, commands, host := top, 0, ""
	for _, m := range guideBlock.FindAllStringSubmatch(string(page), -1) {
		if m[1] == "go" {
			name, code, ok := strings.Cut(strings.TrimPrefix(m[2], "// "), "\n")
			if !ok || !strings.HasSuffix(name, ".go") {
				t.Errorf("a file without a name: %.40q", m[2])
				continue
			}
			if strings.HasPrefix(name, "host/") {
				host = code // a program of its own
				continue
			}
			if err := os.WriteFile(filepath.Join(cwd, name), []byte(code), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, step := range strings.Split("\n"+m[2], "\n$ ")[1:] {
			command, want, _ := strings.Cut(step, "\n")
			cmd := exec.Command("bash", "-c", command+"\nstatus=$?; pwd >"+filepath.Join(top, "cwd")+"; exit $status")
			cmd.Dir, cmd.Env = cwd, env
			got, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("$ %s\n%v\n%s", command, err, got)
			}
			commands++
			if where, err := os.ReadFile(filepath.Join(top, "cwd")); err == nil {
				cwd = strings.TrimSpace(string(where))
			}
			if want = strings.TrimSpace(want); want == "" {
				continue
			}
			pattern := strings.ReplaceAll(regexp.QuoteMeta(want), regexp.QuoteMeta("..."), "(?s:.*)")
			if !regexp.MustCompile(pattern + "\n?$").Match(got) {
				t.Errorf("$ %s\nprints:\n%s\nthe page shows:\n%s", command, got, want)
			}
		}
	}
	if commands < 8 || host == "" {
		t.Fatalf("the page has %d commands, and a host program of %d bytes", commands, len(host))
	}
	written, err := os.ReadFile(filepath.Join(cwd, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	// The release is that of the reader's go command.
	release := regexp.MustCompile(`(?m)^go 1\..*$`)
	if !strings.Contains(release.ReplaceAllString(string(page), "go X"), "```\n"+release.ReplaceAllString(string(written), "go X")+"```\n") {
		t.Errorf("the page shows another go.mod than is written:\n%s", written)
	}

	// What the page shows of go.mod is all that a build needs: in a fresh folder,
	// without go.sum, with no module downloaded and no server to ask.
	fresh := filepath.Join(top, "fresh")
	if err := os.Mkdir(fresh, 0o755); err != nil {
		t.Fatal(err)
	}
	main, err := os.ReadFile(filepath.Join(cwd, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```\n(module .*?)```\n").FindSubmatch(page)
	if shown == nil {
		t.Fatal("the page shows no go.mod")
	}
	for name, text := range map[string][]byte{"go.mod": shown[1], "main.go": main} {
		if err := os.WriteFile(filepath.Join(fresh, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	alone := exec.Command(filepath.Join(top, "bin", "wasmtools"), "build", ".")
	alone.Dir, alone.Env = fresh, append(env, "GOPROXY=off", "GOMODCACHE="+filepath.Join(top, "none"))
	if got, err := alone.CombinedOutput(); err != nil {
		t.Errorf("the go.mod of the page, in a fresh folder: %v\n%s", err, got)
	}

	// The host program is compiled as a package of ours, since its requirements
	// are ours.
	file := filepath.Join(top, "host.go")
	if err := os.WriteFile(file, []byte(host), 0o644); err != nil {
		t.Fatal(err)
	}
	overlay, _ := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "internal/guestbuild/hostguide/main.go"): file}})
	if err := os.WriteFile(filepath.Join(top, "overlay.json"), overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	goTool(t, here, "build", "-overlay", filepath.Join(top, "overlay.json"), "-o", filepath.Join(top, "bin", "host"), "./internal/guestbuild/hostguide")
	cmd := exec.Command(filepath.Join(top, "bin", "host"))
	cmd.Dir, cmd.Env = cwd, env
	if got, err := cmd.CombinedOutput(); err != nil || string(got) != "{\"lines\":[2]}\n" {
		t.Errorf("the host program prints %q, %v", got, err)
	}

	goTool(t, filepath.Join(here, "examples/wordcount"), "test", ".")
}

func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
