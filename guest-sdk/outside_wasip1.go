package guest

import "unsafe"

//go:wasmimport wasmtools_v1 http_request
func hostHTTPRequest(req unsafe.Pointer, reqLen uint32, body unsafe.Pointer, bodyLen uint32) int64

//go:wasmimport wasmtools_v1 kv_get
func hostKVGet(key string) int64

//go:wasmimport wasmtools_v1 kv_set
func hostKVSet(key string, value unsafe.Pointer, valueLen uint32) int64

//go:wasmimport wasmtools_v1 kv_remove
func hostKVRemove(key string) int64

//go:wasmimport wasmtools_v1 config_get
func hostConfigGet(name string) int64

func (wasmABI) HTTPRequest(req, body []byte) int64 {
	return hostHTTPRequest(ptr(req), uint32(len(req)), ptr(body), uint32(len(body)))
}
func (wasmABI) KVGet(key string) int64 { return hostKVGet(key) }
func (wasmABI) KVSet(key string, value []byte) int64 {
	return hostKVSet(key, ptr(value), uint32(len(value)))
}
func (wasmABI) KVRemove(key string) int64   { return hostKVRemove(key) }
func (wasmABI) ConfigGet(name string) int64 { return hostConfigGet(name) }

var _ outsideABI = wasmABI{}
