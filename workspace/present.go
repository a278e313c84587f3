package workspace

import (
	"context"
	"path/filepath"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// quickSurvey is how long every command may wait for what a sandbox has to hide:
// some 20,000 names.
const quickSurvey = 100 * time.Millisecond

// Present lists the files below the root that are on the list of secrets, and
// those on the list of protected paths, by their real, absolute paths: for a
// sandbox around programs, which needs names and not rules. Of a git directory it
// names the hooks and the configuration only, since git itself has to write the
// rest. A tree that is looked through quickly is looked through anew; in another
// one, what was found lately will do, see surveyAge. It fails if not everything
// could be looked at.
func (w *Workspace) Present(ctx context.Context) (secrets, protected []string, err error) {
	now := time.Now()
	s, err := w.surveyed(ctx, func(s *survey) bool {
		return !s.began.Before(now) || s.took > quickSurvey && s.recent()
	})
	if err != nil {
		return nil, nil, err
	}
	if !s.whole {
		return nil, nil, tool.Errorf(tool.TooLarge, "the workspace is too large to find all secrets in it")
	}
	real := func(l []string) []string {
		out := make([]string, len(l))
		for i, p := range l {
			out[i] = filepath.Join(w.real, filepath.FromSlash(p))
		}
		return out
	}
	return real(s.secrets), real(s.guarded), nil
}
