// Command jsonregexp is a guest that compiles a pattern in every call and finds
// what matches: 3.8 MB with regexp, encoding/json and fmt.
package main

import (
	"fmt"
	"regexp"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
	"github.com/wasmtools/wasmtools/guest-sdk/typed"
)

type input struct {
	Pattern string `json:"pattern"`
	Text    string `json:"text"`
}

type output struct {
	Matches []string `json:"matches"`
	Note    string   `json:"note"`
}

func init() {
	guest.Describe(guest.Module{Name: "jsonregexp", Version: "1.0.0", Description: "Finds what matches."})
	typed.Add(guest.Tool{Name: "find", Description: "Finds what matches."}, func(_ *guest.Call, in input) (output, error) {
		re, err := regexp.Compile(in.Pattern)
		if err != nil {
			return output{}, err
		}
		all := re.FindAllString(in.Text, 100)
		return output{all, fmt.Sprintf("%d found", len(all))}, nil
	})
}

func main() {}
