package main

import (
	"context"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/config"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/tool"
)

// TestReplayCut: what the record says was cut is not judged as if it were whole,
// and arguments that only look so are judged.
func TestReplayCut(t *testing.T) {
	src, err := config.NewSource(config.Places{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := &checker{root: t.TempDir(), source: src}
	const whole = `{"cut":{"bytes":70000,"head":"x"}}`
	for _, c := range []struct {
		name, tool, args string
		cut              bool
		judged           bool
		doubt            string
	}{
		{"as a whole", "other", whole, true, false, ""},
		{"looks so", "other", whole, false, true, ""},
		{"a text", "other", `{"a":"x… [cut: 5000 bytes]"}`, true, true, "too long"},
		{"a command", terminalTool, `{"command":"ls… [cut: 5000 bytes]"}`, true, false, ""},
		{"a whole command", terminalTool, `{"command":"ls"}`, false, true, ""},
	} {
		call := &evidence.Call{
			Cut: c.cut, Intent: evidence.Intent{Tool: c.tool, Source: tool.Installed, Effects: tool.Executes, Arguments: []byte(c.args)},
			Outcome: &evidence.Outcome{Approval: evidence.Approval{Verdict: string(policy.Deny)}},
		}
		p := k.judgePast(context.Background(), call)
		if (p.Now != nil) != c.judged || c.judged == (p.NotJudged != "") || c.doubt == "" != (len(p.Inexactly) == 0) || !strings.Contains(p.doubt(), c.doubt) {
			t.Errorf("%s: judged %v, not judged %q, in doubt %q", c.name, p.Now != nil, p.NotJudged, p.Inexactly)
		}
	}
}
