module github.com/wasmtools/wasmtools/bench/wasmtime

go 1.26.5

require github.com/bytecodealliance/wasmtime-go/v39 v39.0.1
