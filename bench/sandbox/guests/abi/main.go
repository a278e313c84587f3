// Command abi is a guest that decodes its arguments and encodes its result with
// encoding/json, as most tools in Go do.
package main

import (
	guest "github.com/wasmtools/wasmtools/guest-sdk"
	"github.com/wasmtools/wasmtools/guest-sdk/typed"
)

type input struct {
	Text string `json:"text"`
}

type output struct {
	Words int    `json:"words"`
	First string `json:"first"`
}

func init() {
	guest.Describe(guest.Module{Name: "abi", Version: "1.0.0", Description: "Counts words."})
	typed.Add(guest.Tool{Name: "words", Description: "Counts words."}, func(_ *guest.Call, in input) (output, error) {
		var out output
		from := -1
		for i := 0; i <= len(in.Text); i++ {
			if i < len(in.Text) && in.Text[i] != ' ' {
				if from < 0 {
					from = i
				}
				continue
			}
			if from >= 0 {
				if out.Words++; out.Words == 1 {
					out.First = in.Text[from:i]
				}
				from = -1
			}
		}
		return out, nil
	})
}

func main() {}
