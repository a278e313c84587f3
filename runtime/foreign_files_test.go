package runtime

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// filesSpace is a workspace with some files.
func filesSpace(t testing.TB) (string, *workspace.Workspace) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "abc", "docs/b.txt": "bee", "docs/deep/c.txt": "sea", "out/old.txt": "old"} {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w, err := workspace.Open(dir, workspace.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return dir, w
}

// changes writes a write set in one line.
func changes(w *tool.WriteSet) string {
	if w.Empty() {
		return ""
	}
	var out []string
	for _, e := range w.Entries {
		s := string(e.Op) + " " + e.Path
		switch e.Op {
		case tool.OpMove:
			s += " from " + e.From
		case tool.OpWrite:
			s += "=" + string(e.Blob)
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// TestForeignFiles has a Go program do to files what programs do. Nothing of it
// reaches the disk; what it would change is the write set.
func TestForeignFiles(t *testing.T) {
	m := filesModule(t)
	all := everything()
	some := hostfuncs.Grant{Read: []string{"docs/**"}, Write: []string{"out/**"}}
	readOnly := hostfuncs.Grant{Read: []string{"**"}}
	for _, c := range []struct {
		grant  hostfuncs.Grant
		argv   []string
		out    string // of the program, one line a verb
		writes string
		code   tool.Code // trap: the program failed, its lines are in the details
	}{
		{all, []string{"read=a.txt", "read=/a.txt", "read=./docs/../a.txt", "stat=docs", "stat=a.txt"}, "read: abc\nread: abc\nread: abc\nstat: d--------- 0\nstat: ---------- 3\n", "", ""},
		{all, []string{"list=.", "list=docs/", "list=docs/deep"}, "list: a.txt docs out\nlist: b.txt deep\nlist: c.txt\n", "", ""},
		{all, []string{"write=new.txt|hello", "read=new.txt", "stat=new.txt", "list=."}, "write: \nread: hello\nstat: ---------- 5\nlist: a.txt docs new.txt out\n", "write new.txt=hello", ""},
		{all, []string{"write=a.txt|x", "append=a.txt|yz", "read=a.txt"}, "write: \nappend: \nread: xyz\n", "write a.txt=xyz", ""},
		{all, []string{"append=a.txt|d"}, "append: \n", "write a.txt=abcd", ""},
		{all, []string{"patch=a.txt|XYZ"}, "patch: aXYZ\n", "write a.txt=aXYZ", ""},
		{all, []string{"truncate=a.txt|x", "read=a.txt"}, "truncate: \nread: a\n", "write a.txt=a", ""},
		{all, []string{"leave=n|kept"}, "leave: \n", "write n=kept", ""},
		{all, []string{"mkdir=d", "write=d/f|1", "rename=d|e", "read=e/f", "list=."}, "mkdir: \nwrite: \nrename: \nread: 1\nlist: a.txt docs e out\n", "mkdir d, write d/f=1, move e from d", ""},
		{all, []string{"mkdirall=x/y/z", "list=x/y"}, "mkdirall: \nlist: z\n", "mkdir x, mkdir x/y, mkdir x/y/z", ""},
		{all, []string{"rename=a.txt|docs/b.txt", "read=docs/b.txt"}, "rename: \nread: abc\n", "delete docs/b.txt, move docs/b.txt from a.txt", ""},
		{all, []string{"remove=a.txt", "list=."}, "remove: \nlist: docs out\n", "delete a.txt", ""},
		{all, []string{"removeall=docs", "list=."}, "removeall: \nlist: a.txt out\n", "delete docs/b.txt, delete docs/deep/c.txt, delete docs/deep, delete docs", ""},
		{all, []string{"remove=docs"}, "Directory not empty", "", tool.Trap},
		{all, []string{"mkdir=docs"}, "File exists", "", tool.Trap},
		{all, []string{"mkdir=no/such"}, "No such file", "", tool.Trap},
		{all, []string{"write=no/such|x"}, "No such file", "", tool.Trap},
		{all, []string{"read=docs"}, "directory", "", tool.Trap},
		{all, []string{"read=a.txt/"}, "Not a directory", "", tool.Trap},
		{all, []string{"write=docs|x"}, "directory", "", tool.Trap},
		// Go's own library takes .. off before it asks; what is above / is /.
		{all, []string{"read=../outside"}, "read: error", "", tool.Trap},
		{all, []string{"write=../x|x"}, "write: \n", "write x=x", ""},
		{all, []string{"rename=a.txt|docs/../../x"}, "rename: \n", "move x from a.txt", ""},
		{all, []string{"symlink=a.txt|l"}, "not permitted", "", tool.Trap},
		{all, []string{"link=a.txt|l"}, "not permitted", "", tool.Trap},
		{all, []string{"readlink=a.txt"}, "readlink: error", "", tool.Trap},
		{all, []string{"open=a.txt|" + strings.Repeat("x", 100)}, "open: 100\n", "", ""},
		{all, []string{"open=a.txt|" + strings.Repeat("x", 300)}, "open: error", "", tool.Trap},
		{all, []string{"hole=h"}, "hole: error", "", tool.Trap},
		{all, []string{"big=h"}, "big: error", "", tool.Trap},
		// A failure drops what came before it.
		{all, []string{"write=new.txt|x", "read=none"}, "No such file", "", tool.Trap},
		{all, []string{"write=new.txt|x", "exit=|xx"}, "write: ", "", tool.Trap},
		// Grants.
		{some, []string{"read=docs/b.txt", "list=docs", "list=."}, "read: bee\nlist: b.txt deep\nlist: docs out\n", "", ""},
		{some, []string{"read=a.txt"}, "Permission denied", "", tool.Trap},
		{some, []string{"stat=a.txt"}, "Permission denied", "", tool.Trap},
		{some, []string{"write=out/n|1"}, "write: \n", "write out/n=1", ""},
		{some, []string{"write=out/old.txt|1"}, "write: \n", "write out/old.txt=1", ""},
		{some, []string{"append=out/old.txt|1"}, "Permission denied", "", tool.Trap}, // needs what is there
		{some, []string{"patch=out/old.txt|1"}, "Permission denied", "", tool.Trap},
		{some, []string{"write=docs/n|1"}, "Permission denied", "", tool.Trap},
		{some, []string{"rename=docs/b.txt|out/b.txt"}, "Permission denied", "", tool.Trap},
		{some, []string{"rename=out/old.txt|docs/n"}, "Permission denied", "", tool.Trap},
		{some, []string{"remove=docs/b.txt"}, "Permission denied", "", tool.Trap},
		{readOnly, []string{"read=a.txt", "list=."}, "read: abc\nlist: a.txt docs out\n", "", ""},
		{readOnly, []string{"write=a.txt|x"}, "Read-only", "", tool.Trap},
		{readOnly, []string{"write=new|x"}, "Read-only", "", tool.Trap},
		{readOnly, []string{"mkdir=d"}, "Read-only", "", tool.Trap},
		{readOnly, []string{"remove=a.txt"}, "Read-only", "", tool.Trap},
		{readOnly, []string{"rename=a.txt|b"}, "Read-only", "", tool.Trap},
		{hostfuncs.Grant{}, []string{"read=a.txt"}, "read: error", "", tool.Trap},
		{hostfuncs.Grant{}, []string{"list=."}, "list: error", "", tool.Trap},
		{hostfuncs.Grant{Env: []string{"LANG", "UNSET"}}, []string{"env="}, "env: FIXED=1 LANG=C\n", "", ""},
	} {
		name := strings.Join(c.argv, " ")
		dir, w := filesSpace(t)
		tl := toolOf(t, m, "t", ToolOptions{
			Workspace: w, Grant: granting(c.grant),
			Env: func(n string) (string, bool) { return "C", n == "LANG" || n == "HOME" },
		})
		before := treeText(t, dir)
		v := preview(t, tl, args(c.argv...))
		said := v.Result.PlainText()
		if v.Result.IsError {
			said = fmt.Sprint(v.Result.Details["stdout"])
		}
		ok := v.Result.Code == c.code && changes(v.Writes) == c.writes
		if c.code == "" {
			ok = ok && said == c.out
		} else {
			ok = ok && strings.Contains(said, c.out)
		}
		if !ok {
			t.Errorf("%.60s: code %q, says %q, changes %q, details %v\nwant code %q, %q, changes %q",
				name, v.Result.Code, said, changes(v.Writes), v.Result.Details, c.code, c.out, c.writes)
		}
		if after := treeText(t, dir); after != before {
			t.Errorf("%.60s: the disk changed from %q to %q", name, before, after)
		}
	}
}

// treeText is a tree as text.
func treeText(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		fmt.Fprintf(&b, "%s %v", filepath.ToSlash(rel), fi.Mode())
		if fi.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", data)
		}
		b.WriteString("; ")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestForeignLinks: links that stand in the workspace already are followed
// inside it and nowhere else.
func TestForeignLinks(t *testing.T) {
	dir, w := filesSpace(t)
	for to, from := range map[string]string{"docs/b.txt": "in", "..": "up", "/etc/passwd": "abs", "nowhere": "dangling", "docs": "indir"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Skipf("no links here: %v", err)
		}
	}
	tl := toolOf(t, filesModule(t), "t", ToolOptions{Workspace: w, Grant: granting(everything())})
	for _, c := range []struct{ argv, want string }{
		{"read=in", "read: bee\n"},
		{"read=indir/b.txt", "read: bee\n"},
		{"lstat=in", "lstat: L---------\n"},
		{"read=up/outside", "error"},
		{"list=up", "error"},
		{"read=abs", "error"},
		{"read=dangling", "error"},
		{"write=up/x|1", "error"},
		{"readlink=in", "error"},
	} {
		v := preview(t, tl, args(c.argv))
		said := v.Result.PlainText()
		if v.Result.IsError {
			said = fmt.Sprint(v.Result.Details["stdout"])
		}
		if !strings.Contains(said, c.want) || strings.Contains(said, "root:") || !v.Writes.Empty() {
			t.Errorf("%s = %q, changes %q; want %q", c.argv, said, changes(v.Writes), c.want)
		}
	}
	// Removing a link takes the link.
	if v := preview(t, tl, args("remove=indir")); changes(v.Writes) != "delete indir" {
		t.Errorf("removing a link: %v, changes %q", v.Result, changes(v.Writes))
	}
	if v := preview(t, tl, args("removeall=indir")); changes(v.Writes) != "delete indir" {
		t.Errorf("removing all of a link: %v, changes %q", v.Result, changes(v.Writes))
	}
}

// TestForeignQuotas: output, notes and host calls of foreign guests count.
func TestForeignQuotas(t *testing.T) {
	_, w := filesSpace(t)
	flood := toolOf(t, filesModule(t), "t", ToolOptions{Workspace: w})
	if v := preview(t, flood, args("flood=")); v.Result.Code != tool.Quota {
		t.Errorf("flooding standard output = %v; want quota", v.Result)
	}
	cat, err := os.ReadFile(filepath.Join(dependency(t, "github.com/tetratelabs/wazero"), "imports/wasi_snapshot_preview1/example/testdata/cargo-wasi/cat.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]tool.Code{1: tool.Quota, 100: ""} {
		tl := foreignTool(t, patientEngine(t), cat, oneTool(fmt.Sprintf("[limits]\nhost_calls = %d\n", limit), argv), "t",
			ToolOptions{Workspace: w, Grant: granting(everything())})
		if v := preview(t, tl, args("a.txt")); v.Result.Code != want {
			t.Errorf("with %d host calls cat = %v; want code %q", limit, v.Result, want)
		}
	}
}
