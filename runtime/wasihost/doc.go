// Package wasihost is what guests of foreign kinds (WASI commands, Extism
// plugins) find where they expect an operating system. They speak WASI preview
// 1 with the engine; this package decides what stands behind it, for one call.
//
// What it promises:
//
//   - Files are those of the call's overlay, under the call's grant, and nothing
//     else. No engine mount of a directory is used anywhere: those let a guest
//     leave a directory through links that it makes. Every path is checked to be
//     local before it reaches the overlay; making and reading links answers
//     EPERM; a directory that was opened is a path and not a descriptor, so what
//     is opened below it passes the same gate. A grant without writing gives
//     another type, which has no way to write ([readOnlyTree]).
//   - Without a grant for files there is no directory at all.
//   - Variables are those that the grant names. Clocks step by a microsecond
//     without the grant clock.
//   - Everything counts against the call's quotas, and ends the guest when the
//     call's time is over ([Host.Enter]). A guest's code asks for that itself,
//     through the polls that [Prepare] puts into it.
//   - Memory, over all memories of the call's instances, has one limit
//     ([Memory]).
//
// Its edge: times of files cannot be set. A file that is open for writing is
// held in memory as a whole, and its content reaches the overlay when the guest
// closes it, asks for its size by name, or ends well. Reading one file through
// two descriptors while something else replaces it on disk may mix old and new.
package wasihost
