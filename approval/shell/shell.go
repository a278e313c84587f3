package shell

import "strings"

// Verdict is what rules say about a text. The strictest wins.
type Verdict string

const (
	Allow Verdict = "allow"
	Ask   Verdict = "ask" // also what everything unknown is
	Deny  Verdict = "deny"
)

// rank orders verdicts by strictness.
func (v Verdict) rank() int {
	switch v {
	case Allow:
		return 0
	case Deny:
		return 2
	}
	return 1
}

// Stricter returns the stricter one of two verdicts. A verdict that is none of
// the three counts as Ask.
func Stricter(a, b Verdict) Verdict {
	if b.rank() > a.rank() {
		return b
	}
	return a
}

// Pattern is a list of leading words: "git log" covers every git log with
// options that are known to be safe. The first word is the name of a program,
// compared byte by byte; if it holds a slash it is a path, relative to the
// workspace root, and covers that file only.
//
// A pattern covers the program doing its own job. It covers neither an option
// that runs another program, nor one that writes a file, unless the pattern
// spells that option out, and never the payload of a wrapper.
type Pattern struct {
	Words []string
	// Exact means that the pattern covers these words and no more. The person
	// who wrote it has seen every option, so the tables of known options are
	// not asked; paths, redirections and environment still are.
	Exact bool
	// Source says where the rule stands ("wasmtools.toml:12"). It is repeated in
	// reasons and otherwise not looked at.
	Source string
}

// String gives the words as they would be typed.
func (p Pattern) String() string {
	s := make([]string, len(p.Words))
	for i, w := range p.Words {
		s[i] = quote(w)
	}
	return strings.Join(s, " ")
}

// Op is what is done to a file.
type Op string

const (
	Read Op = "read"
	// Change is a write that is the program's own job: rm, mkdir or cp on their
	// operands, where a rule names the program.
	Change Op = "change"
	// Write is a write that no rule for a program names: a redirection, or an
	// option such as sort's -o. Rules about edits decide about it.
	Write Op = "write"
)

// Rules is what a text is judged by. The zero value asks about everything. It
// is not changed by Judge and may be shared.
type Rules struct {
	Allow, Ask, Deny []Pattern

	// WorkspacePaths demands that every path that an allowed command reads lies
	// in the workspace, links resolved. Writes outside are never allowed.
	WorkspacePaths bool

	// Files judges what is done to one file; path is relative to the workspace
	// root with '/', or absolute if the file lies outside. The reason is shown.
	// Nil allows Read and Change and asks about Write.
	Files func(op Op, path string) (verdict Verdict, reason string)
}

// Result is what Judge found.
type Result struct {
	Verdict Verdict
	// Reason says in words why, for a person: the strictest reason found first.
	Reason string
	// Reasons holds every reason that is not plain consent, in text order, at
	// most 32.
	Reasons []Reason
	// Commands holds every simple command in the text, payloads of wrappers and
	// commands of substitutions included, in the order in which they stand.
	Commands []Command
	// Files holds what is read and written by literal name.
	Files []File
	// Plan is what to run. It is nil if the text cannot be parsed or reads
	// differently to different shells; such a text never has the verdict Allow.
	Plan *Plan
	// Suggest holds the smallest patterns that would make this text, and no
	// other, allowed. It is nil if it is allowed or denied already, and if no
	// pattern would do: for a shell, an interpreter, a wrapper, a redirection.
	Suggest []Pattern
}

// Reason is one thing that was found wrong, or one deny that matched.
type Reason struct {
	Verdict Verdict
	Text    string // lower case, no full stop
	Pattern *Pattern
	Command int // index in Result.Commands, or -1
	Line    int // in the text, from 1; 0 if not known
}

// Command is one simple command.
type Command struct {
	// Words are its words after quote removal. A word that is known only at run
	// time stands as its source text; then, and if file names were put in for a
	// pattern, Literal is false.
	Words   []string
	Literal bool
	// Program is where the name was found in the fixed PATH, links resolved;
	// empty for a builtin and for what was not found.
	Program string
	// Wrappers names the programs through which the command is run, the
	// outermost first: ["env", "timeout"].
	Wrappers []string
	Verdict  Verdict
	Pattern  *Pattern // the rule that matched, or nil
	Reason   string
	Line     int
}

// File is a file that a command names literally.
type File struct {
	Path    string // relative to the workspace root with '/', or absolute if outside
	Outside bool
	Op      Op
}

// Plan is what to run instead of the text: either Pipe or Script.
type Plan struct {
	// Pipe holds the programs of one pipeline, to be started without a shell.
	Pipe []Exec
	// Script is the tree printed again, for bash.
	Script string
	// Env holds NAME=value settings that must be added to the environment: the
	// fixed PATH, and for git what keeps programs named by a repository off. The
	// rest of the environment must be a fixed one too, with nothing in it that a
	// session exported: what judges a text does not see it.
	Env []string
}

// Exec is one program with its arguments; Args[0] is its name.
type Exec struct {
	Path string
	Args []string
}
