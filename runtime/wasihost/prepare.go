package wasihost

import (
	"context"
	"fmt"
	"slices"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime/rewrite"
	"github.com/wasmtools/wasmtools/tool"
)

// Module names of what guests import from us and not from the engine or an SDK.
const (
	// Guarded holds what stands in for functions of others that are not safe.
	Guarded = "wasmtools:guarded"

	// Observe is where instrumented modules report to a tracer. There is none
	// here: the functions do nothing.
	Observe = "dylibso_observe"

	wasi = "wasi_snapshot_preview1"
)

// Renumber is fd_renumber of WASI. The engine (wazero 1.12) makes its table of
// descriptors as long as the number that a guest gives: 2^31-1 is 16 GiB of the
// host's memory. Nobody but dup2 needs it, so it answers Notsup.
const (
	Renumber = "fd_renumber"
	Notsup   = 58
)

// wasiNames is what the engine offers of WASI.
var wasiNames = []string{
	"args_get", "args_sizes_get", "clock_res_get", "clock_time_get", "environ_get", "environ_sizes_get",
	"fd_advise", "fd_allocate", "fd_close", "fd_datasync", "fd_fdstat_get", "fd_fdstat_set_flags", "fd_fdstat_set_rights",
	"fd_filestat_get", "fd_filestat_set_size", "fd_filestat_set_times", "fd_pread", "fd_prestat_get", "fd_prestat_dir_name",
	"fd_pwrite", "fd_read", "fd_readdir", "fd_renumber", "fd_seek", "fd_sync", "fd_tell", "fd_write",
	"path_create_directory", "path_filestat_get", "path_filestat_set_times", "path_link", "path_open", "path_readlink",
	"path_remove_directory", "path_rename", "path_symlink", "path_unlink_file", "poll_oneoff", "proc_exit", "proc_raise",
	"random_get", "sched_yield", "sock_accept", "sock_recv", "sock_send", "sock_shutdown",
}

// Offered tells whether a function of WASI or of a tracer is there, and whether
// its type is what it should be as far as that is ours to say.
func Offered(im manifest.Import) bool {
	switch im.Module {
	case wasi:
		return slices.Contains(wasiNames, im.Name)
	case Observe:
		return len(im.Type.Results) == 0 && slices.Contains([]string{"instrument_enter", "instrument_exit", "instrument_memory_grow"}, im.Name)
	}
	return false
}

// Redirects are the functions of WASI that guests get from us.
func Redirects() map[rewrite.ImportName]rewrite.ImportName {
	return map[rewrite.ImportName]rewrite.ImportName{
		{Module: wasi, Field: Renumber}: {Module: Guarded, Field: Renumber},
	}
}

// Prepared is a module that can be stopped. It comes from [Prepare], in this or
// in an earlier process.
type Prepared struct {
	Code    []byte
	Quantum int32 // units of fuel between two yields
}

// Prepare makes a module stoppable: it puts polls into its code, bounds its
// tables and gives unsafe imports other names. The engine judges wasm before it
// is touched: a module with an index one too high would otherwise become valid by
// what we append.
func Prepare(ctx context.Context, wasm []byte, redirect map[rewrite.ImportName]rewrite.ImportName) (Prepared, error) {
	if err := validate(ctx, wasm); err != nil {
		return Prepared{}, err
	}
	m, err := rewrite.Decode(wasm)
	if err != nil {
		return Prepared{}, err
	}
	for _, im := range m.Imports() {
		if im.Module == Guarded {
			return Prepared{}, tool.Errorf(tool.InvalidModule, "the module imports %q, which is the host's own", Guarded)
		}
	}
	info, err := rewrite.Instrument(m, rewrite.Plan{Countdown: true, Redirect: redirect, DropDebug: true})
	if err != nil {
		return Prepared{}, err
	}
	for _, im := range m.Imports() {
		if to, ok := redirect[im.ImportName]; ok {
			return Prepared{}, fmt.Errorf("wasihost: %v was not redirected to %v", im.ImportName, to)
		}
	}
	return Prepared{m.Encode(), info.Quantum}, nil
}
