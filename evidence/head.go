package evidence

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// The head is a small file that says where the record ends. It is written
// after every line, under the lock, so that a line cannot be taken from the end
// without showing. It holds two slots that are written in turn, because a crash
// of the machine can leave one of them torn; the one with the higher count
// stands.
//
// The head knows two ends: end is what was written, durable what was flushed
// to the disk for certain. Within one boot the kernel loses nothing that was
// written, so anything before end must be there. After a crash of the machine
// only what lies before durable must.
type head struct {
	log     [16]byte
	boot    [16]byte // that of the last writer; zero if the system does not tell
	count   uint64
	end     position
	durable position
}

const (
	headName = "head"
	slotSize = 256
	headSize = 2 * slotSize
)

var headMagic = [8]byte{'w', 't', 'e', 'v', 'h', 'd', '0', '1'}

var errHead = errors.New("the head of the record is missing or damaged")

func (h *head) encode(macKey []byte) []byte {
	b := make([]byte, 0, slotSize)
	b = append(b, headMagic[:]...)
	b = append(b, h.log[:]...)
	b = append(b, h.boot[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.count)
	for _, p := range []*position{&h.end, &h.durable} {
		b = binary.LittleEndian.AppendUint64(b, p.seq)
		b = append(b, p.hash[:]...)
		b = binary.LittleEndian.AppendUint64(b, p.segment)
		b = binary.LittleEndian.AppendUint64(b, uint64(p.offset))
	}
	m := hmac.New(sha256.New, macKey)
	m.Write(b)
	b = m.Sum(b)
	return append(b, make([]byte, slotSize-len(b))...)
}

const headUsed = 8 + 16 + 16 + 8 + 2*(8+32+8+8)

// decodeSlot reads one slot. Without a key the code is not checked.
func decodeSlot(b, macKey []byte) (h head, ok bool) {
	if len(b) < headUsed+sha256.Size || [8]byte(b[:8]) != headMagic {
		return h, false
	}
	if macKey != nil {
		m := hmac.New(sha256.New, macKey)
		m.Write(b[:headUsed])
		if !hmac.Equal(m.Sum(nil), b[headUsed:headUsed+sha256.Size]) {
			return h, false
		}
	}
	b = b[8:]
	next := func(n int) []byte { p := b[:n]; b = b[n:]; return p }
	num := func() uint64 { return binary.LittleEndian.Uint64(next(8)) }
	copy(h.log[:], next(16))
	copy(h.boot[:], next(16))
	h.count = num()
	for _, p := range []*position{&h.end, &h.durable} {
		p.seq = num()
		copy(p.hash[:], next(32))
		p.segment = num()
		p.offset = int64(num())
	}
	return h, h.end.offset >= 0 && h.durable.offset >= 0
}

// decodeHead returns the newer slot. Whole is false if the other one, which a
// process that is killed never leaves torn, is not good as well.
func decodeHead(b, macKey []byte) (best head, whole bool, err error) {
	good := 0
	for len(b) >= slotSize {
		if h, ok := decodeSlot(b[:slotSize], macKey); ok {
			if good++; good == 1 || h.count > best.count {
				best = h
			}
		}
		b = b[slotSize:]
	}
	if good == 0 {
		return best, false, errHead
	}
	return best, good == 2 || best.count == 1, nil
}

// readHead reads the raw head. A short or missing one is errHead.
func readHead(f *os.File, buf []byte) error {
	n, err := f.ReadAt(buf[:headSize], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	clear(buf[n:headSize])
	return nil
}

// write puts h into the slot whose turn it is, and into raw, which is what the
// file holds then.
func (h *head) write(f *os.File, macKey, raw []byte) error {
	h.count++
	slot := h.encode(macKey)
	at := int(h.count%2) * slotSize
	if _, err := f.WriteAt(slot, int64(at)); err != nil {
		return err
	}
	copy(raw[at:], slot)
	return nil
}
