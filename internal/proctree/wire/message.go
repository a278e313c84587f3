//go:build linux

package wire

// Type names a frame.
type Type byte

const (
	// To a zygote.
	TypeSpawn Type = iota + 1 // Spawn; answered by TypeSpawned with the helper's socket
	// To a reaper, in this order: once TypeSetup, then TypeStart, whenever no
	// tree runs. The others while a tree runs.
	TypeSetup
	TypeStart
	TypeRefresh // Refresh; answered by TypeRefreshed
	TypeEnd     // end the tree with SIGKILL
	TypePort    // Port; answered by TypePortState

	// Answers and events.
	TypeSpawned   // Spawned
	TypeReady     // Ready
	TypeRefused   // Refused; to TypeSpawn, TypeSetup and TypeStart
	TypeStarted   // Started
	TypeExited    // Exited
	TypeGone      // no process of the tree is left
	TypeRefreshed // Refused with Errno 0 if all is well
	TypePortState
)

// Kinds of helper.
const (
	KindReaper  = 0 // a reaper in the zygote's own namespaces
	KindBox     = 1 // a zygote with namespaces of its own
	KindBoxed   = 2 // to a box: a reaper with mount and process namespaces of its own
	KindWrapped = 3 // a reaper in bubblewrap
)

// Spawn asks a zygote for a helper.
type Spawn struct {
	Kind   uint8
	OwnNet bool   // KindBoxed: with an empty network of its own
	Setup  string // KindWrapped: the body of the setup that will follow
}

// Spawned comes with the helper's socket.
type Spawned struct{ Pid uint32 }

// Setup tells a reaper, once, under what all its trees run.
type Setup struct {
	Profile   string
	Write     []string
	Read      []string
	Protect   []string
	Hide      []string
	Tmp       string
	Loopback  bool
	Weak      bool
	OpenFiles uint64
	FileSize  uint64
	Processes uint64
	Nice      uint8
}

// Ready says what is active.
type Ready struct {
	Means     []string
	Network   string
	Processes bool
	Gaps      []string
}

// Refused says why not. Reason is set instead of Errno if the system cannot
// give the profile.
type Refused struct {
	Op, Path, Reason string
	Errno            uint32
}

// Flags of a start.
const (
	StartTTY = 1 << iota
	StartStdin
	StartMerge
	StartDirFile
)

// Start starts the tree. Its descriptors: the directory (StartDirFile), then
// without StartTTY standard input (StartStdin), output, and error (unless
// StartMerge).
type Start struct {
	Path       string
	Argv, Env  []string
	Dir        string
	Flags      uint8
	Cols, Rows uint16
}

// Started comes with the leader's pidfd, and the terminal's master if it has
// one. Pid is as the reaper sees it.
type Started struct{ Pid uint32 }

// Exited tells how the leader ended.
type Exited struct {
	Status       uint32 // as wait4 gives it
	User, System uint64 // nanoseconds
}

// Refresh lists what is to be hidden and protected from now on, beside what is
// already.
type Refresh struct{ Hide, Protect []string }

// Port is a TCP port of the loopback address, as the tree sees it.
type Port struct {
	Seq    uint32
	Number uint16
}

// PortState is the answer.
type PortState struct {
	Seq  uint32
	Open bool
}

// Limits of lists and strings. The longest string Linux takes as an argument
// is 128 KiB.
const (
	maxList   = 1 << 16
	maxString = 1 << 20
)

type encoder struct{ b []byte }

func (e *encoder) uint(v uint64) {
	for v >= 0x80 {
		e.b = append(e.b, byte(v)|0x80)
		v >>= 7
	}
	e.b = append(e.b, byte(v))
}

func (e *encoder) bool(v bool) {
	if v {
		e.uint(1)
	} else {
		e.uint(0)
	}
}

func (e *encoder) string(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) strings(l []string) {
	e.uint(uint64(len(l)))
	for _, s := range l {
		e.string(s)
	}
}

// decoder reads what encoder wrote; bad stays true after the first fault.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uint(most uint64) uint64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		if len(d.b) == 0 {
			break
		}
		c := d.b[0]
		d.b = d.b[1:]
		if shift == 63 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << shift
		if c >= 0x80 {
			continue
		}
		if v > most || c == 0 && shift > 0 { // one number, one spelling
			break
		}
		return v
	}
	d.bad, d.b = true, nil
	return 0
}

func (d *decoder) bool() bool { return d.uint(1) == 1 }

func (d *decoder) string() string {
	n := d.uint(maxString)
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) strings() []string {
	n := d.uint(maxList)
	if n > uint64(len(d.b)) { // each takes a byte at least
		d.bad, d.b = true, nil
		return nil
	}
	var l []string
	for ; n > 0 && !d.bad; n-- {
		l = append(l, d.string())
	}
	return l
}

func (d *decoder) end() error {
	if d.bad || len(d.b) != 0 {
		return ErrFrame
	}
	return nil
}

// Encode returns the body of m's frame.
func (m *Spawn) Encode() []byte {
	var e encoder
	e.uint(uint64(m.Kind))
	e.bool(m.OwnNet)
	e.string(m.Setup)
	return e.b
}

// Decode reads a frame's body, and refuses anything but what Encode wrote.
func (m *Spawn) Decode(b []byte) error {
	d := decoder{b: b}
	*m = Spawn{Kind: uint8(d.uint(KindWrapped)), OwnNet: d.bool(), Setup: d.string()}
	return d.end()
}

// Encode returns the body of m's frame.
func (m *Setup) Encode() []byte {
	var e encoder
	e.string(m.Profile)
	e.strings(m.Write)
	e.strings(m.Read)
	e.strings(m.Protect)
	e.strings(m.Hide)
	e.string(m.Tmp)
	e.bool(m.Loopback)
	e.bool(m.Weak)
	e.uint(m.OpenFiles)
	e.uint(m.FileSize)
	e.uint(m.Processes)
	e.uint(uint64(m.Nice))
	return e.b
}

// Decode reads a frame's body, and refuses anything but what Encode wrote.
func (m *Setup) Decode(b []byte) error {
	d := decoder{b: b}
	*m = Setup{
		Profile: d.string(), Write: d.strings(), Read: d.strings(), Protect: d.strings(), Hide: d.strings(), Tmp: d.string(),
		Loopback: d.bool(), Weak: d.bool(),
		OpenFiles: d.uint(1 << 63), FileSize: d.uint(1 << 63), Processes: d.uint(1 << 63), Nice: uint8(d.uint(19)),
	}
	return d.end()
}

// Encode returns the body of m's frame.
func (m *Ready) Encode() []byte {
	var e encoder
	e.strings(m.Means)
	e.string(m.Network)
	e.bool(m.Processes)
	e.strings(m.Gaps)
	return e.b
}

// Decode reads a frame's body, and refuses anything but what Encode wrote.
func (m *Ready) Decode(b []byte) error {
	d := decoder{b: b}
	*m = Ready{Means: d.strings(), Network: d.string(), Processes: d.bool(), Gaps: d.strings()}
	return d.end()
}

// Encode returns the body of m's frame.
func (m *Refused) Encode() []byte {
	var e encoder
	e.string(m.Op)
	e.string(m.Path)
	e.string(m.Reason)
	e.uint(uint64(m.Errno))
	return e.b
}

// Decode reads a frame's body, and refuses anything but what Encode wrote.
func (m *Refused) Decode(b []byte) error {
	d := decoder{b: b}
	*m = Refused{Op: d.string(), Path: d.string(), Reason: d.string(), Errno: uint32(d.uint(4095))}
	return d.end()
}

// Encode returns the body of m's frame.
func (m *Start) Encode() []byte {
	n := 64 + len(m.Path) + len(m.Dir)
	for _, l := range [][]string{m.Argv, m.Env} {
		for _, s := range l {
			n += len(s) + 3
		}
	}
	e := encoder{b: make([]byte, 0, n)}
	e.string(m.Path)
	e.strings(m.Argv)
	e.strings(m.Env)
	e.string(m.Dir)
	e.uint(uint64(m.Flags))
	e.uint(uint64(m.Cols))
	e.uint(uint64(m.Rows))
	return e.b
}

// Decode reads a frame's body, and refuses anything but what Encode wrote.
func (m *Start) Decode(b []byte) error {
	d := decoder{b: b}
	*m = Start{
		Path: d.string(), Argv: d.strings(), Env: d.strings(), Dir: d.string(),
		Flags: uint8(d.uint(15)), Cols: uint16(d.uint(1<<16 - 1)), Rows: uint16(d.uint(1<<16 - 1)),
	}
	return d.end()
}

// FileCount is the number of descriptors that come with m.
func (m *Start) FileCount() int {
	n := 0
	if m.Flags&StartDirFile != 0 {
		n++
	}
	if m.Flags&StartTTY == 0 {
		n++
		if m.Flags&StartStdin != 0 {
			n++
		}
		if m.Flags&StartMerge == 0 {
			n++
		}
	}
	return n
}

// Encode returns the body of m's frame.
func (m *Exited) Encode() []byte {
	var e encoder
	e.uint(uint64(m.Status))
	e.uint(m.User)
	e.uint(m.System)
	return e.b
}

// Decode reads a frame's body, and refuses anything but what Encode wrote.
func (m *Exited) Decode(b []byte) error {
	d := decoder{b: b}
	*m = Exited{Status: uint32(d.uint(1<<32 - 1)), User: d.uint(1 << 63), System: d.uint(1 << 63)}
	return d.end()
}

// Encode returns the body of m's frame.
func (m *Refresh) Encode() []byte {
	var e encoder
	e.strings(m.Hide)
	e.strings(m.Protect)
	return e.b
}

// Decode reads a frame's body, and refuses anything but what Encode wrote.
func (m *Refresh) Decode(b []byte) error {
	d := decoder{b: b}
	*m = Refresh{Hide: d.strings(), Protect: d.strings()}
	return d.end()
}

// Encode returns the body of m's frame.
func (m *Port) Encode() []byte {
	var e encoder
	e.uint(uint64(m.Seq))
	e.uint(uint64(m.Number))
	return e.b
}

// Decode reads a frame's body, and refuses anything but what Encode wrote.
func (m *Port) Decode(b []byte) error {
	d := decoder{b: b}
	*m = Port{Seq: uint32(d.uint(1<<32 - 1)), Number: uint16(d.uint(1<<16 - 1))}
	return d.end()
}

// Encode returns the body of m's frame.
func (m *PortState) Encode() []byte {
	var e encoder
	e.uint(uint64(m.Seq))
	e.bool(m.Open)
	return e.b
}

// Decode reads a frame's body, and refuses anything but what Encode wrote.
func (m *PortState) Decode(b []byte) error {
	d := decoder{b: b}
	*m = PortState{Seq: uint32(d.uint(1<<32 - 1)), Open: d.bool()}
	return d.end()
}

// Encode returns the body of m's frame.
func (m *Spawned) Encode() []byte {
	var e encoder
	e.uint(uint64(m.Pid))
	return e.b
}

// Decode reads a frame's body, and refuses anything but what Encode wrote.
func (m *Spawned) Decode(b []byte) error {
	d := decoder{b: b}
	*m = Spawned{Pid: uint32(d.uint(1<<31 - 1))}
	return d.end()
}

// Encode returns the body of m's frame.
func (m *Started) Encode() []byte {
	var e encoder
	e.uint(uint64(m.Pid))
	return e.b
}

// Decode reads a frame's body, and refuses anything but what Encode wrote.
func (m *Started) Decode(b []byte) error {
	d := decoder{b: b}
	*m = Started{Pid: uint32(d.uint(1<<31 - 1))}
	return d.end()
}
