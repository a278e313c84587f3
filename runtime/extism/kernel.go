package extism

import (
	"encoding/binary"
	"math"

	"github.com/wasmtools/wasmtools/runtime/wasihost"
	"github.com/wasmtools/wasmtools/tool"
)

// kernel is the memory through which a plugin and its host exchange bytes: a
// number of blocks, named by their offset. It behaves as Extism's own kernel
// does for every plugin that uses blocks that it was given (TestKernelTwin).
//
// Unlike there, nothing of how blocks are kept lies in memory that the plugin
// can write, and every operation takes constant time.
type kernel struct {
	memory *wasihost.Memory
	mem    []byte
	blocks map[uint64]block
	free   map[uint64][]uint64 // offsets of blocks given back, by room

	input, output block
	err           uint64
}

// block is a piece of the memory. A zero block is none.
type block struct{ at, n, room uint64 }

const (
	firstBlock = 16 // so that no block is 0
	blockCost  = 96 // what a block costs the host beside its bytes
	growth     = 64 << 10
)

func newKernel(m *wasihost.Memory) *kernel {
	return &kernel{memory: m, blocks: map[uint64]block{}, free: map[uint64][]uint64{}, mem: make([]byte, firstBlock)}
}

// alloc makes a block of n bytes; 0 means that there is no room.
func (k *kernel) alloc(n uint64) uint64 {
	if n == 0 || n > uint64(k.memory.Limit()) {
		return 0
	}
	room := (n + 15) &^ 15
	if list := k.free[room]; len(list) > 0 {
		at := list[len(list)-1]
		k.free[room] = list[:len(list)-1]
		k.blocks[at] = block{at, n, room}
		return at
	}
	at := uint64(len(k.mem))
	if need := at + room; need > uint64(cap(k.mem)) {
		// Each time twice as much, then half of what is left: what is there is
		// copied some dozen times and not for every block.
		more := max(room, uint64(cap(k.mem)), growth)
		if left := k.memory.Left(); more > left {
			more = max(room, left/2)
		}
		if !k.memory.Take(more) {
			return 0
		}
		grown := make([]byte, at, uint64(cap(k.mem))+more)
		copy(grown, k.mem)
		k.mem = grown
	}
	if !k.memory.Take(blockCost) {
		return 0
	}
	k.mem = k.mem[:at+room]
	k.blocks[at] = block{at, n, room}
	return at
}

// put makes a block that holds p.
func (k *kernel) put(p []byte) uint64 {
	if len(p) == 0 {
		return 0
	}
	at := k.alloc(uint64(len(p)))
	if at == 0 {
		panic(tool.Errorf(tool.MemoryLimit, "the module has no room for %d bytes from the host", len(p)))
	}
	copy(k.mem[at:], p)
	return at
}

func (k *kernel) release(at uint64) {
	b, ok := k.blocks[at]
	if !ok {
		return
	}
	delete(k.blocks, at)
	k.free[b.room] = append(k.free[b.room], at)
	if k.input.at == at {
		k.input.n = 0 // what the input was is gone
	}
}

// reset gives every block back.
func (k *kernel) reset() {
	for at := range k.blocks {
		k.release(at)
	}
	k.input, k.output, k.err = block{}, block{}, 0
}

func (k *kernel) length(at uint64) uint64 { return k.blocks[at].n }

// take copies a block that the plugin named.
func (k *kernel) take(at uint64) []byte { return k.part(at, math.MaxUint64) }

// part copies at most limit bytes of a block that the plugin named.
func (k *kernel) part(at, limit uint64) []byte {
	b, ok := k.blocks[at]
	if !ok {
		if at == 0 {
			return nil
		}
		panic(tool.Errorf(tool.Trap, "the module named a block of memory that it does not have (%d)", at))
	}
	return append([]byte(nil), k.mem[b.at:b.at+min(b.n, limit)]...)
}

func (k *kernel) inside(at uint64) bool { return at >= firstBlock && at < uint64(len(k.mem)) }

// view is for what may lie anywhere in the memory, not only at a block.
func (k *kernel) view(at, n uint64) []byte {
	if size := uint64(len(k.mem)); n > size || at > size-n {
		panic(tool.Errorf(tool.Trap, "the module named memory that it does not have (%d bytes at %d)", n, at))
	}
	return k.mem[at : at+n]
}

func (k *kernel) set(to *block, at, n uint64) {
	if n == 0 || k.inside(at) && n <= uint64(len(k.mem))-at {
		*to = block{at: at, n: n}
	}
}

// bytes copies what set was given; the block may be given back since.
func (k *kernel) bytes(b block) []byte {
	if b.n == 0 {
		return nil
	}
	return append([]byte(nil), k.view(b.at, b.n)...)
}

// message is the plugin's own words about its failure, at most limit bytes.
func (k *kernel) message(limit int) string {
	b := k.blocks[k.err]
	return string(k.mem[b.at : b.at+min(b.n, uint64(limit))])
}

// call does one of the kernel's functions. args are the plugin's, and args[0]
// becomes the result.
func (k *kernel) call(name string, args []uint64) {
	switch name {
	case "alloc":
		args[0] = k.alloc(args[0])
	case "free":
		k.release(args[0])
	case "length", "length_unsafe":
		args[0] = k.length(args[0])
	case "load_u8":
		args[0] = k.load8(args[0])
	case "load_u64":
		args[0] = binary.LittleEndian.Uint64(k.view(args[0], 8))
	case "store_u8":
		if k.inside(args[0]) {
			k.mem[args[0]] = byte(args[1])
		}
	case "store_u64":
		if args[0] < firstBlock {
			panic(tool.Errorf(tool.Trap, "the module wrote to memory that it does not have"))
		}
		binary.LittleEndian.PutUint64(k.view(args[0], 8), args[1])
	case "input_load_u8":
		at := args[0]
		args[0] = 0
		if at < k.input.n {
			args[0] = k.load8(k.input.at + at)
		}
	case "input_load_u64":
		args[0] = binary.LittleEndian.Uint64(k.view(k.input.at+args[0], 8))
	case "input_set":
		k.set(&k.input, args[0], args[1])
	case "output_set":
		k.set(&k.output, args[0], args[1])
	case "input_length":
		args[0] = k.input.n
	case "input_offset":
		args[0] = k.input.at
	case "output_length":
		args[0] = k.output.n
	case "output_offset":
		args[0] = k.output.at
	case "error_set":
		if args[0] == 0 || k.inside(args[0]) {
			k.err = args[0]
		}
	case "error_get":
		args[0] = k.err
	case "reset":
		k.reset()
	case "memory_bytes":
		args[0] = uint64(len(k.mem))
	}
}

func (k *kernel) load8(at uint64) uint64 {
	if !k.inside(at) {
		return 0
	}
	return uint64(k.mem[at])
}
