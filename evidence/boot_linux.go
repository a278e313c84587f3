package evidence

import (
	"encoding/hex"
	"os"
	"strings"
)

// bootID names the present run of the kernel; zero if it cannot be told.
func bootID() (id [16]byte) {
	p, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		id = parseBootID(string(p))
	}
	return id
}

func parseBootID(s string) (id [16]byte) {
	s = strings.ReplaceAll(strings.TrimSpace(s), "-", "")
	if len(s) != 2*len(id) {
		return id
	}
	if _, err := hex.Decode(id[:], []byte(strings.ToLower(s))); err != nil {
		return [16]byte{}
	}
	return id
}
