package artifact

// Trust makes a store trust the times of files that were changed just now.
func Trust() (undo func()) {
	was := settled
	settled = 0
	return func() { settled = was }
}

// Hold makes stores hold at most n artifacts.
func Hold(n int) (undo func()) {
	was := maxLive
	maxLive = n
	return func() { maxLive = was }
}
