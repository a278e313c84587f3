// Package terminal runs commands for a model: single processes, and shells that
// live on between calls. It is what stands behind the tool terminal_session.
//
// It never hangs: every call returns after a time that its caller chose, and
// says why. It never floods: output is drained always, kept within fixed bounds
// of memory and disk, and shown cut in the middle. It leaves nothing behind: when
// a process, a session or the manager ends, everything that came of it ends. A
// command is handed to a shell in a file and never typed, so that no length,
// quote or tab of it can go astray; its end is told by marks with a random nonce,
// by the prompt, and by the kernel, whichever comes first. Whether a program
// waits for input is read off the kernel's state and not guessed from its text, nor
// from its silence: on a busy machine it may wait for a processor.
//
// What runs under a profile other than none cannot leave it, see package
// proctree. This package decides nothing about permission: who calls it has asked
// before. It helps to keep to what was judged: a working directory and a
// foreground program are compared with those that were seen when the question was
// asked.
//
// The edges: a program that forges the marks must have read the nonce from its
// own shell's memory; it can then make a command look ended that is not, no more.
// In a program without marks (a nested shell, ssh, an interpreter) only the kernel's
// state tells what goes on, and nothing says when a line of input has been dealt
// with. What a program with another user's rights waits for nobody may see, other
// than that it hides what is typed. Outside Linux the kernel tells less: see
// Result.Hint. A secret that was sent is taken out of the output as long as it comes
// back byte by byte; a program can show it in another form.
package terminal
