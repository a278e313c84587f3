package wasmtools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/approval/shell"
	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/budget"
	"github.com/wasmtools/wasmtools/tool"
)

// prepared is a frozen call: ready to act, or ended already.
type prepared struct {
	tool    tool.Tool
	def     tool.Definition
	inv     tool.Invocation
	sink    tool.Sink
	preview tool.Preview
	commit  bool // the effects are in preview.Writes

	approver approval.Approver // of this call only; may be nil
	patience time.Duration
	ceiling  budget.Gate // of the surface

	ended  bool // result is the answer, nothing is left to do
	result tool.Result
	ticket string

	// standing: a mode or a rule allowed the call, see [approval.Decision].
	standing bool
	// allowed are the protected paths that the yes covers.
	allowed []tool.ProtectedPath

	rec *record
}

func (p *prepared) end(r tool.Result) *prepared {
	p.ended, p.result = true, r
	return p
}

func (p *prepared) fail(err error) *prepared { return p.end(tool.ErrorResult(err)) }

// prepare takes a call as far as it goes without effects: arguments, freezing,
// the intent in the record, preview and approval.
func (t *Turn) prepare(ctx context.Context, tg *target) (p *prepared) {
	p = t.enter(ctx, tg)
	defer func() {
		if v := recover(); v != nil {
			p.fail(panicked(p.def.Name, v))
		}
	}()
	if p.ended {
		return p
	}
	// One ticket is one record: a call that repeats a waiting one has none of its
	// own, unless the ticket turns out to be of no use to it.
	if _, waits := t.rt.desk.Equal(t.request(p)); !waits {
		if err := p.rec.begin(); err != nil {
			return p.fail(err)
		}
	}
	p.sink = p.rec.watch(p.sink)
	return t.judge(ctx, p)
}

// enter freezes a call that has a record of its own, under the lists of paths as
// they are now.
func (t *Turn) enter(ctx context.Context, tg *target) *prepared {
	p := t.freeze(tg, t.newRecord(tg.req, tg.item.Definition, tg.item.Tool.Origin()))
	if p.ended {
		return p
	}
	if err := ctx.Err(); err != nil {
		return p.fail(err)
	}
	if err := t.space.tighten(); err != nil {
		return p.fail(err)
	}
	return p
}

// tighten adds what was added to the lists of secret and protected paths.
func (s *space) tighten() error {
	if s.lists == nil {
		return nil
	}
	if err := s.files.Tighten(s.lists()); err != nil {
		return tool.Errorf(tool.Internal, "the lists of secret and protected paths cannot be used").
			WithNext("tell the user that a glob of the configuration is faulty (wasmtools config check)").Because(err)
	}
	return nil
}

// freeze checks a call's arguments and fixes what the call is.
func (t *Turn) freeze(tg *target, rec *record) (p *prepared) {
	p = &prepared{tool: tg.item.Tool, def: tg.item.Definition, sink: tg.req.Sink, approver: tg.req.Approver, patience: tg.req.Patience, ceiling: tg.req.Ceiling, rec: rec}
	if a := t.space.archive; a != nil {
		p.sink = archivingSink{p.sink, a, artifact.Scope{Session: t.rt.session, Call: tg.req.CallID, Tool: p.def.Name}}
	}
	defer func() {
		if v := recover(); v != nil {
			p.fail(panicked(p.def.Name, v))
		}
	}()
	args := tg.args
	if pr, ok := p.tool.(tool.Preparer); ok {
		folded, err := pr.PrepareArguments(args)
		if err != nil {
			return p.fail(err)
		}
		args = folded
	}
	check, err := t.space.checker(p.def)
	if err != nil {
		return p.fail(err)
	}
	args, input, err := check.freeze(p.def.Name, args)
	if err != nil {
		return p.fail(err)
	}
	p.inv = tool.Invocation{
		CallID: tg.req.CallID, TurnID: t.id, Session: t.rt.session,
		Tool: p.def.Name, Arguments: args, Input: input,
	}
	rec.froze(p.inv)
	return p
}

// request is what identifies p at the desk.
func (t *Turn) request(p *prepared) approval.Request {
	o := p.tool.Origin()
	return approval.Request{
		CallID: p.inv.CallID, Session: p.inv.Session, Tool: p.inv.Tool,
		Source: o.Source, Module: o.Module, Input: p.inv.Input, Effects: p.effects(),
		Workspace: t.space.name, Root: t.space.files.RealPath(), Arguments: p.inv.Arguments,
	}
}

// judge finds out what p would do and whether it may.
func (t *Turn) judge(ctx context.Context, p *prepared) *prepared {
	rules := t.space.policy()
	v := t.weigh(ctx, rules, p)
	if p.ended {
		return p
	}
	p.rec.judged(v)
	switch v.Decision {
	case policy.Allow:
		p.standing, p.allowed = true, p.preview.Protected
		p.inv.Plan = planOf(v.Plan)
		return p
	case policy.Ask:
		return t.ask(ctx, p, v, rules.Headless)
	}
	return p.deny(v)
}

// weigh previews p and holds it against rules. It ends p if the call fails in
// its preview, or would change nothing.
func (t *Turn) weigh(ctx context.Context, rules policy.Policy, p *prepared) policy.Verdict {
	p.preview = tool.Preview{Binding: p.inv.Input}
	if h, ok := p.tool.(tool.Networker); ok {
		p.preview.Hosts = h.Hosts()
	}
	pv, ok := p.tool.(tool.Previewer)
	if !ok {
		return t.verdict(ctx, rules, p)
	}
	// What a rule denies whatever the call would change need not be tried. What
	// holds without a rule may turn milder when more is known.
	// Nor can a command be judged before its text is known.
	if !p.def.Effects.Has(tool.Executes) {
		if v := t.verdict(ctx, rules, p); v.Decision == policy.Deny && v.Rule.Layer != policy.BuiltIn {
			return v
		}
	}
	hosts := p.preview.Hosts
	preview, err := pv.Preview(ctx, p.inv, p.sink)
	if err != nil {
		p.fail(err)
		return policy.Verdict{}
	}
	p.preview, p.commit = preview, preview.Command == "" && !preview.Runs
	if p.preview.Hosts == nil {
		p.preview.Hosts = hosts
	}
	if p.preview.Result.IsError || p.commit && p.preview.Writes.Empty() {
		p.end(p.preview.Result) // nothing would change, so nobody is asked
		return policy.Verdict{}
	}
	return t.verdict(ctx, rules, p)
}

// Check says what the rules in force would decide about a call, without making
// it: a call that changes files is tried on an overlay that is dropped. If the
// call ends before it is judged, for faulty arguments or because it would change
// nothing, judged is false and the result is its answer.
func (t *Turn) Check(ctx context.Context, req Request) (v policy.Verdict, answer tool.Result, judged bool) {
	tg, err := t.resolve(req)
	if err != nil {
		return v, tool.ErrorResult(err), false
	}
	p := t.freeze(tg, t.emptyRecord())
	defer func() {
		if r := recover(); r != nil {
			v, answer, judged = policy.Verdict{}, tool.ErrorResult(panicked(p.def.Name, r)), false
		}
	}()
	if !p.ended {
		v = t.weigh(ctx, t.space.policy(), p)
	}
	return v, p.result, !p.ended
}

// verdict is what the rules say about p as far as it is known.
func (t *Turn) verdict(ctx context.Context, rules policy.Policy, p *prepared) policy.Verdict {
	c := policy.Call{
		Tool: p.def.Name, Source: p.tool.Origin().Source, Trusted: p.tool.Origin().Trusted, Module: p.tool.Origin().Module,
		Effects: p.effects(), Arguments: p.inv.Arguments, Input: p.inv.Input, Hosts: p.preview.Hosts,
	}
	site := policy.Site{Now: time.Now(), Fold: goruntime.GOOS != "linux", Root: t.space.files.RealPath()}
	if p.preview.Command != "" {
		c.Command = &policy.Command{
			Text: p.preview.Command, Cwd: p.preview.Cwd, Env: p.preview.Env,
			Profile: p.preview.Profile, Shell: p.preview.Shell, Changed: p.preview.Changed,
		}
		site.Home, _ = os.UserHomeDir()
		site.Path, site.FS = shell.Path(), shell.OS{}
		site.Listed = func(path string) (string, bool) { return t.space.files.RuleOf(ctx, path) }
	}
	switch {
	case p.preview.Writes != nil:
		c.Targets = changed(p.preview)
	case !p.def.Effects.Any(tool.Writes|tool.Destroys) && slices.ContainsFunc(rules.Rules, func(r policy.Rule) bool { return len(r.Paths)+len(r.Protected) > 0 }):
		c.Targets = t.space.named(ctx, p.inv.Arguments)
	}
	v := policy.Judge(rules, c, site)
	if c, ok := p.tool.(committer); ok && c.state.Asks != "" && v.Decision == policy.Allow {
		v.Decision, v.Reason, v.Save = policy.Ask, c.state.Asks, nil // of one of the calls
	}
	if p.preview.InPerson && v.Decision != policy.Deny {
		v.Decision, v.InPerson, v.Save, v.Plan = policy.Ask, true, nil, nil
	}
	return v
}

// effects are those of this call, as far as they are known.
func (p *prepared) effects() tool.Effects {
	if p.preview.Effects != 0 {
		return p.preview.Effects & p.def.Effects
	}
	return p.def.Effects
}

// changed lists the files that the write set of v changes.
func changed(v tool.Preview) []policy.Target {
	lists := make(map[string]string, len(v.Protected))
	for _, p := range v.Protected {
		lists[p.Path] = p.Rule
	}
	out := make([]policy.Target, 0, len(v.Writes.Entries))
	seen := make(map[string]bool, len(v.Writes.Entries))
	add := func(verb policy.Verb, path string) {
		out = append(out, policy.Target{Verb: verb, Path: path, List: lists[path]})
		seen[path] = true
	}
	for _, w := range v.Writes.Entries {
		switch w.Op {
		case tool.OpDelete:
			add(policy.Delete, w.Path)
		case tool.OpMove:
			add(policy.Delete, w.From)
			add(policy.Write, w.Path)
		case tool.OpMkdir:
			add(policy.Make, w.Path)
		default:
			add(policy.Write, w.Path)
		}
	}
	for _, p := range v.Protected { // below a directory that is moved
		if !seen[p.Path] {
			add(policy.Write, p.Path)
		}
	}
	return out
}

// named lists the files and directories that the arguments of a call name, as
// far as they are there. What a search meets on its way is not among them.
func (s *space) named(ctx context.Context, args json.RawMessage) []policy.Target {
	var members map[string]json.RawMessage
	if json.Unmarshal(args, &members) != nil {
		return nil // the schema check lets objects pass only
	}
	var out []policy.Target
	for _, name := range []string{"path", "root", "from", "to"} {
		var path string
		if json.Unmarshal(members[name], &path) != nil || path == "" {
			continue // absent, or something else than a path
		}
		l, err := s.files.ListedByName(ctx, path)
		if err != nil {
			continue // the tool will meet the same error, and say it
		}
		t := policy.Target{Verb: policy.Read, Path: l.Path}
		t.List, t.Secret = l.Rule()
		out = append(out, t)
	}
	return out
}

func (p *prepared) deny(v policy.Verdict) *prepared {
	code := tool.Denied
	if v.Rule.Layer == policy.BuiltIn && strings.HasPrefix(v.Rule.Name, "secret:") {
		code = tool.Protected // as the workspace answers where no rule speaks of paths
	}
	e := tool.Errorf(code, "%s", v.Reason).With("rule", v.Rule.String())
	switch {
	case v.Instead != "":
		e.WithNext("leave it, or tell the user: %s", v.Instead)
	default:
		e.WithNext("leave it, or tell the user which rule forbids it: %s", v.Rule)
	}
	return p.fail(e)
}

// ask opens a ticket for p and waits for the answer.
func (t *Turn) ask(ctx context.Context, p *prepared, v policy.Verdict, h policy.Headless) *prepared {
	r := t.request(p)
	r.Preview, r.InPerson = p.preview, v.InPerson
	r.Asked = approval.RuleRef{ID: v.Rule.Name, File: v.Rule.File, Line: v.Rule.Line, Why: v.Reason}
	if v.Save != nil && t.rt.rules != nil {
		if offer, ok := t.rt.rules.Offer(*v.Save); ok {
			r.Offer = &offer
		}
	}
	own := p.rec
	r.Frozen = frozen{t, *p}
	r.Told = func(d approval.Decision) {
		own.told(d)
		if d.Save != nil {
			if err := t.rt.rules.Save(*d.Save, d); err != nil {
				t.rt.notice("the rule could not be saved: " + err.Error())
			}
		}
	}
	r.Opened, r.Lapsed = own.asked, own.lapsed
	ticket, err := t.rt.desk.Submit(r)
	if err != nil {
		return p.fail(err)
	}
	p.rec = own.waits(ticketRecord(ticket))
	dec, err := t.await(ctx, p, ticket)
	if err == approval.ErrNoAnswer {
		if h == policy.HeadlessDeny && !ticket.Queued() && p.approver == nil {
			if own == ticketRecord(ticket) { // else it is another call's question
				ticket.Withdraw()
				p.rec = own
			}
			return p.fail(t.unattended(p, v))
		}
		return t.wait(p, ticket, v)
	}
	if err != nil {
		return p.fail(err)
	}
	return t.redeem(p, ticket, dec)
}

// await waits for the decision on p's ticket as long as somebody is there who
// may give it. [approval.ErrNoAnswer] says that waiting longer makes no sense.
func (t *Turn) await(ctx context.Context, p *prepared, ticket *approval.Ticket) (approval.Decision, error) {
	_, answered := ticket.Decision()
	if p.approver != nil && !answered {
		dec, err := ticket.Ask(ctx, p.approver)
		if err != approval.ErrNotAsked {
			return dec, err
		}
	}
	if !answered && !ticket.Attended(ctx) {
		return approval.Decision{}, approval.ErrNoAnswer
	}
	waiting := ctx
	if p.patience > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, p.patience)
		defer cancel()
	}
	dec, err := ticket.Wait(waiting)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = approval.ErrNoAnswer
	}
	return dec, err
}

// redeem spends the yes on p's ticket. The record of the ticket becomes p's.
func (t *Turn) redeem(p *prepared, ticket *approval.Ticket, dec approval.Decision) *prepared {
	err := ticket.Redeem(p.preview.Binding)
	switch err {
	case approval.ErrUsed:
		p.rec.overtaken()
	case approval.ErrEnded:
	default:
		p.rec = ticketRecord(ticket)
	}
	if err != nil {
		return p.fail(err)
	}
	p.standing, p.allowed = dec.Standing, p.preview.Protected
	if s, ok := p.sink.(recordingSink); ok { // what it tells belongs to the ticket's record, too
		p.sink = recordingSink{s.Sink, p.rec}
	}
	return p
}

func ticketRecord(t *approval.Ticket) *record { return t.Request().Frozen.(frozen).call.rec }

// planOf is a plan as tools take it.
func planOf(p *shell.Plan) *tool.Plan {
	if p == nil {
		return nil
	}
	out := &tool.Plan{Script: p.Script, Env: p.Env}
	for _, e := range p.Pipe {
		out.Pipe = append(out.Pipe, tool.Exec{Path: e.Path, Args: e.Args})
	}
	return out
}

// maxAnswerDiff is how much of a diff an answer that waits repeats: whoever made
// the call knows what it wrote, and a person sees all of it elsewhere.
const maxAnswerDiff = 16 << 10

// wait ends p for now: the ticket is the answer.
func (t *Turn) wait(p *prepared, ticket *approval.Ticket, v policy.Verdict) *prepared {
	r := ticket.Request()
	p.ticket = r.Ticket
	until, whole := r.Expires.UTC(), ""
	e := tool.Errorf(tool.ApprovalRequired, "%s %s, and a person must agree first%s", r.Tool, would(r.Effects), because(v, p.preview)).
		With("ticket", r.Ticket).With("expires", until.Format(time.RFC3339))
	if diff := r.Preview.Diff; len(diff) > maxAnswerDiff {
		e.With("diff", strings.ToValidUTF8(diff[:maxAnswerDiff], "")).With("diff_bytes", len(diff))
		whole = t.wholeDiff(p, ticket)
	} else if diff != "" {
		e.With("diff", diff)
	}
	if len(r.Preview.Hosts) > 0 {
		e.With("hosts", r.Preview.Hosts)
	}
	if whole != "" {
		e.With("diff_artifact", whole)
		whole = ", whose whole diff is " + whole + ","
	}
	return p.fail(e.WithNext("nothing was done; ask the user to decide ticket %s%s before %s (wasmtools approvals show %s), then repeat the same call",
		r.Ticket, whole, until.Format("15:04:05 UTC"), r.Ticket))
}

// unattended is the answer where nobody can be asked and nothing is queued.
func (t *Turn) unattended(p *prepared, v policy.Verdict) error {
	return tool.Errorf(tool.ApprovalRequired, "%s %s, a person must agree first, and nobody can be asked here%s", p.def.Name, would(p.def.Effects), because(v, p.preview)).
		WithNext("nothing was done; tell the user to run it from a terminal, to allow it by a rule (wasmtools policy check), or to let it wait with headless = \"queue\"")
}

// because says why a person is asked where that is not what always holds: the
// protected paths, or the rule.
func because(v policy.Verdict, p tool.Preview) string {
	switch {
	case len(p.Protected) > 0:
		text := ", because of protected paths:"
		for i, q := range p.Protected {
			if i == maxNamed {
				return text + fmt.Sprintf(" and %d more", len(p.Protected)-i)
			}
			text += fmt.Sprintf(" %s (%s)", tool.QuotePath(q.Path), q.Rule)
		}
		return text
	case v.Rule.Layer != policy.BuiltIn:
		return ", because a rule says so: " + v.Rule.String()
	}
	return ""
}

// maxNamed is how many paths an answer names.
const maxNamed = 5

func would(e tool.Effects) string {
	switch {
	case e.Any(tool.Writes | tool.Destroys):
		return "would change files"
	case e.Has(tool.Executes):
		return "would run a command"
	case e.Has(tool.UsesNetwork):
		return "would use the network"
	}
	return "needs a yes"
}

func panicked(name string, v any) error {
	return tool.Errorf(tool.Internal, "%s panicked", name).Because(fmt.Errorf("%v\n%s", v, debug.Stack()))
}
