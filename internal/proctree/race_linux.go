//go:build race && (amd64 || arm64)

package proctree

// The race detector lets each program sleep for a second at its end, which is
// longer than a server waits for its helpers. Tests of packages above meet that.
func init() { helperEnv = append(helperEnv, "GORACE=atexit_sleep_ms=0") }
