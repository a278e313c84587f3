package shell

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds on one text. What goes beyond them is asked about.
const (
	// MaxText is how long a text may be: what is longer is no command that
	// somebody reads before agreeing.
	MaxText = 64 << 10

	maxDepth    = 200 // statements within statements
	maxScripts  = 8   // texts within texts: sh -c "sh -c ..."
	maxChain    = 16  // wrappers round one command
	maxReasons  = 32
	maxCommands = 4096
	maxFiles    = 1024
)

// Judge judges the text of a bash command as it would run at site. It does no
// I/O but through site.FS, never panics, and takes time proportional to the
// text. It is safe for concurrent use.
func Judge(text string, site Site, rules Rules) (res Result) {
	defer func() {
		if r := recover(); r != nil {
			// A fault of ours, or of a Rules.Files or an FS, must not end the server.
			const why = "the text could not be judged"
			res = Result{Verdict: Ask, Reason: why, Reasons: []Reason{{Verdict: Ask, Text: why, Command: -1}}}
		}
	}()
	res = judgeText(text, site, rules)
	if res.Verdict == Ask {
		res.Suggest = suggest(text, site, rules, res)
	}
	return res
}

// judge is the state of one Judge.
type judge struct {
	site  Site
	rules Rules
	fs    FS
	root  string // of the workspace, links resolved

	res   Result
	cmd   int  // the command to which reasons belong, or -1
	allow bool // a rule allowed something
	git   bool // git runs by a rule
	// online: git runs to fetch or push by a rule.
	online bool
	// shells: a shell runs inside the text.
	shells bool
	// moved: something ran that may have put a link somewhere.
	moved bool
	// unsteady: something ran that may have removed a directory.
	unsteady bool

	lang    syntax.LangVariant
	src     string // the text whose tree is walked
	line    int    // where it stands in the outer text; 0 for the outer text itself
	depth   int
	scripts int
	edits   []func() // what to do to the tree before it is printed

	resolved map[string]resolved
	walked   map[string]string
	noted    map[File]bool
	programs map[string]string
	listed   map[string]listed
	looks    int
	names    int
}

func judgeText(text string, site Site, rules Rules) Result {
	j := &judge{
		site: site, rules: rules, fs: site.FS, cmd: -1,
		resolved: map[string]resolved{}, walked: map[string]string{}, noted: map[File]bool{}, programs: map[string]string{}, listed: map[string]listed{},
	}
	if j.fs == nil {
		j.fs = NoFS{}
	}
	j.res.Verdict = Allow
	real, _, ok := j.resolve(site.Root)
	if !ok || !strings.HasPrefix(real, "/") {
		j.ask(nil, "the workspace cannot be looked at")
	}
	j.root = real
	if site.Shell != "" && site.Shell != "bash" {
		j.ask(nil, "the session's shell is %s, and rules are for bash", show(site.Shell))
	}
	if site.Changed {
		j.ask(nil, "the session ran commands that no rule allowed, so names may mean something else in it")
	}
	st := &state{cwds: []string{site.Cwd}, vars: map[string]field{}}
	if cwd, _, ok := j.resolve(site.Cwd); rules.WorkspacePaths && (!ok || !j.inside(cwd)) {
		j.ask(nil, "the working directory lies outside the workspace")
	}
	j.lang = syntax.LangBash
	file := j.text(text, syntax.LangBash, st)
	if file != nil && len(file.Stmts) == 0 {
		j.ask(nil, "the text holds no command")
	}
	if !j.allow && j.res.Verdict == Allow {
		j.ask(nil, "no rule names what this text runs")
	}
	if file != nil {
		j.res.Plan = j.plan(file)
		if j.res.Plan == nil {
			j.ask(nil, "the text reads differently when it is printed again")
		}
	}
	j.finish()
	return j.res
}

// text parses and walks a text, and returns its tree, or nil if it has none or
// bash may read it differently.
func (j *judge) text(text string, lang syntax.LangVariant, st *state) *syntax.File {
	if len(text) > MaxText {
		j.ask(nil, "the text is longer than %d bytes", MaxText)
		return nil
	}
	if brackets(text) > maxBrackets {
		j.ask(nil, "the text holds more than %d brackets", maxBrackets)
		return nil
	}
	whole := true
	object := func(format string, args ...any) {
		whole = false
		j.ask(nil, format, args...)
	}
	if bad := odd(text); bad != "" {
		object("%s", bad)
	}
	// The first tree holds comments and is only looked at as text.
	if commented := parseWhole(text, lang); commented != nil {
		for _, bad := range spans(text, commented) {
			object("%s", bad)
		}
	}
	outer := j.src
	j.src = text
	defer func() { j.src = outer }()
	list, fault := parse1(text, lang)
	file := &syntax.File{Stmts: list}
	j.stmts(list, st) // those before a fault too, so that a deny is found
	if fault != "" {
		object("bash cannot parse it: %s", fault)
	}
	if !whole {
		return nil
	}
	return file
}

func parser(lang syntax.LangVariant, comments bool) *syntax.Parser {
	return syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(comments))
}

// parse1 parses a text as far as it goes, and says what stopped it.
func parse1(text string, lang syntax.LangVariant) (list []*syntax.Stmt, fault string) {
	defer recovered(&fault)
	// The library's iterator must not be left early: it goes on and panics.
	for s, err := range parser(lang, false).StmtsSeq(strings.NewReader(text)) {
		if err != nil && fault == "" {
			fault = cut(err.Error())
		}
		if fault == "" {
			list = append(list, s)
		}
	}
	return list, fault
}

// parseWhole parses a text with its comments; it returns nil if it cannot.
func parseWhole(text string, lang syntax.LangVariant) (file *syntax.File) {
	var fault string
	defer recovered(&fault)
	if f, err := parser(lang, true).Parse(strings.NewReader(text), ""); err == nil {
		file = f
	}
	return file
}

// recovered turns a panic of the parser's into a fault: a text from a stranger
// is no place to find one.
func recovered(fault *string) {
	if r := recover(); r != nil {
		*fault = "the parser failed"
	}
}

// ask records a reason to ask.
func (j *judge) ask(at syntax.Node, format string, args ...any) {
	j.reason(Reason{Verdict: Ask, Text: fmt.Sprintf(format, args...), Line: j.lineOf(at)})
}

// deny records that a rule denies.
func (j *judge) deny(p *Pattern, why string) {
	j.reason(Reason{Verdict: Deny, Text: why, Pattern: p})
}

func (j *judge) reason(r Reason) {
	r.Command = j.cmd
	if j.cmd >= 0 {
		c := &j.res.Commands[j.cmd]
		if c.Verdict = Stricter(c.Verdict, r.Verdict); c.Reason == "" || r.Verdict == Deny {
			c.Reason = r.Text
		}
		if r.Line == 0 {
			r.Line = c.Line
		}
	}
	before := j.res.Verdict
	if j.res.Verdict = Stricter(before, r.Verdict); before != j.res.Verdict {
		j.res.Reason = r.Text
	}
	if len(j.res.Reasons) < maxReasons && !slices.ContainsFunc(j.res.Reasons, func(o Reason) bool { return o.Text == r.Text && o.Command == r.Command }) {
		j.res.Reasons = append(j.res.Reasons, r)
	}
}

// finish writes the sentence for an allowed text.
func (j *judge) finish() {
	if j.res.Verdict != Allow {
		return
	}
	j.res.Reason = "every command in it is covered by a rule"
	for _, c := range j.res.Commands {
		if c.Pattern != nil && len(j.res.Commands) == 1 {
			j.res.Reason = "the rule " + show(c.Pattern.String()) + " covers it"
		}
	}
}

func (j *judge) lineOf(n syntax.Node) int {
	if j.line > 0 || n == nil {
		return j.line
	}
	if p := n.Pos(); p.IsValid() {
		return int(p.Line())
	}
	return 0
}

// source is a node as it stands in the text, cut for display.
func (j *judge) source(n syntax.Node) string {
	from, to := n.Pos(), n.End()
	if !from.IsValid() || !to.IsValid() || from.Offset() > to.Offset() || int(to.Offset()) > len(j.src) {
		return "a part of it"
	}
	return cut(j.src[from.Offset():to.Offset()])
}

// cut shortens what is shown to a person.
func cut(s string) string {
	const most = 80
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// show quotes text of strangers for a reason.
func show(s string) string {
	s = cut(s)
	if plain(s) {
		return s
	}
	return strconv.Quote(s)
}
