// Command wordcount is an example of a tool that is not part of wasmtools: a
// module of its own that imports nothing of it but the public SDK. Build it with
// `wasmtools build`, try it with
//
//	wasmtools run --module wordcount.wasm --grant 'fs.read=**' word_count '{"path":"README.md"}'
package main

import (
	"fmt"
	"strings"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
	"github.com/wasmtools/wasmtools/guest-sdk/typed"
)

// maxBytes keeps the tool far below its memory limit.
const maxBytes = 8 << 20

type input struct {
	Path    string `json:"path" jsonschema:"The file to count, from the workspace root."`
	Longest bool   `json:"longest,omitempty" jsonschema:"Also name the longest word."`
}

type output struct {
	Lines   int    `json:"lines" jsonschema:"Number of lines."`
	Words   int    `json:"words" jsonschema:"Number of words, separated by white space."`
	Bytes   int    `json:"bytes" jsonschema:"Size of the file."`
	Longest string `json:"longest,omitempty" jsonschema:"The longest word, if it was asked for."`
}

func init() {
	guest.Describe(guest.Module{Name: "wordcount", Version: "1.0.0", Description: "Counts words."})
	typed.Add(guest.Tool{
		Name:        "word_count",
		Title:       "Count words",
		Description: "Count the lines, words and bytes of one text file.",
		Mode:        guest.Parallel,
		Effects:     []guest.Effect{guest.Reads},
		Read:        []string{"**"},
	}, count)
}

func count(c *guest.Call, in input) (output, error) {
	data, err := c.ReadFile(in.Path, maxBytes)
	if err != nil {
		return output{}, err
	}
	text := string(data)
	out := output{Lines: strings.Count(text, "\n"), Bytes: len(data)}
	if text != "" && !strings.HasSuffix(text, "\n") {
		out.Lines++
	}
	for word := range strings.FieldsSeq(text) {
		out.Words++
		if in.Longest && len(word) > len(out.Longest) {
			out.Longest = word
		}
	}
	return out, c.Progress(int64(len(data)), int64(len(data)), fmt.Sprintf("counted %s", in.Path))
}

func main() {}
