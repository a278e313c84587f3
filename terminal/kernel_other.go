//go:build !linux && !darwin

package terminal

import (
	"os"
	"sync"
)

// Package proctree starts nothing on these systems, so nobody asks.

func modes(*os.File) (canonical, echo, ok bool) { return false, false, false }

func setUp(*os.File) {}

func discard(*os.File) {}

func blocked(int) (reading, polling, hidden bool) { return false, false, true }

func directory(int) (dir string, gone bool) { return "", false }

func executable(int) string { return "" }

func openPath(path string) (*os.File, error) { return os.Open(path) }

func bootID() string { return "" }

func tryLock(*os.File) bool { return true }

func endLeft(map[string]entry, map[string]bool) {}

func readLocked(f *os.File, mu *sync.Mutex, p []byte) (n int, err error) {
	n, err = f.Read(p)
	mu.Lock()
	return n, err
}

func readable(*os.File) bool { return false }

const tellsRunning = false
