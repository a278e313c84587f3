package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errLong says that a line was longer than [maxLine]; the reader has passed
// over it and stands on the next one.
var errLong = errors.New("line too long")

// lines cuts a stream into lines.
type lines struct {
	r *bufio.Reader
}

func newLines(r io.Reader) *lines { return &lines{bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line that is not blank, in memory of its own, without
// its end. The last line need not have one. It holds at most maxLine bytes and
// a bufio buffer at a time, whatever is sent.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.one()
		if err != nil && (err != io.EOF || len(line) == 0) {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
}

func (l *lines) one() ([]byte, error) {
	var long []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(long)+len(part) > maxLine+1 {
			for err == bufio.ErrBufferFull {
				_, err = l.r.ReadSlice('\n')
			}
			if err != nil && err != io.EOF {
				return nil, err
			}
			return nil, errLong
		}
		long = append(long, part...)
		if err != bufio.ErrBufferFull {
			return long, err
		}
	}
}
