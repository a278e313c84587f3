package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A plant is a bug that is put into a copy of the sources. A fuzz target that
// does not find it within plantTime is no evidence where it finds nothing.
type plant struct {
	target   string // the fuzz target that has to find it
	file     string
	old, new string // old stands once in the file
	what     string
}

const plantTime = "180s"

// plants has a bug of the kind that such code gets for every target that reads a
// stranger's module, and for the one that attacks the file tree.
var plants = []plant{
	{"FuzzDecode", "runtime/rewrite/reader.go", "if shift == 28 && b > 0x0f {", "if shift == 28 && b > 0x1f {",
		"an integer of 33 bits is read as one of 32"},
	{"FuzzDecode", "runtime/rewrite/encode.go", "	if s.flags == 2 {\n		b = append(b, 0) // the memory\n	}\n", "",
		"the memory of a data segment is not written"},
	{"FuzzInstrument", "runtime/rewrite/countdown.go", "e.inits[i] = c.moveIn(e.inits[i])", "e.inits[i] = append([]byte(nil), e.inits[i]...)",
		"functions that element expressions name are not moved"},
	{"FuzzCode", "runtime/rewrite/rewriter.go", "n+w.twins[innermost]-w.twins[innermost-int(n)]", "n+w.twins[innermost]",
		"a branch out of a doubled loop goes one label too far"},
	{"FuzzCode", "runtime/rewrite/opcode.go", "row{misc | 0x0f, misc | 0x11, immTable},", "row{misc | 0x0f, misc | 0x10, immTable}, row{misc | 0x11, misc | 0x11, immNone},",
		"the immediate of table.fill is read as an instruction"},
	{"FuzzParse", "manifest/parse.go", "if len(n) < 1 || len(n) > 9 ||", "if len(n) > 9 ||",
		"a version with an empty part is indexed"},
	{"FuzzModule", "manifest/growth.go", "helper := uint32(len(p.imported) + len(p.funcTypes))", "helper := uint32(len(p.funcTypes))",
		"imports are not counted where a function is added"},
	{"FuzzParseSidecar", "manifest/sidecar.go", "			if end < 0 {\n", "			if end < 0 && i == 0 {\n",
		"a brace that is not closed is sliced"},
	{"FuzzTree", "workspace/resolve_linux.go", "unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS", "unix.RESOLVE_NO_MAGICLINKS",
		"a link that is swapped in leads out"},
	{"FuzzTree", "workspace/edit.go", "		at = s.end\n", "		at = min(s.end+1, len(src))\n",
		"the byte after an edit is lost"},
	{"FuzzTree", "workspace/undo.go", "			op.Mode = l.Mode\n", "",
		"an undo forgets the mode of what was deleted"},
}

// job is how a plant is tried.
func (p plant) job() job {
	return job{
		Name: fmt.Sprintf("planted bug: %s %s: %s", filepath.Dir(p.file), p.target, p.what),
		Command: fmt.Sprintf("go test -run ^$ -fuzz ^%s$ -fuzztime %s -fuzzminimizetime 1s -parallel 2 ./%s",
			p.target, plantTime, filepath.Dir(p.file)),
		plant: &p,
	}
}

// sow puts the bug into the sources below dir.
func (p plant) sow(dir string) error {
	path := filepath.Join(dir, p.file)
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(src), p.old); n != 1 {
		return fmt.Errorf("%s holds %q %d times, want once", p.file, p.old, n)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(src), p.old, p.new, 1)), 0o644)
}

// found tells from the output of the run whether the target found the bug. One
// that does not compile, or that fails for another reason, counts for nothing.
func (p plant) found(output string) bool {
	return strings.Contains(output, "--- FAIL: "+p.target+" ") && !strings.Contains(output, "[build failed]")
}

// runPlanted runs the job in a copy of the sources with the bug in it.
func (j *job) runPlanted(ctx context.Context) {
	dir, err := os.MkdirTemp("", "longrun-plant-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err = copySources(dir); err == nil {
		err = j.plant.sow(dir)
	}
	if err != nil {
		j.Output = err.Error()
		log.Print(j.Output)
		return
	}
	text, _ := j.execute(ctx, dir)
	if j.Passed = j.plant.found(text); j.Passed {
		for _, line := range strings.Split(text, "\n") {
			if strings.Contains(line, "_test.go:") || strings.Contains(line, "panic") {
				j.Figures = append(j.Figures, strings.TrimSpace(line))
				break
			}
		}
		return
	}
	j.tail("the bug was not found\n" + text)
}

// copySources copies what git tracks or would track.
func copySources(dir string) error {
	list, err := exec.Command("git", "ls-files", "-z", "-co", "--exclude-standard").Output()
	if err != nil {
		return err
	}
	for _, name := range strings.Split(strings.TrimRight(string(list), "\x00"), "\x00") {
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue // deleted, or a link of the hostile trees
		}
		if err := copyFile(name, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
