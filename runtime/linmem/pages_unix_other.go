//go:build unix && !linux

package linmem

const reserveFlags = 0

func adviseReserved([]byte) {}

func abandon([]byte) {}
