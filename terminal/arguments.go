package terminal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// Arguments are those of a call of the tool. Each operation takes some of them.
type Arguments struct {
	Op             string            `json:"op"`
	Command        string            `json:"command"`
	Cwd            string            `json:"cwd"`
	Env            map[string]string `json:"env"`
	TTY            bool              `json:"tty"`
	Split          bool              `json:"split"`
	YieldMS        int64             `json:"yield_ms"`
	TimeoutMS      int64             `json:"timeout_ms"`
	MaxOutputBytes int64             `json:"max_output_bytes"`
	Shell          string            `json:"shell"`
	Cols           int64             `json:"cols"`
	Rows           int64             `json:"rows"`
	Profile        string            `json:"profile"`
	Session        string            `json:"session"`
	Process        string            `json:"process"`
	Until          string            `json:"until"`
	Text           string            `json:"text"`
	Keys           []string          `json:"keys"`
	SecretRef      string            `json:"secret_ref"`
	Cursor         *int64            `json:"cursor"`
	MaxBytes       int64             `json:"max_bytes"`
	Signal         string            `json:"signal"`
	Target         string            `json:"target"`

	until *Until
}

// id is the session or process that a call is about.
func (a *Arguments) id() string {
	if a.Session != "" {
		return a.Session
	}
	return a.Process
}

// takes lists for each operation what it takes, what it needs marked with an
// exclamation mark. "id" stands for session or process.
var takes = map[string]string{
	"exec":   "command! cwd env tty split yield_ms timeout_ms max_output_bytes until profile",
	"open":   "shell cwd env cols rows profile",
	"run":    "session! command! yield_ms timeout_ms until max_output_bytes",
	"send":   "id! text keys secret_ref yield_ms max_output_bytes",
	"read":   "id! cursor max_bytes",
	"screen": "id!",
	"wait":   "id! until! timeout_ms max_output_bytes",
	"resize": "id! cols! rows!",
	"signal": "id! signal! target max_output_bytes",
	"list":   "",
	"close":  "id!",
}

// Ops are the operations, in the order in which they are explained.
var Ops = []string{"exec", "open", "run", "send", "read", "screen", "wait", "resize", "signal", "list", "close"}

// Decode reads arguments that fit the schema, and holds them against their
// operation. Its error names every fault with its place.
func Decode(raw json.RawMessage) (Arguments, error) {
	var a Arguments
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return a, tool.Errorf(tool.InvalidArguments, "the arguments are no JSON object")
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		var wrong *json.UnmarshalTypeError
		if asError(err, &wrong) {
			return a, tool.Errorf(tool.InvalidArguments, "$.%s: %s does not fit", wrong.Field, wrong.Value)
		}
		return a, tool.Errorf(tool.InvalidArguments, "the arguments cannot be read")
	}
	list, known := takes[a.Op]
	if !known {
		return a, tool.Errorf(tool.InvalidArguments, "$.op: there is no operation %s", tool.QuotePath(clip(a.Op))).
			WithNext("use one of %s", strings.Join(Ops, ", "))
	}
	var faults []string
	fault := func(name, format string, args ...any) {
		faults = append(faults, "$."+name+": "+fmt.Sprintf(format, args...))
	}
	allowed := map[string]bool{"op": true}
	for _, word := range strings.Fields(list) {
		name, needed := strings.CutSuffix(word, "!")
		if name == "id" {
			allowed["session"], allowed["process"] = true, true
			if given["session"] == nil && given["process"] == nil {
				fault("session", "op %s needs session or process", a.Op)
			}
			if given["session"] != nil && given["process"] != nil {
				fault("process", "session and process exclude each other")
			}
			continue
		}
		allowed[name] = true
		if needed && given[name] == nil {
			fault(name, "op %s needs it", a.Op)
		}
	}
	for _, name := range sortedKeys(given) {
		if !allowed[name] {
			fault(name, "op %s does not take it", a.Op)
		}
	}
	within := func(name string, n, least, most int64) {
		if given[name] != nil && allowed[name] && (n < least || n > most) {
			fault(name, "%d is not between %d and %d", n, least, most)
		}
	}
	within("yield_ms", a.YieldMS, MinYield.Milliseconds(), MaxYield.Milliseconds())
	if a.Op == "wait" {
		within("timeout_ms", a.TimeoutMS, MinYield.Milliseconds(), MaxYield.Milliseconds())
	} else {
		within("timeout_ms", a.TimeoutMS, 1, MaxTimeout.Milliseconds())
	}
	within("max_output_bytes", a.MaxOutputBytes, MinOutput, MaxOutput)
	within("max_bytes", a.MaxBytes, MinOutput, MaxOutput)
	within("cols", a.Cols, 1, MaxCols)
	within("rows", a.Rows, 1, MaxRows)
	if given["until"] != nil && allowed["until"] {
		u, err := ParseUntil(a.Until)
		if err != nil {
			fault("until", "%s", strings.TrimPrefix(asText(err), "until: "))
		}
		a.until = u
	}
	if given["signal"] != nil && allowed["signal"] {
		if _, ok := signalNumber(a.Signal); !ok {
			fault("signal", "there is no signal %s", tool.QuotePath(clip(a.Signal)))
		}
	}
	if given["target"] != nil && !slices.Contains([]string{"foreground", "tree", "session"}, a.Target) {
		fault("target", "it is none of foreground, tree and session")
	}
	if a.Op == "send" {
		n := 0
		for _, name := range []string{"text", "keys", "secret_ref"} {
			if given[name] != nil {
				n++
			}
		}
		if n != 1 {
			fault("text", "op send takes one of text, keys and secret_ref, and %d are given", n)
		}
	}
	if len(faults) > 0 {
		return a, tool.Errorf(tool.InvalidArguments, "%s", strings.Join(faults, "; ")).
			WithNext("op %s takes: %s", a.Op, explain(list))
	}
	return a, nil
}

// explain is a list of takes in words.
func explain(list string) string {
	if list == "" {
		return "nothing else"
	}
	words := strings.Fields(list)
	for i, w := range words {
		name, needed := strings.CutSuffix(w, "!")
		if name == "id" {
			name = "session or process"
		}
		if needed {
			name += " (needed)"
		}
		words[i] = name
	}
	return strings.Join(words, ", ")
}

func asText(err error) string {
	var e *tool.Error
	if asError(err, &e) {
		return e.Text
	}
	return err.Error()
}

func sortedKeys[V any](m map[string]V) []string {
	l := make([]string, 0, len(m))
	for k := range m {
		l = append(l, k)
	}
	return sorted(l)
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
