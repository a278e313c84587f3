package evidence

import (
	"encoding/hex"
	"strings"

	"golang.org/x/sys/unix"
)

// bootID names the present run of the kernel; zero if it cannot be told.
func bootID() (id [16]byte) {
	s, err := unix.Sysctl("kern.bootsessionuuid")
	s = strings.ReplaceAll(s, "-", "")
	if err != nil || len(s) != 2*len(id) {
		return id
	}
	if _, err := hex.Decode(id[:], []byte(strings.ToLower(s))); err != nil {
		return [16]byte{}
	}
	return id
}
