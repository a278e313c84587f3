package shell

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

//go:embed python.txt
var pythonText string

// pythonModules are the names that a module of Python's own, or one that a
// known tool consists of, is imported by.
var pythonModules = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(pythonText) {
		if !strings.HasPrefix(line, "#") {
			for n := range strings.FieldsSeq(line) {
				names[n] = true
			}
		}
	}
	return names
})

// pythonArgs looks for what python -m would import from the directory in which
// it runs instead of what it means: the directory comes before Python's own.
// Test runners run the project's code anyway.
func (j *judge) pythonArgs(c *call, p *parsed) {
	i := slices.Index(p.sub, "-m")
	if i < 0 || i+1 >= len(p.sub) || p.has("-I") {
		return
	}
	if m := p.sub[i+1]; m == "pytest" || m == "unittest" {
		return
	}
	if c.st.cwds == nil {
		j.ask(nil, "in which directory Python looks for modules is not known")
	}
	for _, cwd := range c.st.cwds {
		names, ok := j.list(cwd)
		if !ok {
			j.ask(nil, "what Python would import from its directory cannot be looked at")
			continue
		}
		for _, e := range names {
			name, ext, _ := strings.Cut(e.Name, ".")
			module := ext == "py" || ext == "pyc" || strings.HasSuffix(ext, "so")
			if ext == "" && pythonModules()[name] {
				_, kind, ok := j.resolve(cwd + "/" + e.Name + "/__init__.py")
				module = !ok || kind != Missing
			}
			if module && pythonModules()[name] {
				j.ask(nil, "Python would import %s instead of its own module", show(e.Name))
				break
			}
		}
	}
}
