//go:build !linux

package linmem

import (
	"errors"
	"unsafe"
)

// sealed is for systems that have files in memory which can be sealed.
type sealed struct{}

func (i *Image) store(data []byte) error {
	i.keep(data)
	return nil
}

func (i *Image) mapAt(unsafe.Pointer) error { return errors.ErrUnsupported }

func (i *Image) discard() error {
	i.data = nil
	return nil
}
