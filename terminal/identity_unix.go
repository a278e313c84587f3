//go:build unix

package terminal

import (
	"fmt"
	"os"
	"syscall"
)

// identity names a directory while it exists.
func identity(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	return ""
}
