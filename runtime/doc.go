// Package runtime runs strangers' WebAssembly modules. It is the only package
// that knows the engine.
//
// What it promises about a module:
//
//   - Nothing of it is compiled before it is first called (but for an Extism plugin
//     that has to be asked for its tools), and nothing of it runs before its structure, its imports, its exports and its manifest were
//     checked against what this package offers ([Check]).
//   - Every call begins in the same state, byte by byte, with a deadline and
//     limits on memory, output, host calls and notes. Whatever the guest does
//     (trap, exit, garbage, bad pointers, an endless loop, a flood) ends as one
//     result with a code, never as a panic, and leaves nothing behind.
//   - A guest is stopped wherever it is, and holds up neither the scheduler nor
//     the collector for longer than a quantum of its code takes.
//   - The host functions are those of package hostfuncs and a small WASI that
//     has no files, no environment and no arguments. Extism plugins and WASI
//     commands get the engine's WASI with a file system of ours behind it (package
//     wasihost). Its directory mounts are not used: they let a guest leave a
//     directory through links.
//   - A compiled form is native code. One that comes from the disk is read once,
//     authenticated with a key of ours, and given to the engine only then.
//
// Its edge: one bulk operation runs to its end, 5 ms for 64 MiB. What a language's
// runtime drew at random while it started is the same in all calls, unless the
// module asks for no snapshot (docs/abi.md). The engine's memory safety is taken
// on trust, as is that an invalid module is found by it.
//
// How a module becomes something that runs: start.go runs it once, up to where
// its calls begin, form.go rewrites it so that instances begin there, compile.go
// has it compiled or finds it in the cache (cache.go).
//
// The way of a call: [Engine] admits it (admission.go), a lease obtains an
// instance (instance.go) from the pool (pool.go) and owns everything of the call
// (lease.go), host functions reach the lease through the context (hostmodule.go,
// wasi.go), its term says when it has to end (term.go), and however the guest
// ended, outcome.go turns it into a code. Then the instance is put back.
//
// Modules of other kinds (foreign.go, foreign_run.go) are admitted the same way
// and then run by packages extism and wasicmd, each call in a new instance.
package runtime
