// Package terminal asks a person at the controlling terminal, whatever standard
// input and output are connected to.
//
// What it promises: the whole request is shown, page by page, in the form of
// package show; a yes counts only after the last page and only as the whole word,
// and what was typed before a question that follows another is dropped;
// everything else, the empty line too, is no or no answer. A rule is saved only after its exact text
// was shown. Other approvers are not held up, and a question that somebody else
// has answered is taken back.
//
// The edge: whoever can type into the terminal is the person. Programs that
// share it (an agent's own screen, a terminal multiplexer) can do that, so the
// caller decides whether to ask there at all. A process in the background of its
// terminal takes no part.
package terminal
