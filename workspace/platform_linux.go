package workspace

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

type openat2Func = func(dirfd int, path string, how *unix.OpenHow) (int, error)

var defaultOpenat2 openat2Func = unix.Openat2

// currentUmask reads the mask that the kernel takes off the mode of new files. It
// cannot be asked for without setting it, which would be a race; it is only used
// to say beforehand what the mode will be.
func currentUmask() uint32 {
	p, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.SplitSeq(string(p), "\n") {
			if v, ok := strings.CutPrefix(line, "Umask:"); ok {
				if n, err := strconv.ParseUint(strings.TrimSpace(v), 8, 32); err == nil {
					return uint32(n)
				}
			}
		}
	}
	return 0o022
}

func isQuota(err error) bool { return err == unix.EDQUOT }
