package wasmtools

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime"
	"github.com/wasmtools/wasmtools/skill"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// skillReader is a built-in tool that reads files. A path skill:NAME/PATH is
// resolved here: the guest gets the folder of that skill, to read only, in place of
// the workspace.
type skillReader struct {
	tool.Tool
	core   runtime.Module
	skills *skill.Set
}

// Call implements [tool.Tool].
func (r skillReader) Call(ctx context.Context, inv tool.Invocation, s tool.Sink) (tool.Result, error) {
	name, rest, members := skillIn(inv.Arguments)
	if name == "" {
		return r.Tool.Call(ctx, inv, s)
	}
	x, ok := r.skills.Find(name)
	if !ok {
		return tool.ErrorResult(tool.Errorf(tool.NotFound, "there is no skill %s", tool.QuotePath(name)).WithNext("call skill without a name for all names")), nil
	}
	files, err := x.Files()
	if err != nil {
		return tool.ErrorResult(err), nil
	}
	if r.Definition().Name == "grep" && !isFile(ctx, files, rest) {
		return tool.ErrorResult(tool.Errorf(tool.InvalidArguments, "%s is no file of the skill", tool.QuotePath(skill.Scheme+name+"/"+rest)).
			WithNext("grep one file of a skill at a time; the skill's text names them")), nil
	}
	members["path"], _ = json.Marshal(rest)
	if inv.Arguments, err = json.Marshal(members); err != nil {
		return tool.ErrorResult(err), nil
	}
	list := runtime.Tools(r.core, runtime.ToolOptions{
		Source: tool.Builtin, Workspace: files,
		Grant: func(string) hostfuncs.Grant { return manifest.Capabilities{Read: []string{"**"}} },
	})
	want := r.Tool.Definition().Name
	res, err := list[slices.IndexFunc(list, func(t tool.Tool) bool { return t.Definition().Name == want })].Call(ctx, inv, s)
	return atSkill(res, rest, skill.Scheme+name+"/"), err
}

func isFile(ctx context.Context, w *workspace.Workspace, path string) bool {
	o := w.Overlay(workspace.OverlayOptions{ReadOnly: true})
	defer o.Close()
	info, err := o.Stat(ctx, path)
	return err == nil && info.Type == workspace.File
}

// skillIn is the skill and the path in it that the path of some arguments means,
// and the arguments; "" if it means none.
func skillIn(args json.RawMessage) (name, rest string, members map[string]json.RawMessage) {
	if !bytes.Contains(args, []byte(skill.Scheme)) && !bytes.Contains(args, []byte(`\`)) {
		return "", "", nil
	}
	var path string
	if json.Unmarshal(args, &members) != nil || json.Unmarshal(members["path"], &path) != nil {
		return "", "", nil
	}
	path, ok := strings.CutPrefix(path, skill.Scheme)
	if !ok {
		return "", "", nil
	}
	name, rest, _ = strings.Cut(path, "/")
	if rest == "" {
		rest = skill.FileName
	}
	return name, rest, members
}

// atSkill names the file in the result as the caller named it: where the result
// says which file it is of, and at the beginning of grep's lines.
func atSkill(r tool.Result, rest, prefix string) tool.Result {
	r.Content = slices.Clone(r.Content)
	for i, c := range r.Content {
		if c.Kind != tool.KindText {
			continue
		}
		lines := strings.SplitAfter(c.Text, "\n")
		for j, l := range lines {
			if after, ok := strings.CutPrefix(l, rest); ok && (strings.HasPrefix(after, ":") || strings.HasPrefix(after, "-") || after == "\n") {
				lines[j] = prefix + l
			}
		}
		r.Content[i].Text = strings.Join(lines, "")
	}
	if r.Details["path"] == rest {
		r.Details["path"] = prefix + rest
	}
	return r
}
