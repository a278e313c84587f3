//go:build unix && !linux

package runtime

const noReserve = 0

func adviseSmallPages([]byte) {}
