module example.com/wordcount

go 1.26.5

require github.com/wasmtools/wasmtools v0.0.0

replace github.com/wasmtools/wasmtools => ../..
