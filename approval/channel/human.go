package channel

import (
	"context"
	"errors"

	"github.com/wasmtools/wasmtools/tool"
)

// Human returns nil if this process may act for the person: change grants,
// secrets and rules, undo, attach, answer. dir is the [Folder] of the sockets.
// The rules:
//
//   - The process has a controlling terminal and is in its foreground, so that
//     somebody can sit there and see it.
//   - No runtime of this user refuses it: it does not descend from one or from
//     what one started, its session and terminal are none of theirs, and it is
//     not more confined than they are. Every runtime that lives is asked; one
//     that does not answer counts as a no.
//
// The error is a *tool.Error with code denied that says which rule.
//
// The edge: this guards our own commands. A program of the same user that does
// not ask can write the same files; what keeps the model's commands from that
// is their sandbox.
func Human(ctx context.Context, dir string) error {
	if err := atTerminal(); err != nil {
		return tool.Errorf(tool.Denied, "this command is for a person at a terminal: %v", err).
			WithNext("run it yourself in a terminal of your own, not through a tool, a script or an agent")
	}
	found, problems, err := Find(ctx, dir)
	for _, c := range found {
		c.Close()
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil // no runtime can have a channel here
	case err != nil:
		return tool.Errorf(tool.Denied, "it cannot be told who runs this command").Because(err).
			WithNext("%v", err)
	case len(problems) == 0:
		return nil
	}
	p := problems[0]
	if errors.Is(p.Err, ErrRefused) {
		return tool.Errorf(tool.Denied, "this command is for a person: %v", p).
			WithNext("run it in a terminal of your own")
	}
	return tool.Errorf(tool.Denied, "it cannot be told whether this command runs for a model: %v", p).
		WithNext("end process %d if it hangs, then try again", p.Runtime.PID)
}
