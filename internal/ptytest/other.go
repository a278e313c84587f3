//go:build !linux

// Package ptytest gives a test's command a real terminal and somebody who
// types. It is for tests only, and empty on systems other than Linux.
package ptytest
