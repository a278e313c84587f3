// Package search finds files by their names and by what is in them: one walker
// below the guest function "search", for locate and for grep.
//
// A search goes where a person reading the project would: ignore files decide,
// the innards of version control are left out, links are told and never
// followed. What a request names is searched even if it is ignored. Every name
// shown and every file opened is first put to the overlay's guard, and the
// overlay's pending changes count as done. Patterns are RE2; lines come out as
// ripgrep --no-unicode gives them, with the exceptions that docs/search.md
// lists.
//
// What it does not do: it is no snapshot. Files that change during a search are
// found in their old or their new state, and pages of one search see the tree
// as it is when each is asked for.
package search

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// Run answers one request. The end of the context's deadline ends the search
// early, with what was found and AtLeast set; cancellation is an error. Other
// errors are [tool.Error] values about the request: a pattern that is none, a
// path that does not exist or that the guard refuses. To find nothing is none.
//
// Run reads the overlay from several goroutines, so nothing else may use it
// meanwhile, and its guard must be safe for concurrent use.
func Run(ctx context.Context, o *workspace.Overlay, req Request) (Response, error) {
	if err := live(ctx); err != nil {
		return Response{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	var res Response
	var err error
	switch req.Kind {
	case "grep":
		res, err = runGrep(ctx, o, req)
	case "locate":
		res, err = runLocate(ctx, o, req)
	default:
		err = tool.Errorf(tool.InvalidArguments, "kind is %q", req.Kind).WithNext("use grep or locate")
	}
	if err == nil {
		err = live(ctx)
	}
	if err != nil {
		return Response{}, err
	}
	return res, nil
}

type reportKey struct{}

// WithProgress gives a context in which [Run] tells report, every 250
// milliseconds while it walks, how many files a grep has looked into or how many
// names a locate has seen. Run calls it from its own goroutine and waits for it.
func WithProgress(ctx context.Context, report func(seen int64)) context.Context {
	return context.WithValue(ctx, reportKey{}, report)
}

func reporter(ctx context.Context) func(int64) {
	report, _ := ctx.Value(reportKey{}).(func(int64))
	return report
}

// live gives an error if the caller withdrew. A deadline is none.
func live(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return (&tool.Error{Code: tool.Cancelled}).Because(context.Cause(ctx))
	}
	return nil
}

// most gives a context that ends a little before ctx does, so that what was
// found can still be shown.
func most(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	left := time.Until(end)
	return context.WithDeadline(ctx, end.Add(-left/8))
}

// start finds where a search begins. "" and "/" mean the root. A link that leads
// out of the workspace, or nowhere, is refused as opening it would be.
func start(ctx context.Context, o *workspace.Overlay, path string) (workspace.Info, error) {
	if path == "" || path == "/" {
		path = "."
	}
	in, err := o.Stat(ctx, path)
	if err != nil || in.Type == workspace.File || in.Type == workspace.Dir {
		return in, err
	}
	if _, err = o.ReadAt(ctx, path, make([]byte, 1), 0); err == nil || err == io.EOF {
		err = tool.PathErrorf(tool.Busy, path, "the path changed while it was opened").WithNext("try again")
	}
	return workspace.Info{}, err
}

// bounded checks a number of the request; 0 stands for its default.
func bounded(name string, n, def, least, most int) (int, error) {
	if n == 0 {
		return def, nil
	}
	if n < least || n > most {
		return 0, tool.Errorf(tool.InvalidArguments, "%s is %d; it must be %d to %d", name, n, least, most).
			WithNext("choose a number in that range")
	}
	return n, nil
}
