package wasmtools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/budget"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// archive keeps the outputs of one workspace that are too large to be shown, and
// gives them to the tools that open and search files. Nothing on the disk is
// touched before it is used. A nil archive keeps nothing. It is safe for
// concurrent use.
type archive struct {
	store  *artifact.Store
	core   runtime.Module
	hidden func() []string // values that may not be kept

	mu    sync.Mutex
	files *workspace.Workspace // over the contents of the store; nil until one is read
	diffs map[string]string    // handles of diffs that were kept, by ticket
}

func (o Options) archive(core runtime.Module, files *workspace.Workspace) *archive {
	if o.StateDir == "" {
		return nil
	}
	a := &archive{store: artifact.Open(artifact.Dir(o.StateDir, files.RealPath()), o.Artifacts), core: core, hidden: o.Hidden}
	if a.hidden == nil {
		a.hidden = func() []string { return nil }
	}
	return a
}

func (a *archive) close() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.store.Close()
	if a.files != nil {
		err = errors.Join(err, a.files.Close())
		a.files = nil
	}
	return err
}

// put stores what r gives, without its secrets, and says whether there were any.
func (a *archive) put(scope artifact.Scope, about tool.ArtifactInfo, r io.Reader) (ref tool.ArtifactRef, redacted bool, err error) {
	if a == nil {
		return ref, false, tool.Errorf(tool.NotAvailable, "no artifact store is open")
	}
	clean := evidence.Clean(r, a.hidden())
	ref, err = a.store.Put(scope, about, clean)
	return ref, clean.Hidden(), err
}

// contents is the folder of the store as a workspace of its own: what opens and
// searches files is as bounded there as everywhere.
func (a *archive) contents() (*workspace.Workspace, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.files == nil {
		w, err := workspace.Open(a.store.Contents(), workspace.Options{})
		if err != nil {
			return nil, tool.Errorf(tool.NotAvailable, "the artifacts cannot be read").Because(err)
		}
		a.files = w
	}
	return a.files, nil
}

// archivingSink keeps what a call gives as an artifact.
type archivingSink struct {
	tool.Sink
	archive *archive
	scope   artifact.Scope
}

func (s archivingSink) Artifact(i tool.ArtifactInfo, r io.Reader) (tool.ArtifactRef, error) {
	ref, _, err := s.archive.put(s.scope, i, r)
	return ref, err
}

// readers are the tools that take artifact:<handle> as a path.
var readers = []string{"read_open", "grep"}

// archiveReader is a built-in tool that reads files. A path that is a handle is
// resolved here, before anything looks for a file of that name: the guest gets
// the one file that the handle stands for, in place of the workspace, and its
// answer names the handle.
type archiveReader struct {
	tool.Tool
	archive *archive
}

// Call implements [tool.Tool].
func (r archiveReader) Call(ctx context.Context, inv tool.Invocation, s tool.Sink) (tool.Result, error) {
	handle, members := handleIn(inv.Arguments)
	if handle == "" {
		return r.Tool.Call(ctx, inv, s)
	}
	for try := 0; ; try++ {
		res, same, err := r.read(ctx, inv, handle, members, s)
		switch {
		case err != nil:
			return tool.ErrorResult(err), nil
		case same:
			return res, nil
		case try == maxReread:
			return tool.ErrorResult(tool.Errorf(tool.Busy, "the content of the artifact %s changes while it is read", handle).
				WithNext("try again in some seconds")), nil
		}
	}
}

// maxReread bounds how often a file is read again because another process stored
// the same content in its place meanwhile.
const maxReread = 3

// read lets the tool read what the handle stands for. It is not the same if the
// guest may have read another file than the one that was verified.
func (r archiveReader) read(ctx context.Context, inv tool.Invocation, handle string, members map[string]json.RawMessage, s tool.Sink) (res tool.Result, same bool, err error) {
	if r.archive == nil {
		return res, false, artifact.NotFound()
	}
	f, err := r.archive.store.Open(inv.Session, handle)
	if err != nil {
		return res, false, err
	}
	defer f.Close()
	files, err := r.archive.contents()
	if err != nil {
		return res, false, err
	}
	members["path"], _ = json.Marshal(f.Name())
	if inv.Arguments, err = json.Marshal(members); err != nil {
		return res, false, err
	}
	if res, err = r.over(files, f.Name()).Call(ctx, inv, s); err != nil {
		return res, false, err
	}
	again, err := r.archive.store.Open(inv.Session, handle)
	if err != nil {
		return res, false, err
	}
	defer again.Close()
	return renamed(res, f.Name(), budget.Scheme+handle), f.Same(again), nil
}

// over is the tool with one file in place of the workspace.
func (r archiveReader) over(files *workspace.Workspace, name string) tool.Tool {
	list := runtime.Tools(r.archive.core, runtime.ToolOptions{
		Source: tool.Builtin, Workspace: files,
		Grant: func(string) hostfuncs.Grant { return manifest.Capabilities{Read: []string{name}} },
	})
	want := r.Tool.Definition().Name
	return list[slices.IndexFunc(list, func(t tool.Tool) bool { return t.Definition().Name == want })]
}

// handleIn is the handle that the path of some arguments is, and the arguments;
// "" if it is none.
func handleIn(args json.RawMessage) (string, map[string]json.RawMessage) {
	if !bytes.Contains(args, []byte(budget.Scheme)) && !bytes.Contains(args, []byte(`\`)) {
		return "", nil
	}
	var members map[string]json.RawMessage
	var path string
	if json.Unmarshal(args, &members) != nil || json.Unmarshal(members["path"], &path) != nil {
		return "", nil // no path, which the tool's schema allows or not
	}
	handle, ok := strings.CutPrefix(path, budget.Scheme)
	if !ok || !artifact.ValidHandle(handle) {
		return "", nil
	}
	return handle, members
}

// renamed is a result with another name for a file, wherever it is named. The
// old name has a digest, which nothing else in the result holds by chance.
func renamed(r tool.Result, from, to string) tool.Result {
	r.Content = slices.Clone(r.Content)
	for i := range r.Content {
		r.Content[i].Text = strings.ReplaceAll(r.Content[i].Text, from, to)
	}
	r.Structured = bytes.ReplaceAll(r.Structured, []byte(from), []byte(to))
	if r.Details != nil {
		r.Details = renamedValue(r.Details, from, to).(map[string]any)
	}
	if r.Usage != nil {
		u := *r.Usage
		u.Paths = slices.Clone(u.Paths)
		for i, p := range u.Paths {
			if p == from {
				u.Paths[i] = to
			}
		}
		r.Usage = &u
	}
	return r
}

func renamedValue(v any, from, to string) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, from, to)
	case json.RawMessage:
		return json.RawMessage(bytes.ReplaceAll(v, []byte(from), []byte(to)))
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = renamedValue(x, from, to)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = renamedValue(x, from, to)
		}
		return out
	}
	return v
}
