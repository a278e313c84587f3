package channel

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Folder is where the sockets of a user's runtimes stand, below the run folder.
func Folder(run string) string { return filepath.Join(run, "approvals") }

func parentOf(dir string) string { return filepath.Dir(filepath.Clean(dir)) }

// folder is the opened folder of the sockets.
type folder struct{ file *os.File }

func (f *folder) close() { f.file.Close() }

// maxSockets is how many names of the folder are looked at.
const maxSockets = 4096

// socketName names the socket of a runtime: PID.START-RANDOM.sock. The pid with
// its start time tells every other runtime whose it is, without asking.
func socketName(p Process) string {
	return fmt.Sprintf("%d.%d-%s.sock", p.PID, p.Start, strings.ToLower(rand.Text()))
}

// owner reads whose socket a name stands for.
func owner(name string) (Process, bool) {
	stem, ok := strings.CutSuffix(name, ".sock")
	id, _, dash := strings.Cut(stem, "-")
	pid, start, dot := strings.Cut(id, ".")
	n, err := strconv.Atoi(pid)
	s, err2 := strconv.ParseUint(start, 10, 64)
	if !ok || !dash || !dot || err != nil || err2 != nil || n <= 0 {
		return Process{}, false
	}
	return Process{PID: n, Start: s}, true
}

// sockets lists the names of the folder that are sockets of runtimes.
func (f *folder) sockets() ([]string, error) {
	d, err := os.Open(f.address("."))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var list []string
	for len(list) < maxSockets {
		names, err := d.Readdirnames(256)
		for _, name := range names {
			if _, ok := owner(name); ok {
				list = append(list, name)
			}
		}
		if err != nil {
			break
		}
	}
	return list, nil
}
