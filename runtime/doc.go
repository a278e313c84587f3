// Package runtime runs strangers' WebAssembly modules. It is the only package
// that knows the engine.
//
// What it promises about a module:
//
//   - Nothing of it is compiled before it is first called, and nothing of it runs
//     before its structure, its imports, its exports and its manifest were
//     checked against what this package offers ([Check]).
//   - Every call gets an instance of its own, with fresh memory, a deadline, and
//     limits on memory, output, host calls and notes. Whatever the guest does
//     (trap, exit, garbage, bad pointers, an endless loop, a flood) ends as one
//     result with a code, never as a panic, and leaves nothing behind.
//   - The host functions are those of package hostfuncs and a small WASI that
//     has no files, no environment and no arguments. The engine's own WASI and
//     its directory mounts are not used: they let a guest leave a directory
//     through links.
//   - A compiled form is native code. One that comes from the disk is read once,
//     authenticated with a key of ours, and given to the engine only then.
//
// Its edge: a guest is stopped at loop heads, at host functions and by running
// out of stack. Code that does neither for long, a recursion that branches like
// Fibonacci's or one bulk operation over all memory, runs on until it meets one
// of them. The engine's memory safety is taken on trust.
//
// The way of a call: [Engine] admits it (admission.go), a lease obtains an
// instance and owns everything of the call (lease.go), host functions reach the
// lease through the context (hostmodule.go, wasi.go), and however the guest
// ended, outcome.go turns it into a code.
package runtime
