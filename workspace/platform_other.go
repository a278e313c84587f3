//go:build !linux

package workspace

type openat2Func = func()

var defaultOpenat2 openat2Func

// currentUmask is a guess: the mask cannot be asked for without setting it, and
// it is only used to say beforehand what the mode of a new file will be.
func currentUmask() uint32 { return 0o022 }

func isQuota(err error) bool { return false }
