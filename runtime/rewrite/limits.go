package rewrite

// Limits on what is instrumented. Code is compiled by the process that asked for
// it and no engine can be interrupted there, so what is large beyond reason is
// refused while it is still bytes. [Decode] takes up to twice of each, so that
// it can read again what [Instrument] made of the largest.
const (
	// MaxModule is the largest module in bytes. The largest seen in practice is
	// a plugin with a JavaScript engine inside, 7 MB.
	MaxModule = 32 << 20

	// MaxBody is the largest function body in bytes: compile time grows faster
	// than the size of a single function. Go's largest has about 50 KB.
	MaxBody = 512 << 10

	// maxLocals is how many parameters and locals a function may have. Locals are
	// run-length encoded: six bytes can ask for 2^32, and the engine keeps one
	// entry each. The figure is that of the JavaScript engines.
	maxLocals = 50_000

	// maxEntries is how many entries all lists of a module may have together. An
	// entry can be two bytes there and takes up to a hundred here, and more in the
	// engine. A Go program of 4 MB has 140,000.
	maxEntries = 1 << 20

	// DefaultTableMax is how many elements all tables may have together. An element
	// is eight bytes of the host's memory outside the guest's own.
	DefaultTableMax = 65_536

	// maxTables bounds what tables cost beside their elements.
	maxTables = 64
)

// maxValues is how many parameters or results a function type may have.
const maxValues = 1_000

// Properties of the countdown.
const (
	// DefaultQuantum is how many units pass between two yields: 5 to 80
	// microseconds of ordinary code. Smaller costs speed, larger costs latency.
	DefaultQuantum = 16_384

	// maxQuantum keeps the countdown's arithmetic far from 2^31: a bulk operation
	// takes at most 2^26 units, and what is added to the rest is a quantum.
	maxQuantum = 1 << 30

	// StraightBytes is how much code may run between two polls. Half of it costs
	// Go programs another 3 percent of time.
	StraightBytes = 1 << 10

	// leafBytes is the size up to which a function without loops, calls and
	// bulk operations has no poll of its own.
	leafBytes = 128

	// maxPolls is how many polls a function may have. Each is a call and two or
	// three blocks to the engine, and its compile time (wazero 1.12) grows with
	// the cube of them: 2,000 take a second, 4,000 half a minute. The most that
	// was seen in practice are 250.
	maxPolls = 2_000
)
