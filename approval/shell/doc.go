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
// between the verdict and the run is the sandbox's to stop. Filters that a
// repository's own configuration names still run when git adds files, as git
// has no switch for them; that configuration is protected from tools. The tables
// know the options of GNU programs: where others stand in their place, as on
// macOS, an option of the same name may do something else.
package shell
