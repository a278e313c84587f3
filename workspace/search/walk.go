package search

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// walker goes through a tree with some workers. It follows no link, enters no
// other file system, and skips what ignore rules exclude and the innards of
// version control. Its order is not defined.
type walker struct {
	ctx context.Context

	// choose says what the request thinks of a name, before the ignore rules do.
	choose func(path, name string, isDir bool) choice
	// enter says whether to go into a directory; nil: always.
	enter func(path string) bool
	// see is told every name that is left, by the worker that read it; false
	// leaves the name out after all.
	see func(w *worker, f *folder, e workspace.DirEntry, path string) bool
	// files is given the regular files that are left, some at a time; nil: no.
	files func(w *worker, f *folder, names []string)

	// report, if set, is told now and then how many names or files were seen. It
	// is called by walk itself, so never twice at once.
	report func(seen int64)
	seen   atomic.Int64

	mu      sync.Mutex
	wake    sync.Cond
	jobs    []job
	busy    int
	entries atomic.Int64
	full    atomic.Bool // too many names: the walk ended
	deep    atomic.Bool // something lies too deep: the walk went on without it
}

type choice uint8

const (
	undecided choice = iota // as the ignore rules say
	take                    // whatever the ignore rules say
	leave
)

// worker is what one goroutine of a walk owns.
type worker struct {
	*walker
	skipped workspace.Skipped
	scan    *scanner
	found   []found // by grep
	scanned int
	unsure  bool  // in some file more may match than was found
	top     *best // by locate
}

// job is a directory to be read (name in folder, or folder itself if name is
// empty), or files in folder to be looked into.
type job struct {
	folder *folder
	name   string
	files  []string
}

// walk runs until everything below start was seen, the context ended or a limit
// was hit. It takes over the reference to start.
func (wk *walker) walk(start *folder, prepare func(*worker)) []*worker {
	wk.wake.L = &wk.mu
	wk.jobs = append(wk.jobs, job{folder: start})
	workers := make([]*worker, min(goruntime.GOMAXPROCS(0), 8))
	var wg sync.WaitGroup
	for i := range workers {
		w := &worker{walker: wk}
		prepare(w)
		workers[i] = w
		wg.Go(w.run)
	}
	await(&wg, wk.report, &wk.seen)
	for _, j := range wk.jobs {
		j.folder.release()
	}
	return workers
}

// await waits for workers, and reports meanwhile what they have seen.
func await(wg *sync.WaitGroup, report func(int64), seen *atomic.Int64) {
	if report == nil {
		wg.Wait()
		return
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			report(seen.Load())
		}
	}
}

// ended is why something was not seen, "" if everything was.
func (wk *walker) ended() tool.Code {
	switch {
	case wk.ctx.Err() != nil:
		return tool.Timeout
	case wk.full.Load(), wk.deep.Load():
		return tool.TooLarge
	}
	return ""
}

// over reports whether the walk has to end.
func (wk *walker) over() bool { return wk.full.Load() || wk.ctx.Err() != nil }

func (w *worker) run() {
	for {
		w.mu.Lock()
		for len(w.jobs) == 0 && w.busy > 0 && w.ctx.Err() == nil {
			w.wake.Wait()
		}
		if len(w.jobs) == 0 || w.over() {
			w.mu.Unlock()
			w.wake.Broadcast()
			return
		}
		// The newest first: that is depth first, which keeps few directories open.
		j := w.jobs[len(w.jobs)-1]
		w.jobs = w.jobs[:len(w.jobs)-1]
		w.busy++
		w.mu.Unlock()

		if j.files != nil {
			w.files(w, j.folder, j.files)
		} else {
			w.dir(j)
		}
		j.folder.release()

		w.mu.Lock()
		w.busy--
		w.mu.Unlock()
		w.wake.Broadcast()
	}
}

func (w *worker) push(f *folder, jobs ...job) {
	if len(jobs) == 0 {
		return
	}
	for range jobs {
		f.hold()
	}
	w.mu.Lock()
	w.jobs = append(w.jobs, jobs...)
	w.mu.Unlock()
	w.wake.Broadcast()
}

func (w *worker) dir(j job) {
	f := j.folder
	if j.name != "" {
		var err error
		if f, err = j.folder.child(j.name); err != nil {
			w.skip(err)
			return
		}
		defer f.release()
		f.depth = j.folder.depth + 1
		f.scope = j.folder.scope
	}
	batch, err := f.entries()
	if err == nil && len(batch) > 0 {
		var next []workspace.DirEntry
		if next, err = f.entries(); err == nil && len(next) == 0 {
			names := make(map[string]bool, 4)
			for _, e := range batch {
				if e.Name[0] == '.' {
					names[e.Name] = true
				}
			}
			f.scope = f.scope.enter(f, names)
		} else {
			f.scope = f.scope.enter(f, nil)
			batch = append(batch, next...)
		}
	}
	for ; err == nil && len(batch) > 0 && !w.over(); batch, err = f.entries() {
		w.batch(f, batch)
	}
	if err != nil {
		w.skip(err)
	}
}

func (w *worker) batch(f *folder, batch []workspace.DirEntry) {
	if w.entries.Add(int64(len(batch))) > maxEntries {
		w.full.Store(true)
		return
	}
	if w.files == nil {
		w.seen.Add(int64(len(batch)))
	}
	var jobs []job
	var files []string
	for _, e := range batch {
		isDir := e.Type == workspace.Dir
		if isInnards(e.Name, isDir) {
			continue
		}
		path := join(f.path, e.Name)
		switch w.choose(path, e.Name, isDir) {
		case leave:
			continue
		case undecided:
			if f.scope.ignores(path, e.Name, isDir) {
				w.skipped.Ignored++
				continue
			}
		}
		if w.see != nil && !w.see(w, f, e, path) {
			continue
		}
		switch {
		case isDir && w.enter != nil && !w.enter(path):
		case isDir && f.depth >= maxDepth:
			w.deep.Store(true)
		case isDir:
			jobs = append(jobs, job{folder: f, name: e.Name})
		case e.Type == workspace.File && w.files != nil:
			if files = append(files, e.Name); len(files) == fileBatch {
				jobs = append(jobs, job{folder: f, files: files})
				files = nil
			}
		}
	}
	if len(files) > 0 {
		jobs = append(jobs, job{folder: f, files: files})
	}
	w.push(f, jobs...)
}

// isInnards reports whether a name belongs to version control itself. Such files
// hold no text of the project, and a search for a word would show its history
// first; who wants them names them.
func isInnards(name string, isDir bool) bool {
	switch name {
	case ".git":
		return true
	case ".hg", ".svn", ".jj":
		return isDir
	}
	return false
}

// skip counts what could not be looked at, by reason.
func (w *worker) skip(err error) {
	var denied deniedError
	if errors.As(err, &denied) {
		w.skipped.Refused(err)
		return
	}
	switch tool.CodeOf(err) {
	case tool.NotFound: // gone since its name was read
	case tool.OutsideRoot:
		w.skipped.OtherFS++
	default:
		w.skipped.Unreadable++
	}
}

func addSkipped(a *workspace.Skipped, b workspace.Skipped) {
	a.Ignored += b.Ignored
	a.Unreadable += b.Unreadable
	a.OtherFS += b.OtherFS
	a.TooLarge += b.TooLarge
	a.Binary += b.Binary
	a.Denied += b.Denied
	a.Protected += b.Protected
}
