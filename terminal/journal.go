package terminal

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/terminal/output"
)

// A manager has a directory of its own below State:
//
//	lock      held as long as the manager's process lives
//	journal   a line for each start, end and, of what is beyond its spool, position
//	spool/    outputs
//	command/  what shells read: start-up files and commands, for moments
//	tmp/      /tmp of what runs in a sandbox
const (
	lockFile    = "lock"
	journalFile = "journal"
	spoolDir    = "spool"
	commandDir  = "command"
	tmpDir      = "tmp"
	instance    = "terminal-" // prefix of the directory's name
)

// entry is a line of the journal.
type entry struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Boot    string    `json:"boot,omitempty"`
	Pid     int       `json:"pid,omitempty"`
	Start   uint64    `json:"start,omitempty"` // see proctree.Process
	Command string    `json:"command,omitempty"`
	Profile string    `json:"profile,omitempty"`
	Size    int64     `json:"size,omitempty"`  // bytes of output so far
	Limit   int64     `json:"limit,omitempty"` // of the spool, if it is not SpoolBytes
	Ended   bool      `json:"ended,omitempty"`
}

type journal struct {
	mu   sync.Mutex
	path string
	f    *os.File
	lock *os.File
	size int64
	open map[string]entry // what has not ended
}

// journalBytes is from when on a journal is written anew with what has not ended.
const journalBytes = 1 << 20

// newInstance makes the directory of a manager.
func newInstance(state string) (string, *journal, error) {
	dir := filepath.Join(state, instance+random(12))
	for _, d := range []string{dir, filepath.Join(dir, spoolDir), filepath.Join(dir, commandDir), filepath.Join(dir, tmpDir)} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return "", nil, err
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	if !tryLock(lock) {
		lock.Close()
		return "", nil, errors.New("terminal: a fresh lock is taken")
	}
	f, err := os.OpenFile(filepath.Join(dir, journalFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		lock.Close()
		return "", nil, err
	}
	return dir, &journal{path: f.Name(), f: f, lock: lock, open: map[string]entry{}}, nil
}

// write appends an entry. A journal that cannot be written costs the recovery of
// a crash, and nothing else.
func (j *journal) write(e entry) {
	e.At = time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return
	}
	take(j.open, e)
	j.append(e)
	if j.size > journalBytes && int64(len(j.open)) < journalBytes/1024 {
		j.compact()
	}
}

func (j *journal) append(e entry) {
	b, err := json.Marshal(e)
	if err != nil {
		return
	}
	n, _ := j.f.Write(append(b, '\n'))
	j.size += int64(n)
}

// compact replaces the journal by one of what has not ended.
func (j *journal) compact() {
	f, err := os.OpenFile(j.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	before, size := j.f, j.size
	j.f, j.size = f, 0
	for _, id := range sortedKeys(j.open) {
		j.append(j.open[id])
	}
	if err := os.Rename(f.Name(), j.path); err != nil {
		j.f, j.size = before, size
		f.Close()
		return
	}
	before.Close()
}

func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return
	}
	j.f.Close()
	j.lock.Close()
	j.f = nil
}

// lost is what is left of something that ended with its server.
type lost struct {
	id, command string
	session     bool
	log         *output.Log // nil if there is no spool
	dir         string
	found       time.Time
}

func (l *lost) close() {
	if l.log != nil {
		l.log.Close()
		l.log = nil
	}
}

const (
	maxJournal   = 16 << 20 // bytes of one that are read
	maxInstances = 64       // directories that are looked at
)

// recoverLost looks for directories of managers whose processes are gone, ends
// what still runs of theirs, and gives the records back that had not ended.
func recoverLost(state string) map[string]*lost {
	found := map[string]*lost{}
	dirs, err := filepath.Glob(filepath.Join(state, instance+"*"))
	if err != nil {
		return found
	}
	for i, dir := range dirs {
		if i == maxInstances {
			break
		}
		recoverDir(dir, found)
	}
	return found
}

func recoverDir(dir string, found map[string]*lost) {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if err != nil {
		if info, serr := os.Stat(dir); serr == nil && time.Since(info.ModTime()) > keepFor {
			os.RemoveAll(dir)
		}
		return
	}
	defer lock.Close()
	if !tryLock(lock) {
		return // its server lives
	}
	open := readJournal(filepath.Join(dir, journalFile))
	tags := map[string]bool{}
	for id := range open {
		tags[id] = true
	}
	endLeft(open, tags)
	os.RemoveAll(filepath.Join(dir, commandDir))
	os.RemoveAll(filepath.Join(dir, tmpDir))
	info, err := os.Stat(filepath.Join(dir, journalFile))
	if err != nil || len(open) == 0 || time.Since(info.ModTime()) > keepFor {
		os.RemoveAll(dir)
		return
	}
	for id, e := range open {
		l := &lost{id: id, command: e.Command, session: strings.HasPrefix(id, "s-"), dir: dir, found: time.Now()}
		if f, err := os.Open(filepath.Join(dir, spoolDir, id)); err == nil {
			total, limit := e.Size, e.Limit
			if limit == 0 {
				limit = output.SpoolBytes
			}
			if info, err := f.Stat(); err == nil && (info.Size() < limit || total < limit) {
				total = info.Size()
			}
			if l.log, err = output.OpenSpool(f, limit, total); err != nil {
				f.Close()
				l.log = nil
			}
		}
		found[id] = l
	}
}

// readJournal gives the last entry of whatever has not ended.
func readJournal(path string) map[string]entry {
	open := map[string]entry{}
	f, err := os.Open(path)
	if err != nil {
		return open
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for read := 0; sc.Scan() && read < maxJournal; read += len(sc.Bytes()) {
		var e entry
		if json.Unmarshal(sc.Bytes(), &e) != nil || !validID(e.ID) {
			continue // the last line of a crash
		}
		take(open, e)
	}
	return open
}

// take brings what has not ended up to date.
func take(open map[string]entry, e entry) {
	if e.Ended {
		delete(open, e.ID)
		return
	}
	if old, ok := open[e.ID]; ok {
		old.Size, old.Limit = max(old.Size, e.Size), max(old.Limit, e.Limit)
		e = old
	}
	open[e.ID] = e
}
