// Command sdk is a guest with the SDK and nothing else: no encoding/json, regexp or
// fmt.
package main

import guest "github.com/wasmtools/wasmtools/guest-sdk"

func init() {
	guest.Describe(guest.Module{Name: "sdk", Version: "1.0.0", Description: "Counts a letter."})
	guest.Add(guest.Tool{
		Name: "count", Description: "Counts the letter a.",
		Input: `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`,
		Call: func(c *guest.Call) (guest.Result, error) {
			n := 0
			for _, b := range []byte(c.Args.Get("text").TextOr("")) {
				if b == 'a' {
					n++
				}
			}
			return guest.Text(string(rune('0' + n%10))), nil
		},
	})
}

func main() {}
