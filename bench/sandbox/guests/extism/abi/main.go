//go:build wasip1

// Command abi is the guest of the same name as an Extism plugin.
package main

import (
	"encoding/json"
	"strings"

	"github.com/wasmtools/wasmtools/testdata/foreign/pdk"
)

type text struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type output struct {
	Words int    `json:"words"`
	First string `json:"first"`
}

//go:wasmexport call
func call() int32 {
	var in struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(pdk.Input(), &in); err != nil {
		return pdk.Fail(err.Error())
	}
	var out output
	for word := range strings.FieldsSeq(in.Text) {
		if out.Words++; out.Words == 1 {
			out.First = word
		}
	}
	structured, err := json.Marshal(out)
	if err != nil {
		return pdk.Fail(err.Error())
	}
	answer, err := json.Marshal(struct {
		Content    []text          `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}{[]text{{"text", string(structured)}}, structured})
	if err != nil {
		return pdk.Fail(err.Error())
	}
	pdk.Output(answer)
	return 0
}

func main() {}
