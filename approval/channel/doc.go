// Package channel is the way by which a person, and nobody else, reaches a
// running runtime: a private socket in the user's run folder, one per runtime
// process, over which waiting calls are listed and answered from another
// terminal.
//
// What it promises: a peer is the same user; it does not descend from a process
// that any live runtime started for a model, nor from a runtime itself; its
// session and its controlling terminal are none of ours; it is not more
// confined than the runtime is (no_new_privs and process namespaces are
// inherited and cannot be shaken off, so an orphan of a sandboxed session is
// known by them). All of this is read from the kernel at connect, for a process
// that is held by a pidfd meanwhile. A peer that floods, stalls or never reads
// delays nobody but itself.
//
// The edge: what runs as the same user outside of every session of ours, and
// unconfined, cannot be told from the person; neither can an orphan of a
// session under the terminal profile none, whose commands are the user by
// definition. Where /proc hides the processes of other users, the walk over the
// ancestors ends at the first of them. On systems other than Linux a process
// that ends during the check may be mistaken for the next one of its pid; on
// Windows there is no channel.
package channel
