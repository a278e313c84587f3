// Package shell judges the text of a bash command against rules. A rule is a
// pattern of leading words; a text is allowed only if every program that it
// can run matches a pattern, uses that program's known options only, and
// writes and reads nothing that the rules did not name. Whatever cannot be
// proved that way is asked about. A deny sees through wrappers, quoting and
// global options.
//
// What was judged is what runs: an allowed text comes back as a [Plan], which
// is a vector of arguments per program or the tree printed again, and never
// the bytes that came in. Parsers of shell text, this one included, disagree
// with bash in many places; the plan makes the disagreement harmless.
//
// The edge: a program does what it was written to do. Rules for tests and
// builds cover the project's own code, which may do anything that the sandbox
// lets it do. Links are followed when a text is judged, so a link that changes
// between the verdict and the run is the sandbox's to stop. Git has no
// switch for the filters that a configuration names: commands that look at the
// work tree are asked about if the repository's own names any, which needs an
// FS that is a [Reader] and a .git that is a folder; filters of the user's run. In a
// text that also fetches, git before 2.45 may fetch what a partial clone lacks.
// A substitution outside quotes may print a pattern, for which bash lists a
// directory. The tables
// know the options of GNU programs: where others stand in their place, as on
// macOS, an option of the same name may do something else.
package shell
