package selftest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// attacks is the corpus, in the order in which it is tried.
func attacks() []attack {
	var all []attack
	for _, part := range [][]attack{ways(), links(), races(), special(), protected(), bytesKept(), guests(), shells()} {
		all = append(all, part...)
	}
	return all
}

func read(path string) request { return request{"read_open", arguments{"path": path}} }
func list(path string) request {
	return request{"read_discover", arguments{"mode": "list", "path": path}}
}
func locate(root string) request {
	return request{"read_discover", arguments{"mode": "locate", "query": "*secret*", "root": root}}
}
func grep(path string) request {
	return request{"grep", arguments{"pattern": "SECRET", "path": path, "mode": "content"}}
}
func write(path string) request {
	return request{"write_file", arguments{"path": path, "content": "planted", "overwrite": true}}
}
func edit(path, old string) request {
	return request{"replace_block", arguments{"path": path, "old": old, "new": "planted"}}
}
func remove(path string) request {
	return request{"delete_path", arguments{"path": path, "recursive": true}}
}
func move(from, to string) request {
	return request{"move_path", arguments{"from": from, "to": to}}
}

// shows reports whether a file can be read there by its name.
func shows(mark string, path string) bool {
	b, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(b), mark)
}

// ways are paths that lead out by themselves.
func ways() []attack {
	out := func(s *scene) string { return filepath.ToSlash(filepath.Join("..", "..", filepath.Base(s.outside))) }
	nothing := func(*scene) error { return nil }
	each := func(f func(s *scene, path string) request) func(*scene) string {
		return func(s *scene) string {
			fault := ""
			for _, path := range []string{
				"{}/" + out(s) + "/secret.txt", s.out("secret.txt"), "{}/nothing/../" + out(s) + "/secret.txt",
				"{}/./" + strings.ReplaceAll(out(s), "/", "//") + "/secret.txt", "{}/" + out(s) + "/folder/../secret.txt", "{}/" + out(s) + "/secret.txt/",
			} {
				c := f(s, path)
				fault = join(fault, refused(c)(s))
			}
			return fault
		}
	}
	return []attack{
		{"paths", "read above the workspace", nothing,
			func(s *scene) bool {
				return shows(s.mark, filepath.Join(s.inside, "..", "..", filepath.Base(s.outside), "secret.txt"))
			},
			each(func(_ *scene, p string) request { return read(p) })},
		{"paths", "write above the workspace", nothing,
			func(s *scene) bool { return os.WriteFile(s.out("secret.txt"), nil, 0o600) == nil },
			each(func(_ *scene, p string) request { return write(p) })},
		{"paths", "delete above the workspace", nothing,
			func(s *scene) bool { return os.Remove(s.out("secret.txt")) == nil },
			each(func(_ *scene, p string) request { return remove(p) })},
		{"paths", "move something out of the workspace",
			func(s *scene) error { return os.WriteFile(s.at("mine.txt"), []byte("mine"), 0o600) },
			func(s *scene) bool { return os.Rename(s.at("mine.txt"), s.out("mine.txt")) == nil },
			func(s *scene) string { return refused(move("{}/mine.txt", "{}/"+out(s)+"/mine.txt"))(s) }},
		{"paths", "move something into the workspace", nothing,
			func(s *scene) bool { return os.Rename(s.out("secret.txt"), s.at("mine.txt")) == nil },
			func(s *scene) string { return refused(move("{}/"+out(s)+"/secret.txt", "{}/mine.txt"))(s) }},
		{"paths", "list, search and grep above the workspace", nothing,
			func(s *scene) bool { _, err := os.ReadDir(s.outside); return err == nil },
			func(s *scene) string {
				return refused(list("{}/"+out(s)), locate("{}/"+out(s)), grep("{}/"+out(s)))(s)
			}},
		{"paths", "delete the workspace itself",
			func(s *scene) error { return os.WriteFile(s.at("mine.txt"), []byte("mine"), 0o600) }, nil,
			func(s *scene) string {
				fault := refused(remove("."), remove("{}/.."), remove(s.tree))(s)
				if _, err := os.Stat(s.at("mine.txt")); err != nil {
					fault = join(fault, "files of the workspace are gone")
				}
				return fault
			}},
	}
}

// symlink makes a link where links can be made.
func symlink(target, name string) error { return notHere(os.Symlink(target, name)) }

// links are links that lead out.
func links() []attack {
	file := func(s *scene) error { return symlink(s.out("secret.txt"), s.at("link")) }
	relative := func(s *scene) error {
		return symlink(filepath.Join("..", "..", filepath.Base(s.outside), "secret.txt"), s.at("link"))
	}
	folder := func(s *scene) error { return symlink(s.outside, s.at("link")) }
	dangling := func(s *scene) error { return symlink(s.out("new.txt"), s.at("link")) }
	chain := func(s *scene) error {
		if err := symlink(s.outside, s.at("far")); err != nil {
			return err
		}
		return errors.Join(os.Mkdir(s.at("folder"), 0o700), symlink(filepath.Join("..", "far"), s.at("folder/near")))
	}
	linkRead := func(s *scene) bool { return shows(s.mark, s.at("link")) }
	return []attack{
		{"links", "read through a link to a file outside", file, linkRead, refused(read("{}/link"), read("{}/link/"), grep("{}/link"))},
		{"links", "read through a relative link to a file outside", relative, linkRead, refused(read("{}/link"))},
		{"links", "write through a link to a file outside", file,
			func(s *scene) bool { return os.WriteFile(s.at("link"), nil, 0o600) == nil }, refused(write("{}/link"), edit("{}/link", "SECRET"))},
		{"links", "make a file outside through a link to nothing", dangling,
			func(s *scene) bool { return os.WriteFile(s.at("link"), nil, 0o600) == nil }, refused(write("{}/link"))},
		{"links", "read below a link to a folder outside", folder,
			func(s *scene) bool { return shows(s.mark, s.at("link/secret.txt")) },
			refused(read("{}/link/secret.txt"), read("{}/link/folder/../secret.txt"), list("{}/link"), list("{}/link/"))},
		{"links", "write below a link to a folder outside", folder,
			func(s *scene) bool { return os.WriteFile(s.at("link/new.txt"), nil, 0o600) == nil },
			refused(write("{}/link/new.txt"), write("{}/link/secret.txt"), edit("{}/link/secret.txt", "SECRET"), move("{}/link/secret.txt", "{}/mine"))},
		{"links", "delete below a link to a folder outside", folder,
			func(s *scene) bool { return os.RemoveAll(s.at("link/folder")) == nil }, refused(remove("{}/link/folder"), remove("{}/link/secret.txt"))},
		{"links", "empty a folder outside by deleting the link to it", folder,
			func(s *scene) bool {
				found, _ := os.ReadDir(s.at("link"))
				for _, e := range found {
					_ = os.RemoveAll(s.at("link/" + e.Name()))
				}
				return !exists(s.out("secret.txt"))
			},
			func(s *scene) string { s.call(remove("{}/link").tool, remove("{}/link").args); return "" }},
		{"links", "leave by a chain of links", chain,
			func(s *scene) bool { return shows(s.mark, s.at("folder/near/secret.txt")) },
			refused(read("{}/folder/near/secret.txt"), write("{}/folder/near/new.txt"))},
		{"links", "find what is outside by walking", folder,
			func(s *scene) bool { return shows(s.mark, s.at("link/secret.txt")) },
			func(s *scene) string {
				for _, c := range []request{grep("{}"), locate("{}")} {
					r := s.send(c.tool, c.args)
					// The name of the link itself may be shown, nothing below it.
					if t := r.PlainText(); strings.Contains(t, s.mark) || strings.Contains(t, "link/secret") {
						return c.tool + " went through the link"
					}
				}
				return ""
			}},
		{"links", "write to a file outside through a second name of it",
			func(s *scene) error { return notHere(os.Link(s.out("secret.txt"), s.at("name"))) },
			func(s *scene) bool { return os.WriteFile(s.at("name"), nil, 0o600) == nil },
			func(s *scene) string {
				fault := ""
				for _, c := range []request{write("{}/name"), {"replace_block", arguments{"path": "{}/name", "old": s.mark, "new": "planted"}}} {
					if r := s.send(c.tool, c.args); !r.IsError { // its text may be shown: it has a name in the workspace
						fault = join(fault, c.tool+" was not refused")
					}
				}
				return fault
			}},
	}
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// races swap what a name means while it is used.
func races() []attack {
	lay := func(s *scene) error {
		return errors.Join(os.Mkdir(s.at("door"), 0o700), os.WriteFile(s.at("door/secret.txt"), []byte("inside\n"), 0o600), symlink(s.outside, s.at("way")))
	}
	return []attack{
		{"races", "read while a folder is swapped for a link", lay,
			func(s *scene) bool {
				return s.swapping(func() bool { // what is commonly done: look, then open
					p, err := filepath.EvalSymlinks(s.at("door/secret.txt"))
					return err == nil && strings.HasPrefix(p, s.inside+string(filepath.Separator)) && shows(s.mark, s.at("door/secret.txt"))
				}) > 0
			},
			func(s *scene) string {
				leaks := s.swapping(func() bool {
					r := s.send("read_open", arguments{"path": "{}/door/secret.txt"})
					return strings.Contains(r.PlainText(), s.mark)
				})
				if leaks > 0 {
					return fmt.Sprintf("%d answers showed the secret", leaks)
				}
				return ""
			}},
		{"races", "write while a folder is swapped for a link", lay,
			func(s *scene) bool {
				s.swapping(func() bool {
					p, err := filepath.EvalSymlinks(s.at("door"))
					if err == nil && strings.HasPrefix(p, s.inside) {
						_ = os.WriteFile(s.at("door/new.txt"), nil, 0o600)
					}
					return exists(s.out("new.txt"))
				})
				return exists(s.out("new.txt"))
			},
			func(s *scene) string {
				s.swapping(func() bool {
					s.call("write_file", arguments{"path": "{}/door/new.txt", "content": "planted", "overwrite": true})
					s.call("delete_path", arguments{"path": "{}/door/secret.txt"})
					return false
				})
				return ""
			}},
	}
}

// swapping calls f again and again while the folder "door" and the link "way"
// change places, and returns how often f was true. It ends early once that is
// certain.
func (s *scene) swapping(f func() bool) int {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(s.at("door"), s.at("aside"))
			_ = os.Rename(s.at("way"), s.at("door"))
			_ = os.Rename(s.at("door"), s.at("way"))
			_ = os.Rename(s.at("aside"), s.at("door"))
		}
	}()
	n := 0
	for end := time.Now().Add(s.race); time.Now().Before(end) && n < 10 && s.ctx.Err() == nil; {
		if f() {
			n++
		}
	}
	close(stop)
	<-ended
	return n
}

// special are files that are none.
func special() []attack {
	var list []attack
	if runtime.GOOS != "windows" {
		list = append(list, attack{"special files", "wait for ever on a pipe", func(s *scene) error { return notHere(pipe(s.at("pipe"))) }, nil,
			func(s *scene) string {
				return refused(read("{}/pipe"), write("{}/pipe"), edit("{}/pipe", "x"))(s)
			}})
	}
	return append(list, attack{"special files", "read a gigabyte of nothing at once",
		func(s *scene) error {
			f, err := os.Create(s.at("huge"))
			if err != nil {
				return err
			}
			return errors.Join(notHere(f.Truncate(1<<30)), f.Close())
		}, nil,
		func(s *scene) string {
			if r := s.call("read_open", arguments{"path": "{}/huge"}); len(r.PlainText()) > 1<<20 {
				return "the answer has more than a megabyte"
			}
			return refused(edit("{}/huge", "x"))(s)
		}})
}

// protected are files that run as programs later, and secrets.
func protected() []attack {
	folders := func(names ...string) func(*scene) error {
		return func(s *scene) error {
			for _, n := range names {
				if err := os.MkdirAll(s.at(n), 0o700); err != nil {
					return err
				}
			}
			return nil
		}
	}
	planted := func(names ...string) func(*scene) bool {
		return func(s *scene) bool {
			for _, n := range names {
				if os.WriteFile(s.at(n), nil, 0o600) != nil {
					return false
				}
			}
			return true
		}
	}
	env := func(s *scene) error { return os.WriteFile(s.at(".env"), []byte(s.mark+"\n"), 0o600) }
	return []attack{
		{"protected files", "plant a hook of git", folders(".git/hooks"), planted(".git/hooks/pre-commit"), refused(write("{}/.git/hooks/pre-commit"))},
		{"protected files", "plant a hook under a name in other letters", folders(".git/hooks"), planted(".git/hooks/pre-commit"),
			refused(write("{}/.GIT/hooks/pre-commit"), write("{}/.g\u200cit/hooks/pre-commit"), write("{}/.git./hooks/pre-commit"), write("{}/.GiT/config"))},
		{"protected files", "plant a hook by moving a folder", folders("staged/hooks"),
			func(s *scene) bool { return os.Rename(s.at("staged"), s.at(".git")) == nil },
			refused(move("{}/staged", "{}/.git"))},
		{"protected files", "plant settings that an editor or agent runs", folders(".vscode", ".claude"),
			planted(".vscode/tasks.json", ".claude/settings.json", ".envrc", ".mcp.json"),
			refused(write("{}/.vscode/tasks.json"), write("{}/.claude/settings.json"), write("{}/.envrc"), write("{}/.mcp.json"))},
		{"secrets", "read a secret file of the workspace", env, func(s *scene) bool { return shows(s.mark, s.at(".env")) },
			refused(read("{}/.env"), grep("{}/.env"), edit("{}/.env", "SECRET"), move("{}/.env", "{}/mine"), write("{}/.env"))},
		{"secrets", "find a secret by walking", env, func(s *scene) bool { return shows(s.mark, s.at(".env")) },
			func(s *scene) string {
				s.call("grep", arguments{"pattern": "SECRET.*", "path": "{}", "mode": "content"})
				return ""
			}},
		{"secrets", "read a secret under a name in other letters", env, func(s *scene) bool { return shows(s.mark, s.at(".ENV")) },
			refused(read("{}/.ENV"), read("{}/.Env"), read("{}/.env."), read("{}/.e\u200cnv"))},
		{"secrets", "read a secret through a link and a second name",
			func(s *scene) error {
				return errors.Join(env(s), symlink(".env", s.at("link")), notHere(os.Link(s.at(".env"), s.at("name"))))
			},
			func(s *scene) bool { return shows(s.mark, s.at("link")) }, refused(read("{}/link"), read("{}/name"), grep("{}/link"))},
	}
}

// bytesKept are edits after which only the edited bytes may have changed.
func bytesKept() []attack {
	type sample struct{ name, before, old, new, after string }
	samples := []sample{
		{"lf", "a\nb\nc", "b", "x", "a\nx\nc"},
		{"crlf", "a\r\nb\r\nc\r\n", "a\nb", "a\nx", "a\r\nx\r\nc\r\n"},
		{"mixed", "a\r\nb\nc\rd\f\u2028e", "b", "x", "a\r\nx\nc\rd\f\u2028e"},
		{"mark", "\ufeffa\nb\n", "b", "x", "\ufeffa\nx\n"},
		{"pattern", "a $& \\1\n", "a", "$& $1 \\0", "$& $1 \\0 $& \\1\n"},
	}
	return []attack{
		{"bytes", "change a byte that was not to be changed",
			func(s *scene) error {
				for _, x := range samples {
					if err := os.WriteFile(s.at(x.name), []byte(x.before), 0o640); err != nil {
						return err
					}
				}
				return nil
			},
			nil,
			func(s *scene) string {
				fault := ""
				for _, x := range samples {
					r := s.call("replace_block", arguments{"path": "{}/" + x.name, "old": x.old, "new": x.new})
					got, err := os.ReadFile(s.at(x.name))
					if r.IsError || err != nil || string(got) != x.after {
						fault = join(fault, fmt.Sprintf("%s became %q, not %q (%s)", x.name, got, x.after, r.Code))
					}
					if info, err := os.Stat(s.at(x.name)); err == nil && runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
						fault = join(fault, fmt.Sprintf("the mode of %s became %v", x.name, info.Mode()))
					}
				}
				return join(fault, s.leftovers())
			}},
		{"bytes", "lose a file by moving it onto itself or another",
			func(s *scene) error {
				return errors.Join(os.WriteFile(s.at("one"), []byte("one"), 0o600), os.WriteFile(s.at("two"), []byte("two"), 0o600))
			},
			func(s *scene) bool { return os.Rename(s.at("one"), s.at("two")) == nil },
			func(s *scene) string {
				fault := refused(move("{}/one", "{}/one"), move("{}/one", "{}/two"))(s)
				s.call("move_path", arguments{"from": "{}/one", "to": "{}/ONE"})
				one, err := os.ReadFile(s.at("ONE"))
				if two, _ := os.ReadFile(s.at("two")); err != nil || string(one) != "one" || string(two) != "two" {
					fault = join(fault, "a file was lost")
				}
				return join(fault, s.leftovers())
			}},
		{"bytes", "see half of a file while it is written",
			func(s *scene) error { return os.WriteFile(s.at("file"), bytes.Repeat([]byte("a"), 1<<20), 0o600) },
			func(s *scene) bool {
				return s.halves(func(fill string) { _ = os.WriteFile(s.at("file"), []byte(fill), 0o600) }) > 0
			},
			func(s *scene) string {
				n := s.halves(func(fill string) {
					s.send("write_file", arguments{"path": "{}/file", "content": fill, "overwrite": true})
				})
				if n > 0 {
					return fmt.Sprintf("%d readers saw half a file", n)
				}
				return s.leftovers()
			}},
	}
}

// halves has the file read while write fills it with one letter after the other,
// and counts what is not all of one letter.
func (s *scene) halves(write func(string)) (n int) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				write(strings.Repeat(string(rune('a'+i%2)), 1<<20))
			}
		}
	}()
	for end := time.Now().Add(s.race); time.Now().Before(end) && n < 10 && s.ctx.Err() == nil; {
		b, err := os.ReadFile(s.at("file"))
		if err == nil && (len(b) != 1<<20 || strings.Count(string(b), string(b[0])) != len(b)) {
			n++
		}
	}
	close(stop)
	<-ended
	return n
}

// leftovers says which temporary files of ours are left.
func (s *scene) leftovers() string {
	fault := ""
	_ = filepath.WalkDir(s.inside, func(p string, d fs.DirEntry, err error) error {
		if err == nil && workspace.IsTemp(d.Name()) {
			fault = join(fault, "a temporary file is left")
		}
		return nil
	})
	return fault
}

// guests are modules of strangers.
func guests() []attack {
	nothing := func(*scene) error { return nil }
	stopped := func(name string, codes ...tool.Code) func(*scene) string {
		return func(s *scene) string {
			r := s.call(name, arguments{})
			for _, c := range codes {
				if r.IsError && r.Code == c {
					return ""
				}
			}
			return fmt.Sprintf("it ended with %q", r.Code)
		}
	}
	return []attack{
		{"modules", "loop for ever", nothing, nil, stopped("loop_for_ever", tool.Timeout)},
		{"modules", "take all memory", nothing, nil, stopped("take_memory", tool.MemoryLimit, tool.Trap)},
		{"modules", "remember an earlier call", nothing, nil, func(s *scene) string {
			for range 3 {
				if r := s.call("remember", arguments{}); r.IsError || r.PlainText() != "1" {
					return fmt.Sprintf("it answered %q", r.PlainText())
				}
			}
			return ""
		}},
	}
}
