// Package rewrite turns a stranger's WebAssembly module into one that can be
// stopped, charged and put back to its first state. It decodes the module,
// transforms it and encodes it again; it knows no engine.
//
// Three transformations exist:
//
//   - [Instrument] adds the countdown that returns to the host now and then,
//     exports what a reset must restore, redirects imports and limits tables.
//   - [Preinitialise] freezes an instance that has run its initialisers into a
//     module whose instances start where that one stood.
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
//     are compared with the bytes that are left before anything is allocated;
//     engines are less careful, and should see a module after Decode only.
//
// What it does not do: it checks no operand types, and no structure beyond what
// the above needs. A module must therefore validate in the engine before it is
// instrumented, and again afterwards. The order is Decode, engine, Instrument,
// Encode, engine.
//
// # The countdown
//
// A guest's native code is never preempted by Go: it runs until it calls a host
// function, and all that time neither the collector nor, in the end, any other
// goroutine does. The countdown is a global c that only code added here names.
// Every poll does
//
//	if c <= 0 { c = Q; if wt__yield() != 0 { unreachable } }; c = c - 1
//
// so that after at most Q polls the guest stands in a host function, where
// scheduler and collector get their turn and the host decides whether the guest
// goes on. Polls stand
//
//   - at the head of every loop, which is the only way back in a function,
//   - at the entry of every function, but for those that come to the head of a
//     loop anyway, and leaves: functions of at most 128 bytes without loops,
//     calls and bulk operations,
//   - after [StraightBytes] bytes of code without one, where a call that may be
//     one of a leaf counts as 128,
//   - after every bulk operation on memory or tables.
//
// The countdown is refilled before the host is asked, and it is compared with
// zero by sign: whatever a stopped guest leaves behind, or a host that forgot to
// set it, the next call asks the host soon and not 2^32 polls later.
//
// # Fuel
//
// A poll takes one unit. The poll behind a bulk operation takes one more for
// every 64 bytes of memory or 8 elements of a table that the operation filled,
// copied, initialised or added, and asks the host at once if less than that was
// left, once for each quantum. Nothing else takes units, so whenever the guest
// is not in the middle of a poll
//
//	units = yields * Q + (Q - c)
//
// have been taken since c was Q. They depend on nothing but the module, the plan
// and the guest's inputs, not even on Q; [Info.Units] computes them. A host that
// wants to be asked sooner may lower c in wt__yield, and must then count what it
// took away.
//
// # Limits that remain
//
// A single bulk operation runs to its end; 64 MiB take some 5 ms. A host
// function is not polled while it runs. A quantum is 5 to 80 microseconds of
// ordinary code, but of the dearest code, loads that miss every cache as densely
// as polls allow, it is a second or more (BenchmarkQuantum). What no poll can
// bound, waiting on memory and the engine's exceptions, is refused.
//
// Go programs run at 1.0 to 1.15 times their former time, a loop of one
// nanosecond a round at 1.4 times (BenchmarkRun).
package rewrite
