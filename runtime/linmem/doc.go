// Package linmem is the linear memory of a sandbox: it starts as a snapshot,
// grows up to a limit, and can be put back to the snapshot in place, in
// microseconds, without a new instance.
//
// What the package promises:
//
//   - After a [Memory.Reset] that returns no error every byte equals the
//     snapshot, whatever the guest wrote and wherever the kernel has put the
//     page since.
//   - A slice handed to the engine is never longer than what is mapped for
//     reading and writing. The engine checks every access of the guest against
//     the length of that slice, so a wrong length would be the one way out.
//   - The address never moves, growth never copies, and nothing is readable on
//     either side: [Guard] bytes before and after answer with a fault.
//   - A snapshot cannot be changed by anybody once [NewImage] has returned, and
//     no program that this process starts inherits it.
//
// What it does not do: the guard is a second net, not the bound. An engine that
// forgets to check a 32-bit index can reach further than any guard that leaves
// room for thousands of memories. And a memory that grew is not shrunk, since the
// engine keeps the longer length: Reset then empties it and returns [ErrGrown],
// and the instance has to be replaced.
//
// # How a reset finds what changed
//
// On Linux the snapshot is a sealed file in memory that every Memory maps
// privately. The first write to a page gives the Memory its own copy; the
// kernel's page tables tell the copies from the pages of the file. The copies
// are compared with the snapshot and written back rather than dropped, since
// dropping means a fault at the next write, which costs more than copying a page
// does. Up to [KeepBytes] of them are kept that way; what a call dirtied
// beyond that is dropped, and a memory whose calls no longer use the pages it
// kept gives them back after a while.
//
// Everywhere else the whole memory is compared with the snapshot.
//
// The package knows no engine: [Memory] has the methods that wazero asks of a
// linear memory (Reallocate and Free).
package linmem
