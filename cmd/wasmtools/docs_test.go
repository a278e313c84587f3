//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents are the pages whose console blocks are run.
var documents = []string{"README.md", "GUIDE.md", "docs/authoring.md", "docs/approvals.md", "docs/policy.md", "docs/evidence.md", "docs/artifacts.md", "docs/budget.md", "docs/catalog.md", "docs/undo.md", "docs/overlay.md"}

// TestDocuments runs every ```console block of the documents, in order, one
// folder a document, and compares what is printed. A line "..." stands for any
// lines. Times, digests and identifiers are compared by their kind only. A block
// after the comment <!-- not run: why --> is left out.
//
// With -update, the output in the documents is rewritten.
func TestDocuments(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		skip(t, "bash", "bash is not installed")
	}
	for _, doc := range documents {
		t.Run(doc, func(t *testing.T) {
			path := filepath.Join("../..", doc)
			page, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := runDocument(t, string(page))
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

var consoleBlock = regexp.MustCompile("(?s)(<!-- not run: [^\n]*-->\n\n?)?```console\n(.*?)```\n")

// runDocument returns page with the output of its blocks as it is now.
func runDocument(t *testing.T, page string) string {
	home := sharedHome(t)
	dir := t.TempDir()
	cwd := dir
	ran := 0
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page = consoleBlock.ReplaceAllStringFunc(page, func(block string) string {
		m := consoleBlock.FindStringSubmatch(block)
		if m[1] != "" {
			return block
		}
		var out strings.Builder
		for _, step := range splitSteps(m[2]) {
			ran++
			cmd := exec.Command("bash", "-c", step.command+"\nstatus=$?; pwd >"+dir+"/.cwd; exit $status")
			cmd.Dir = cwd
			cmd.Env = append(os.Environ(), "WASMTOOLS_HOME="+home, "HOME="+dir, "SOURCE="+root, "NO_COLOR=1")
			p, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("$ %s\n%v\n%s", step.command, err, p)
			}
			if where, err := os.ReadFile(filepath.Join(dir, ".cwd")); err == nil {
				cwd = strings.TrimSpace(string(where))
			}
			got := strings.NewReplacer(dir, "/tmp", home, "/home/you/.wasmtools").Replace(string(p))
			if !matchOutput(step.output, got) && !*update {
				t.Errorf("$ %s\nprints:\n%s\nthe document shows:\n%s", step.command, got, step.output)
			}
			if matchOutput(step.output, got) {
				got = step.output
			}
			fmt.Fprintf(&out, "$ %s\n%s", step.command, got)
		}
		return "```console\n" + out.String() + "```\n"
	})
	t.Logf("%d commands", ran)
	return page
}

type docStep struct{ command, output string }

// splitSteps takes a block apart: "$ " begins a command, which goes on in the
// next line after a backslash or inside an open single quote.
func splitSteps(block string) []docStep {
	var steps []docStep
	open := false
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		last := len(steps) - 1
		switch {
		case open:
			steps[last].command += "\n" + line
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, docStep{command: line[2:]})
			last++
		case last >= 0:
			steps[last].output += line + "\n"
			continue
		default:
			continue
		}
		open = strings.HasSuffix(line, "\\") || strings.Count(steps[last].command, "'")%2 == 1
	}
	return steps
}

// volatile are the parts of output that differ from run to run.
var volatile = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?m)^wasmtools: compiling .* for the first time\n`), ""}, // in whichever document comes first
	{regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s)\b`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "DIGEST"},
	{regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z`), "DATE"},
	{regexp.MustCompile(`\bgo1\.\d+(\.\d+)?, \w+/\w+`), "GO"},
	{regexp.MustCompile(`\b[a-z2-7]{26}\b`), "HANDLE"},
	{regexp.MustCompile(`\b\d{2}:\d{2}:\d{2} UTC\b`), "CLOCK"},
	{regexp.MustCompile(`\b\d+ bytes\b`), "SIZE"},
	{regexp.MustCompile(`(?m)^(ok  |none) terminal   (workspace-write|read-only).*$`), "SANDBOX $2"}, // and by what means depends on the system
}

func matchOutput(want, got string) bool {
	for _, v := range volatile {
		want, got = v.re.ReplaceAllString(want, v.with), v.re.ReplaceAllString(got, v.with)
	}
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(want), regexp.QuoteMeta("...\n"), `(?s:.*\n)?`) + "$"
	return regexp.MustCompile(pattern).MatchString(got)
}
