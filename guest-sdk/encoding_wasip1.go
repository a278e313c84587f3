package guest

import "unsafe"

//go:wasmimport wasmtools_v1 fs_read_text
func hostReadText(path, encoding string) int64

//go:wasmimport wasmtools_v1 fs_write_text
func hostWriteText(path string, text unsafe.Pointer, textLen uint32, encoding string, flags uint32) int64

func (wasmABI) ReadText(path, encoding string) int64 { return hostReadText(path, encoding) }
func (wasmABI) WriteText(path string, text []byte, encoding string, flags int) int64 {
	return hostWriteText(path, ptr(text), uint32(len(text)), encoding, uint32(flags))
}

var _ textABI = wasmABI{}
