package config

import (
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/tool"
)

// Kind says which file it is: what may stand in it depends on who wrote it.
type Kind uint8

const (
	UserFile      Kind = 1 << iota // the user's own configuration: everything
	WorkspaceFile                  // the workspace's own file: a closed list
	SavedFile                      // one rule that was saved from an answer
)

const allFiles = UserFile | WorkspaceFile | SavedFile

// String is the file as a sentence has it.
func (k Kind) String() string {
	switch k {
	case WorkspaceFile:
		return "a workspace's own file"
	case SavedFile:
		return "the file of a saved rule"
	}
	return "a configuration"
}

// form is what a value looks like.
type form uint8

const (
	aBool form = iota
	aNumber
	aText
	texts    // a list of texts, or one text
	aTime    // date and time with an offset, or a date, which is its first moment in UTC
	aSpan    // a text such as "5m"
	patterns // a list of shell patterns, each a text of words or a list of words
	aShare   // a number over 0, up to 1
	anObject // a table that is handed on as JSON
	aMap     // a table of texts
	counts   // a table of numbers
	named    // a table of tables, by names that check looks at
	aTable
	tables // an array of tables
)

// field is one key: what may stand there, in which files, and what it means.
// The fields below are the whole schema: the check, the reading and the JSON
// Schema all go by them.
type field struct {
	key    string
	form   form
	in     Kind
	words  []string // of a text: these only
	least  int      // of a number
	most   int      // of a number, or of the bytes of a text
	check  func(string) (text, hint string)
	needed bool
	doc    string
	fields []field // of a table
}

var modes = []string{string(policy.ModeAsk), string(policy.ModeAllowEdits), string(policy.ModePlan), string(policy.ModeDeny)}
var profiles = []string{policy.ProfileWrite, policy.ProfileReadOnly, policy.ProfileNone}
var decisions = []string{string(policy.Allow), string(policy.Ask), string(policy.Deny)}

// root returns the schema. It is a function so that starting the program builds
// none of it.
func root() field {
	return field{form: aTable, in: allFiles, fields: []field{
		{key: "workspace", form: aTable, in: UserFile | WorkspaceFile, doc: "The files that tools can reach.", fields: []field{
			{key: "deny_read", form: texts, in: UserFile | WorkspaceFile, check: checkListGlob, doc: "Globs of secret files, beside the built-in list: neither read nor changed by any tool."},
			{key: "protect", form: texts, in: UserFile | WorkspaceFile, check: checkListGlob, doc: "Globs of protected files, beside the built-in list: changed only if a person or a rule means exactly them."},
			{key: "allow_read", form: texts, in: UserFile, check: checkListGlob, doc: "Globs of files that are taken off the list of secrets."},
			{key: "hard_links", form: aBool, in: UserFile, doc: "Write to files that have more than one name. Default false."},
			{key: "require_read", form: aBool, in: UserFile, doc: "A file must have been read in the session before write_file replaces it. Default false."},
		}},
		{key: "approvals", form: aTable, in: UserFile, doc: "Who is asked, and for how long.", fields: []field{
			{key: "mode", form: aText, in: UserFile, words: modes, doc: "What happens to calls with effects that no rule speaks of: ask (default), allow-edits (changes of unprotected files are made without a question), plan (nothing with effects happens), deny (nobody is asked)."},
			{key: "headless", form: aText, in: UserFile, words: []string{string(policy.HeadlessDeny), string(policy.HeadlessQueue)}, doc: "When there is nobody to ask: deny (default), or queue for another terminal."},
			{key: "elicitation", form: aText, in: UserFile, words: []string{string(ElicitOff), string(ElicitEdits), string(ElicitAll)}, doc: "Which calls an MCP client may be asked about: off, edits (of files), all (default)."},
			{key: "timeout", form: aSpan, in: UserFile, doc: "How long a call waits for a decision, 1s to 24h. Default 5m."},
		}},
		{key: "terminal", form: aTable, in: UserFile, doc: "Shell commands.", fields: []field{
			{key: "allow_unsandboxed", form: aBool, in: UserFile, doc: "Let commands run outside the sandbox (profile \"none\"). Each is asked about, unless a rule names the profile. Default false."},
			{key: "profile", form: aText, in: UserFile, words: profiles[:2], doc: "The sandbox of sessions that name none. Default workspace-write."},
			{key: "network", form: aText, in: UserFile, words: []string{NetworkLoopback, NetworkOff}, doc: "The network of sandboxes: loopback (default), one of their own that nobody else is on, or off."},
			{key: "weak_sandbox", form: aBool, in: UserFile, doc: "Where the system refuses namespaces, take a sandbox without them; results say what is then not guarded. Default false: nothing runs."},
			{key: "pass_env", form: texts, in: UserFile, check: checkVariable, doc: "Names of variables of wasmtools's own environment that commands get, beside PATH, HOME, LANG and the like."},
		}},
		{key: "mcp", form: aTable, in: UserFile, doc: "What MCP does not tell.", fields: []field{
			{key: "context_window", form: aNumber, in: UserFile, least: 1_000, most: 100_000_000, doc: "Tokens of the model's window, for the decision whether tools are deferred. Default 200000."},
			{key: "servers", form: named, in: UserFile, check: checkServer, doc: "Upstream MCP servers, by name: their tools are called NAME__TOOL.", fields: []field{
				{key: "command", form: aText, in: UserFile, most: 4096, doc: "The program, for a server on standard input and output."},
				{key: "args", form: texts, in: UserFile, doc: "Its arguments."},
				{key: "env", form: aMap, in: UserFile, doc: "Variables that it gets, beside PATH, HOME, LANG and the like."},
				{key: "pass_env", form: texts, in: UserFile, check: checkVariable, doc: "Names of variables of wasmtools's own environment that it gets."},
				{key: "cwd", form: aText, in: UserFile, most: 4096, doc: "The folder that it starts in. Default: the workspace."},
				{key: "url", form: aText, in: UserFile, most: 4096, check: checkURL, doc: "The address, for a server over HTTP: https, or http to this machine."},
				{key: "headers", form: aMap, in: UserFile, doc: "Headers of each request."},
				{key: "secret_headers", form: aMap, in: UserFile, doc: "Headers whose values are secrets, by the names that wasmtools secret knows them by."},
				{key: "trusted", form: aBool, in: UserFile, doc: "Believe what it says about its tools: those that it calls read-only need no approval, and they are never left to be found by search. Default false."},
				{key: "disabled", form: aBool, in: UserFile, doc: "Do not start it. Default false."},
				{key: "remove", form: texts, in: UserFile, check: checkName, doc: "Its tools that are taken away: its own names, or globs with *."},
				{key: "only", form: texts, in: UserFile, check: checkName, doc: "If set, only these of its tools are left."},
				{key: "timeout", form: aSpan, in: UserFile, doc: "How long one call may take. Default 60s."},
				{key: "result_kib", form: aNumber, in: UserFile, least: 1, most: 65_536, doc: "How large a message of it may be, in KiB. Default 4096."},
				{key: "concurrency", form: aNumber, in: UserFile, least: 1, most: 32, doc: "Calls at a time. Default 4."},
			}},
		}},
		{key: "tool_search", form: aTable, in: UserFile, doc: "Leaving tools of upstream servers and installed modules to be found by search.", fields: []field{
			{key: "enabled", form: aBool, in: UserFile, doc: "Default true."},
			{key: "models", form: texts, in: UserFile, doc: "For which models, as provider/model with * and ?. Default: all."},
			{key: "threshold_pct", form: aShare, in: UserFile, doc: "The share of the context window that definitions may take. Default 0.15."},
			{key: "min_defer_count", form: aNumber, in: UserFile, least: 1, most: 100_000, doc: "Fewer tools than this are never left out. Default 1."},
			{key: "pins", form: texts, in: UserFile, check: checkName, doc: "Tools that are always listed, beside the built-in ones."},
			{key: "embed_url", form: aText, in: UserFile, most: 4096, check: checkURL, doc: "A server with OpenAI's interface for embeddings, up to and without /embeddings: tools are then ranked by meaning, too. It is sent requests and definitions."},
			{key: "embed_model", form: aText, in: UserFile, most: 256, doc: "The model there."},
			{key: "embed_secret", form: aText, in: UserFile, most: 256, doc: "The key for it, by the name that wasmtools secret knows it by."},
		}},
		{key: "skills", form: aTable, in: UserFile, doc: "Instructions for models.", fields: []field{
			{key: "folders", form: texts, in: UserFile, doc: "Folders of skills, each a folder with a SKILL.md; absolute, or below the home folder with ~/."},
		}},
		{key: "budget", form: aTable, in: UserFile | WorkspaceFile, doc: "How much of a result a model is shown; what is over that is kept, and a receipt says how to read it. The lowest of all files counts.", fields: []field{
			{key: "text_kib", form: aNumber, in: UserFile | WorkspaceFile, least: 32, most: 4096, doc: "Text of one result, in KiB of JSON. Default 64; over MCP at most 40000 bytes."},
			{key: "structured_kib", form: aNumber, in: UserFile | WorkspaceFile, least: 16, most: 4096, doc: "Structured content of one result, in KiB of JSON. Default 32, which is the most over MCP."},
			{key: "tools", form: counts, in: UserFile, least: 32, most: 4096, check: checkName, doc: "Other limits of text for single tools, in KiB, by name or by globs with *."},
		}},
		{key: "artifacts", form: aTable, in: UserFile, doc: "What is kept, for each workspace, of results that were too long to be shown.", fields: []field{
			{key: "max_mib", form: aNumber, in: UserFile, least: 64, most: 1 << 20, doc: "Room for them in MiB; the oldest make room for new ones. Default 2048."},
			{key: "keep_days", form: aNumber, in: UserFile, least: 1, most: 36_500, doc: "For how many days they are kept. Default: for any time."},
		}},
		{key: "undo", form: aTable, in: UserFile, doc: "What is kept, for each workspace, of what commits took away, for wasmtools undo.", fields: []field{
			{key: "enabled", form: aBool, in: UserFile, doc: "false keeps nothing. Default true."},
			{key: "max_mib", form: aNumber, in: UserFile, least: 1, most: 1 << 20, doc: "Room for it in MiB; the oldest commits make room. Default 2048."},
			{key: "keep_days", form: aNumber, in: UserFile, least: 1, most: 36_500, doc: "For how many days it is kept. Default 30."},
		}},
		{key: "limits", form: aTable, in: UserFile | WorkspaceFile, doc: "What one call of an installed module may use. The lowest of all files counts.", fields: []field{
			{key: "memory_mib", form: aNumber, in: UserFile | WorkspaceFile, least: 1, most: 1024, doc: "Memory in MiB. Default 64."},
			{key: "time_ms", form: aNumber, in: UserFile | WorkspaceFile, least: 1, most: 3_600_000, doc: "Time in milliseconds. Default 30000."},
			{key: "output_kib", form: aNumber, in: UserFile | WorkspaceFile, least: 1, most: 65_536, doc: "Output in KiB. Default 1024."},
			{key: "host_calls", form: aNumber, in: UserFile | WorkspaceFile, least: 1, most: 10_000_000, doc: "Calls of host functions. Default 10000."},
			{key: "concurrency", form: aNumber, in: UserFile | WorkspaceFile, least: 1, most: 32, doc: "Calls of one tool at a time. Default 4."},
		}},
		{key: "tools", form: aTable, in: UserFile | WorkspaceFile, doc: "Which tools there are.", fields: []field{
			{key: "remove", form: texts, in: UserFile | WorkspaceFile, check: checkToolName, doc: "Tools that are taken away: names, or globs with *."},
			{key: "only", form: texts, in: UserFile | WorkspaceFile, check: checkToolName, doc: "If set, only these tools are left. A tool has to be in the list of every file that has one."},
		}},
		{key: "rules", form: tables, in: allFiles, doc: "What is allowed, asked about or denied. The strictest rule that fits wins, whatever its place.", fields: ruleFields()},
		{key: "examples", form: tables, in: UserFile, doc: "Calls with the verdict that the rules should give; wasmtools policy test compares.", fields: []field{
			{key: "command", form: aText, in: UserFile, most: 64 << 10, doc: "A shell text: short for the tool terminal_session with op exec."},
			{key: "tool", form: aText, in: UserFile, check: checkName, doc: "The tool that is called, by any of its names."},
			{key: "arguments", form: anObject, in: UserFile, doc: "Its arguments."},
			{key: "cwd", form: aText, in: UserFile, most: 4096, doc: "Of a command: the folder, relative to the workspace root."},
			{key: "profile", form: aText, in: UserFile, words: profiles, doc: "Of a command: the sandbox."},
			{key: "should", form: aText, in: UserFile, words: decisions, needed: true, doc: "The verdict."},
		}},
	}}
}

func ruleFields() []field {
	return []field{
		{key: "name", form: aText, in: allFiles, most: 128, check: checkLine, doc: "What verdicts and records call the rule."},
		{key: "verdict", form: aText, in: allFiles, words: decisions, needed: true, doc: "What the rule says. A workspace's own file can only ask or deny."},
		{key: "tools", form: texts, in: allFiles, check: checkToolName, doc: "Tools: names, or globs with *."},
		{key: "sources", form: texts, in: allFiles, words: sources(), doc: "Where the tool came from."},
		{key: "modules", form: texts, in: allFiles, check: checkDigest, doc: "Identities of modules (sha256:...), as wasmtools inspect shows them."},
		{key: "inputs", form: texts, in: allFiles, check: checkDigest, doc: "Digests of canonical arguments: the rule fits exactly these calls."},
		{key: "effects", form: texts, in: allFiles, words: tool.Effects(1<<6 - 1).Strings(), doc: "A rule that allows fits calls with no other effects, one that asks or denies calls with any of these."},
		{key: "paths", form: texts, in: allFiles, check: checkRuleGlob, doc: "Globs of canonical paths relative to the workspace root; one that begins with a slash fits real paths outside it."},
		{key: "protected", form: texts, in: allFiles, check: checkLine, doc: "Rules of the list of protected paths that this rule means to allow, by name."},
		{key: "hosts", form: texts, in: allFiles, check: checkHost, doc: "Hosts: a name, *.example.com or *, with :port if only that is meant."},
		{key: "commands", form: patterns, in: allFiles, doc: "Shell patterns: the leading words of a simple command, as a list of words or as one text with blanks between them."},
		{key: "exact", form: patterns, in: allFiles, doc: "Shell patterns of all words: they fit exactly this simple command, whatever options it has."},
		{key: "profiles", form: texts, in: allFiles, words: profiles, doc: "Sandbox profiles of a command. A rule that allows and names none does not hold for none."},
		{key: "workspaces", form: texts, in: UserFile | SavedFile, check: checkAbsolute, doc: "Real paths of the workspaces that the rule is for."},
		{key: "expires", form: aTime, in: allFiles, doc: "From then on the rule does not hold."},
		{key: "reason", form: aText, in: allFiles, most: 500, check: checkLine, doc: "Shown with the verdict, to models too."},
	}
}

func sources() []string {
	return []string{string(tool.Builtin), string(tool.Native), string(tool.Installed), string(tool.MCP), string(tool.Host), string(tool.Extension)}
}
