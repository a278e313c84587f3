package wasihost

import (
	"context"
	"slices"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasmtools/wasmtools/tool"
)

// The engine's functions of WASI do part of their work before they reach
// anything of ours, and some never do: a poll of a million clocks that are due,
// a path of 60 MiB below a descriptor that is not open. A loop of such calls
// makes a quantum of polls minutes long. So each of them asks first whether the
// call goes on, and what makes it take long is bounded.

const (
	maxPath = 64 << 10 // bytes of a path; systems stop at 4 KiB
	maxSubs = 4_096    // subscriptions of one poll_oneoff
)

// costly are the parameters that say how much a function has to do before it
// reaches us. That of functions that are not here is constant, or done in pieces
// that ask again.
var costly = map[string]struct {
	params []int
	limit  uint32
}{
	"path_create_directory":   {[]int{2}, maxPath},
	"path_filestat_get":       {[]int{3}, maxPath},
	"path_filestat_set_times": {[]int{3}, maxPath},
	"path_link":               {[]int{3, 6}, maxPath},
	"path_open":               {[]int{3}, maxPath},
	"path_readlink":           {[]int{2}, maxPath},
	"path_remove_directory":   {[]int{2}, maxPath},
	"path_rename":             {[]int{2, 5}, maxPath},
	"path_symlink":            {[]int{1, 4}, maxPath},
	"path_unlink_file":        {[]int{2}, maxPath},
	"poll_oneoff":             {[]int{2}, maxSubs},
}

// Guarding is the context in which the engine makes its WASI and everything that
// imports it: each of its functions then begins with a check of ours. Code is
// compiled in the same context wherever it is, since the engine counts it to
// what a compiled form depends on.
func Guarding(ctx context.Context) context.Context {
	return experimental.WithFunctionListenerFactory(ctx, guards{})
}

// guards puts a guard before the functions of WASI, and nothing before others.
type guards struct{}

// NewFunctionListener implements the engine's factory.
func (guards) NewFunctionListener(def api.FunctionDefinition) experimental.FunctionListener {
	if def.GoFunction() == nil || def.ModuleName() != wasi {
		return nil
	}
	return guard{def.Name()}
}

// guard is the check before one function.
type guard struct{ name string }

// Before implements the engine's listener. A panic ends the guest.
func (g guard) Before(ctx context.Context, _ api.Module, _ api.FunctionDefinition, params []uint64, _ experimental.StackIterator) {
	Of(ctx).Check()
	c := costly[g.name]
	if slices.ContainsFunc(c.params, func(i int) bool { return uint32(params[i]) > c.limit }) {
		panic(tool.Errorf(tool.Trap, "the module asked %s for more than it takes (%d)", g.name, c.limit))
	}
}

// After implements the engine's listener.
func (guard) After(context.Context, api.Module, api.FunctionDefinition, []uint64) {}

// Abort implements the engine's listener.
func (guard) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}
