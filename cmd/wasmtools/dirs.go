package main

import (
	"os"
	"path/filepath"

	"github.com/adrg/xdg"
)

// dirs are the folders that wasmtools owns: below WASMTOOLS_HOME if that is
// set, else where the XDG rules say.
type dirs struct {
	config string // what a person sets down
	data   string // what is kept for good
	state  string // keys, locks, rules that were saved
	cache  string // what can be made again
	run    string // sockets of what runs
}

func userDirs() dirs {
	if home := os.Getenv("WASMTOOLS_HOME"); home != "" {
		in := func(name string) string { return filepath.Join(home, name) }
		return dirs{config: in("config"), data: in("data"), state: in("state"), cache: in("cache"), run: in("run")}
	}
	in := func(dir string) string { return filepath.Join(dir, "wasmtools") }
	d := dirs{config: in(xdg.ConfigHome), data: in(xdg.DataHome), state: in(xdg.StateHome), cache: in(xdg.CacheHome), run: in(xdg.RuntimeDir)}
	if _, err := os.Stat(xdg.RuntimeDir); err != nil {
		d.run = filepath.Join(d.state, "run") // in containers, and after su, the system makes none
	}
	return d
}

// private are all of them: no tool may see what is in there.
func (d dirs) private() []string { return []string{d.config, d.data, d.state, d.cache, d.run} }
