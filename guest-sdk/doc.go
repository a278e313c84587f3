// Package guest is what a tool's author imports: it registers tools, decodes a
// call, gives the host's functions as plain Go functions with typed errors, and
// encodes the result. A module built with it speaks guest ABI version 1
// (docs/abi.md).
//
//	func init() {
//		guest.Describe(guest.Module{Name: "words", Version: "1.0.0"})
//		guest.Add(guest.Tool{
//			Name: "word_count", Description: "Counts the words of a file.",
//			Input:   `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`,
//			Effects: []guest.Effect{guest.Reads}, Read: []string{"**"},
//			Call: func(c *guest.Call) (guest.Result, error) { ... },
//		})
//	}
//
//	func main() {}
//
// Build it with `wasmtools build`. Package typed, below this one, infers the
// schemas from Go structs.
//
// The package imports only small parts of the standard library: no fmt, regexp,
// reflect, encoding/json or time, each of which would add a quarter to a half
// of a small module's size and of the time to compile it. A tool may import
// them; it then pays for them.
//
// What it does not do: it keeps nothing between calls. The host restores the
// memory that a module had after initialisation before every call, so a
// variable that one call set is gone in the next, and what a language runtime
// seeded at start (math/rand, map order) is the same in each call.
//
// Tools run natively too, in tests: package guesttest has a host made of memory.
package guest
