package linmem

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
)

// pageSize is the system's unit of mapping and so of what a reset restores, in
// bytes. It divides WasmPage on every system: 4, 16 or 64 KiB.
var pageSize = uint64(os.Getpagesize())

// zeroPage is what a page of the image that holds no data is compared with.
var zeroPage = make([]byte, pageSize)

var errImageClosed = errors.New("linmem: the image was closed")

// An Image is a snapshot of linear memory, shared by any number of memories and
// safe for concurrent use. Only the pages that are not zero take up memory, once
// for all.
type Image struct {
	size   uint64
	data   []byte   // read-only, up to the last page that is not zero
	filled []uint64 // one bit per page of data: it is not zero
	copied bool     // data is an ordinary copy, there is no file to map

	file sealed

	mu     sync.Mutex
	refs   int // memories made from it and not yet freed
	closed bool
	gone   bool // data and file are given back
}

// NewImage copies mem, whose length must be a whole number of wasm pages and at
// most [MaxLimit]. On Linux the copy is a file in memory which is sealed: neither
// this process nor one that opens it through /proc can write, shrink or grow it.
// Close the Image when no further memory will be made from it.
func NewImage(mem []byte) (*Image, error) {
	size := uint64(len(mem))
	if size%WasmPage != 0 {
		return nil, fmt.Errorf("linmem: an image of %d bytes is no whole number of wasm pages", size)
	}
	if size > MaxLimit {
		return nil, fmt.Errorf("linmem: an image of %d bytes is more than can be addressed", size)
	}
	i := &Image{size: size}
	pages := size / pageSize
	i.filled = make([]uint64, (pages+63)/64)
	end := uint64(0)
	for p := range pages {
		if !bytes.Equal(mem[p*pageSize:(p+1)*pageSize], zeroPage) {
			i.filled[p/64] |= 1 << (p % 64)
			end = (p + 1) * pageSize
		}
	}
	if end == 0 {
		return i, nil
	}
	if err := i.store(mem[:end]); err != nil {
		return nil, fmt.Errorf("linmem: store an image of %d bytes: %w", size, err)
	}
	return i, nil
}

// keep makes an ordinary copy of data, for systems without files in memory.
func (i *Image) keep(data []byte) {
	i.data, i.copied = append([]byte(nil), data...), true
}

// Size is the length of the snapshot in bytes.
func (i *Image) Size() uint64 { return i.size }

// Close gives the snapshot back once the last memory made from it is freed; no
// further one can be made. It may be called more than once.
func (i *Image) Close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	return i.dispose()
}

func (i *Image) acquire() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return false
	}
	i.refs++
	return true
}

func (i *Image) release() {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refs--
	_ = i.dispose() // nobody is left whom a failing close could concern
}

func (i *Image) dispose() error {
	if !i.closed || i.refs > 0 || i.gone {
		return nil
	}
	i.gone = true
	return i.discard()
}

// page is what the page at offset off, a multiple of pageSize, looks like.
func (i *Image) page(off uint64) []byte {
	if !i.holds(off) {
		return zeroPage
	}
	return i.data[off : off+pageSize]
}

// holds tells whether the page at offset off is not zero.
func (i *Image) holds(off uint64) bool {
	return i != nil && off < uint64(len(i.data)) && i.filledAt(off)
}

func (i *Image) filledAt(off uint64) bool {
	p := off / pageSize
	return i.filled[p/64]&(1<<(p%64)) != 0
}
