package wasmtools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/budget"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

// bounded is the result as it is shown: what is too long is kept as an artifact,
// and receipts stand in its place.
func (t *Turn) bounded(p *prepared, r tool.Result) tool.Result {
	call := budget.Call{Tool: p.def.Name, Arguments: p.inv.Arguments, Readable: t.reads()}
	if t.space.archive != nil {
		call.Keeper = keeper{t.space.archive, t.scope(p), p.rec}
	}
	r, err := budget.Bound(t.rt.gates().For(p.def.Name).Under(p.ceiling), call, r)
	if err != nil { // may name folders of the host
		t.rt.notice(fmt.Sprintf("the result of %s could not be kept: %v", p.def.Name, err))
	}
	return r
}

// keeper stores parts of a call's result and notes them in its record.
type keeper struct {
	archive *archive
	scope   artifact.Scope
	rec     *record
}

// Keep implements [budget.Keeper].
func (k keeper) Keep(about tool.ArtifactInfo, text string) (budget.Kept, error) {
	ref, redacted, err := k.archive.put(k.scope, about, strings.NewReader(text))
	if err != nil {
		return budget.Kept{}, err
	}
	k.rec.kept(about, ref)
	return budget.Kept{ArtifactRef: ref, Redacted: redacted}, nil
}

func (t *Turn) scope(p *prepared) artifact.Scope {
	return artifact.Scope{Session: t.rt.session, Call: p.inv.CallID, Tool: p.def.Name}
}

// reads reports whether the turn's list has a tool that opens artifacts.
func (t *Turn) reads() bool {
	it, ok := t.list.Lookup(readers[0])
	if !ok || it.State != catalog.Exposed {
		return false
	}
	_, ok = it.Tool.(archiveReader)
	return ok
}

// OpenArtifact opens what a receipt of this session names, by its handle without
// the scheme. It is not_found for any other handle, lost if its content is not
// there any more. The caller closes it.
func (t *Turn) OpenArtifact(handle string) (*artifact.File, error) {
	if t.space.archive == nil {
		return nil, artifact.NotFound()
	}
	return t.space.archive.store.Open(t.rt.session, handle)
}

// Compact says which results of a conversation receipts can stand for, see
// [budget.Compact]; their texts are kept for this session. It is nothing where
// the turn's tools read no artifacts, or none can be kept.
func (t *Turn) Compact(rounds []budget.Round) ([]budget.Change, error) {
	if t.space.archive == nil || !t.reads() {
		return nil, nil
	}
	return budget.Compact(rounds, keeper{t.space.archive, artifact.Scope{Session: t.rt.session}, t.emptyRecord()})
}

// admitted is the definitions as a model is shown them: their output schemas
// allow receipts in place of what is too long. The list keeps them as they are.
func admitted(defs []tool.Definition) []tool.Definition {
	defs = slices.Clone(defs)
	for i := range defs {
		defs[i].Output = budget.Admit(defs[i].Output)
	}
	return defs
}

// wholeDiff keeps the diff of a call that waits, of which the answer shows the
// beginning only, and returns how to read it: "" if it cannot be kept, or not
// read. A call that is repeated while it waits gets the same artifact.
func (t *Turn) wholeDiff(p *prepared, ticket *approval.Ticket) string {
	a, r := t.space.archive, ticket.Request()
	if a == nil || !t.reads() {
		return ""
	}
	a.mu.Lock()
	handle := a.diffs[r.Ticket]
	a.mu.Unlock()
	if handle == "" {
		about := tool.ArtifactInfo{Title: "the diff of " + p.def.Name, MIMEType: "text/x-diff; charset=utf-8", Sensitive: r.Preview.Result.Sensitive}
		ref, _, err := a.put(t.scope(p), about, strings.NewReader(r.Preview.Diff))
		if err != nil {
			return "" // a person sees it all the same
		}
		ticketRecord(ticket).kept(about, ref)
		handle = ref.Handle
		a.mu.Lock()
		if a.diffs == nil || len(a.diffs) >= maxDiffs {
			a.diffs = map[string]string{}
		}
		a.diffs[r.Ticket] = handle
		a.mu.Unlock()
	}
	return budget.Scheme + handle
}

// maxDiffs is of how many tickets it is remembered that their diff was kept.
const maxDiffs = 256
