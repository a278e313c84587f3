//go:build !race

package terminal_test

// detecting tells whether the race detector, which multiplies memory, is at work.
const detecting = false
