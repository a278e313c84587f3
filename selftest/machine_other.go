//go:build !linux

package selftest

func kernel() string           { return "" }
func fileSystem(string) string { return "" }
