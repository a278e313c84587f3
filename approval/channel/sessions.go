package channel

// Process names a process for as long as the machine runs: pids are used again,
// a pid together with its start time is not.
type Process struct {
	PID int

	// Start is when the process began, in the system's own unit (Linux: clock
	// ticks since boot, field 22 of /proc/PID/stat). [Identify] reads it.
	Start uint64
}

// Sessions tells what this runtime started for a model. Whoever starts such
// processes (the terminal) implements it; a process that descends from one of
// them is no human. Its methods are called at every connection, must not block,
// and must be safe for concurrent use.
type Sessions interface {
	// Leaders are the processes from which everything of a session descends: its
	// session leader and, if there is one, the helper that orphans go to. Those
	// that ended are kept as long as anything of their session may live.
	Leaders() []Process

	// SIDs are the session ids (setsid) that were given out, for orphans that
	// lost their parents.
	SIDs() []int

	// Terminals are the device numbers (stat.Rdev) of the slave ends of the PTYs
	// that are open.
	Terminals() []uint64
}

// NoSessions is the Sessions of a runtime that starts no processes for models.
type NoSessions struct{}

func (NoSessions) Leaders() []Process  { return nil }
func (NoSessions) SIDs() []int         { return nil }
func (NoSessions) Terminals() []uint64 { return nil }
