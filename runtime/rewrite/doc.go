// Package rewrite turns a stranger's WebAssembly module into one that can be
// stopped, charged and put back to its first state. It decodes the module,
// transforms it and encodes it again; it knows no engine.
//
// Three transformations exist:
//
//   - [Instrument] adds the countdown that returns to the host now and then,
//     exports what a reset must restore, redirects imports and limits tables.
//   - [Preinitialise] freezes an instance that has run its initialisers into a
//     module that starts where the instance stood.
//   - [Resettable] tells whether memory and globals are all the state there is.
//
// What the package promises:
//
//   - Nothing is guessed. [Decode] reads every immediate of every instruction
//     and refuses what it does not know, with section, offset and feature. Code
//     that it let pass unread could be a loop without a poll.
//   - No index of ours is reachable from the guest's code. Decode checks every
//     index against the module as it was given, so an index one past the end is
//     refused before the end moves.
//   - Arbitrary bytes cost memory and time in proportion to their length. Counts
//     are compared with the bytes that are left before anything is allocated,
//     here and, since the engine must only be given what Decode accepted, there.
//
// What it does not do: it checks no operand types and no structure beyond what
// the above needs. A module must therefore validate in the engine before it is
// instrumented (the engine would call an invalid original valid once it is
// changed, not notice that it was) and again afterwards (our mistakes must not
// run). The order is Decode, engine, Instrument, Encode, engine.
//
// # The countdown
//
// A guest's native code is never preempted by Go. The countdown is a global of
// the guest that only the code added here can name. Every poll does
//
//	c = c - 1; if c <= 0 { c = c + Q; if wt__yield() != 0 { unreachable } }
//
// so that after at most Q polls the guest stands in a host function, where the
// scheduler and the collector get their turn and the host decides whether the
// guest goes on. Polls stand
//
//   - at the head of every loop, which is the only way back in a function,
//   - at the entry of every function, except short ones without loops and calls,
//   - after [StraightBytes] bytes of code without one, where a call of such a
//     short function counts with the bytes of its body,
//   - after every bulk operation; see below.
//
// The countdown is refilled before the host is asked, and it is compared with
// zero by sign: whatever a stopped guest leaves behind, or a host that forgot to
// set it, the next call asks the host soon and not 2^32 polls later.
//
// # Fuel
//
// A poll takes one unit. A bulk operation takes one more for every 64 bytes of
// memory or 8 elements of a table that it filled, copied, initialised or added,
// whether or not more than one quantum is gone by that; the poll behind it then
// asks the host once for each. No other thing takes units, so
//
//	units = yields * Q + (Q - c)
//
// holds after every poll, depends on nothing but the module, its plan and the
// guest's inputs, and is the same in every run. [Info.Units] computes it.
//
// # Limits that remain
//
// A single bulk operation runs to its end; with 64 MiB of memory that is 5 ms.
// A host function is not polled while it runs. An instruction that waits
// (memory.atomic.wait) is refused, since nothing could wake it.
package rewrite
