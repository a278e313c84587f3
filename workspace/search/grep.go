package search

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// found is one file with a match.
type found struct {
	path   string
	mtime  int64
	hits   int
	more   bool // hits is a lower bound
	binary bool
}

// grep is one request, checked.
type grep struct {
	req           Request
	pat           *pattern
	globs         *globs
	aim           aim
	limit, offset int
	context       int
}

func newGrep(req Request) (*grep, error) {
	g := &grep{req: req}
	switch req.Mode {
	case "", "files":
		g.aim = aimFirst
	case "content":
		g.aim = aimLines
	case "count":
		g.aim = aimMatches
	default:
		return nil, tool.Errorf(tool.InvalidArguments, "mode is %q", req.Mode).WithNext("use files, content or count")
	}
	var err error
	if g.pat, err = compile(req.Pattern, req.Literal, req.IgnoreCase, req.Multiline); err != nil {
		return nil, err
	}
	if g.globs, err = parseGlobs(req.Glob); err != nil {
		return nil, err
	}
	if g.limit, err = bounded("limit", req.Limit, defaultLimit, 1, maxLimit); err != nil {
		return nil, err
	}
	if g.offset, err = bounded("offset", req.Offset, 0, 0, math.MaxInt32); err != nil {
		return nil, err
	}
	g.context, err = bounded("context", req.Context, 0, 0, maxContext)
	return g, err
}

func runGrep(ctx context.Context, o *workspace.Overlay, req Request) (Response, error) {
	g, err := newGrep(req)
	if err != nil {
		return Response{}, err
	}
	at, err := start(ctx, o, req.Path)
	if err != nil {
		return Response{}, err
	}
	t := newTree(ctx, o)
	soon, cancel := most(ctx)
	defer cancel()
	var res Response
	var hits []found
	if at.Type == workspace.File {
		hits, err = g.file(soon, t, at, &res)
	} else {
		hits, err = g.below(soon, t, at.Path, &res)
	}
	if err != nil {
		return Response{}, err
	}
	g.answer(ctx, t, hits, &res)
	return res, nil
}

// file searches the one file that the request names, ignored or not.
func (g *grep) file(ctx context.Context, t *tree, at workspace.Info, res *Response) ([]found, error) {
	dir, name := split(at.Path)
	f, err := t.walkTo(dir, func(*folder) {})
	if err != nil {
		return nil, named(g.req.Path, err)
	}
	defer f.release()
	var one found
	var sum tally
	var wg sync.WaitGroup
	wg.Go(func() { one, sum, err = g.look(ctx, newScanner(g.pat), f, name, true) })
	await(&wg, reporter(ctx), new(atomic.Int64))
	if err != nil && !isContext(err) {
		return nil, named(g.req.Path, err)
	}
	res.AtLeast = err != nil || sum.more
	if err != nil {
		res.Ended = tool.Timeout
	}
	if sum.tooLarge {
		return nil, tool.PathErrorf(tool.TooLarge, g.req.Path, "too large to be searched as one text").
			WithNext("search it without multiline")
	}
	res.Scanned++
	if sum.binary {
		res.Skipped.Binary++
	}
	if sum.hits == 0 {
		return nil, nil
	}
	return []found{one}, nil
}

// named turns the error about a path that the request named into the caller's.
func named(path string, err error) error {
	var denied deniedError
	if errors.As(err, &denied) {
		return denied.error
	}
	var e *tool.Error
	if errors.As(err, &e) {
		again := *e
		again.Path = path
		return &again
	}
	return tool.PathErrorf(tool.Internal, path, "the file could not be read").Because(err)
}

func isContext(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// look searches one file.
func (g *grep) look(ctx context.Context, s *scanner, f *folder, name string, isNamed bool) (found, tally, error) {
	file, in, err := f.open(name)
	if err != nil {
		return found{}, tally{}, err
	}
	defer file.Close()
	sum, err := s.scan(ctx, file, in.Size, isNamed, g.aim, nil)
	return found{path: in.Path, mtime: in.MTime, hits: sum.hits, more: sum.more, binary: sum.binary && isNamed}, sum, err
}

// below searches all files below a directory.
func (g *grep) below(ctx context.Context, t *tree, dir string, res *Response) ([]found, error) {
	f, err := t.walkTo(dir, func(f *folder) { f.scope = f.scope.enter(f, nil) })
	if err != nil {
		return nil, named(g.req.Path, err)
	}
	wk := &walker{ctx: ctx, choose: g.globs.choose, files: g.files, report: reporter(ctx)}
	workers := wk.walk(f, func(w *worker) { w.scan = newScanner(g.pat) })
	var hits []found
	for _, w := range workers {
		hits = append(hits, w.found...)
		res.Scanned += w.scanned
		addSkipped(&res.Skipped, w.skipped)
		res.AtLeast = res.AtLeast || w.unsure
	}
	res.Ended = wk.ended()
	res.AtLeast = res.AtLeast || res.Ended != ""
	return hits, nil
}

func (g *grep) files(w *worker, f *folder, names []string) {
	for _, name := range names {
		if w.ctx.Err() != nil {
			return
		}
		w.seen.Add(1)
		one, sum, err := g.look(w.ctx, w.scan, f, name, false)
		switch {
		case err != nil:
			if !isContext(err) {
				w.skip(err)
			}
			continue
		case sum.binary:
			w.skipped.Binary++
		case sum.tooLarge:
			w.skipped.TooLarge++
		}
		w.scanned++
		w.unsure = w.unsure || sum.more
		if sum.hits > 0 {
			w.found = append(w.found, one)
		}
	}
}

// answer makes the page that was asked for.
func (g *grep) answer(ctx context.Context, t *tree, hits []found, res *Response) {
	byPath := func(a, b found) int { return strings.Compare(a.path, b.path) }
	if g.aim == aimFirst {
		slices.SortFunc(hits, func(a, b found) int {
			return cmp.Or(cmp.Compare(b.mtime, a.mtime), byPath(a, b))
		})
	} else {
		slices.SortFunc(hits, byPath)
	}
	res.TotalFiles = len(hits)
	for _, h := range hits {
		res.Total += h.hits
		res.AtLeast = res.AtLeast || h.more
	}
	if g.aim == aimLines {
		g.show(ctx, t, hits, res)
		return
	}
	from := min(g.offset, len(hits))
	to := min(from+g.limit, len(hits))
	for _, h := range hits[from:to] {
		path, escaped := workspace.ShownPath(h.path)
		one := FileHit{Path: path, Escaped: escaped, MTime: h.mtime, Binary: h.binary}
		if g.aim == aimMatches {
			one.Count = h.hits
		}
		res.Files = append(res.Files, one)
	}
	if to < len(hits) {
		res.NextOffset = to
	}
}

// show reads the files of the page again, for their lines. Whatever changed
// since they were counted is shown as it is now.
func (g *grep) show(ctx context.Context, t *tree, hits []found, res *Response) {
	s := newScanner(g.pat)
	before := 0 // matching lines of the files before this one
	last := g.offset + g.limit
	for _, h := range hits {
		from, to := max(0, g.offset-before), min(h.hits, last-before)
		before += h.hits
		if from >= to {
			continue
		}
		path, escaped := workspace.ShownPath(h.path)
		if h.binary {
			res.Files = append(res.Files, FileHit{Path: path, Escaped: escaped, MTime: h.mtime, Count: h.hits, Binary: true})
			continue
		}
		p := newPage(path, g.context, from, to)
		if err := g.lines(ctx, t, s, h.path, p); err != nil && len(p.lines) == 0 {
			res.AtLeast = true
		}
		for i := range p.lines {
			p.lines[i].Escaped = escaped
		}
		res.Lines = append(res.Lines, p.lines...)
	}
	if last < before {
		res.NextOffset = last
	}
}

func (g *grep) lines(ctx context.Context, t *tree, s *scanner, path string, p *page) error {
	dir, name := split(path)
	f, err := t.walkTo(dir, func(*folder) {})
	if err != nil {
		return err
	}
	defer f.release()
	file, in, err := f.open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = s.scan(ctx, file, in.Size, false, aimShow, p)
	return err
}
