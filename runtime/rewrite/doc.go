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
//	c = c - 1; if c <= 0 { c = Q; if wt__yield() != 0 { unreachable } }
//
// so that after at most Q polls the guest stands in a host function, where the
// scheduler and the collector get their turn and the host decides whether the
// guest goes on. Polls stand
//
//   - at the head of every loop, which is the only way back in a function,
//   - at the entry of every function, except leaves: those of at most 128 bytes
//     without loops, calls and bulk operations,
//   - after [StraightBytes] bytes of code without one, where a call that may be
//     one of a leaf counts as 128,
//   - after every bulk operation on memory or tables.
//
// The countdown is refilled before the host is asked, and it is compared with
// zero by sign: whatever a stopped guest leaves behind, or a host that forgot to
// set it, the next call asks the host soon and not 2^32 polls later.
//
// A poll costs about a nanosecond, most of it the way from one decrement through
// memory to the next. Go programs run at 1.0 to 1.15 times their former time, a
// loop of one nanosecond a round at 2.3 times (BenchmarkRun).
//
// # Fuel
//
// A poll takes one unit. The poll behind a bulk operation takes one more for
// every 64 bytes of memory or 8 elements of a table that the operation filled,
// copied, initialised or added, and if that is more than one quantum it yields
// once for each. Nothing else takes units, so at any time
//
//	units = yields * Q + (Q - c)
//
// It depends on nothing but the module, its plan and the guest's inputs, and is
// the same in every run; [Info.Units] computes it. A host that wants to be asked
// sooner may lower c while the guest yields, and must then count what it took.
//
// # Limits that remain
//
// A single bulk operation runs to its end; with 64 MiB of memory that is 5 ms.
// A host function is not polled while it runs. A quantum of the dearest code,
// loads that miss every cache as densely as polls allow, takes seconds and not
// the microseconds of ordinary code (BenchmarkQuantum). What no poll can bound,
// waiting on memory and the engine's exceptions, is refused.
package rewrite
