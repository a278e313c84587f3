package evidence

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

func BenchmarkRead(b *testing.B) {
	l := testLog(b)
	in := readCall(`{"path":"src/main.go","selection":{"lines":{"start":1,"end":200}}}`)
	out := Outcome{Status: Completed, Output: tool.DigestOf([]byte("x")), OutputBytes: 8000, Used: Used{HostCalls: 4, BytesRead: 9000, Paths: []string{"src/main.go"}, MemoryPeak: 4 << 20, Fuel: 123456}}
	end(b, l, begin(b, l, in), out)
	b.ResetTimer()
	for b.Loop() {
		end(b, l, begin(b, l, in), out)
	}
}

func benchEffect(b *testing.B, e tool.Effects) {
	l := testLog(b)
	in := Intent{Call: "c", Session: "s", Tool: "replace_block", Effects: e, Arguments: json.RawMessage(`{"path":"src/main.go","old":"func main","new":"func Main"}`), Input: tool.DigestOf(nil)}
	end(b, l, begin(b, l, in), Outcome{Status: Completed})
	for b.Loop() {
		h := begin(b, l, in)
		_ = l.Event(h, Event{Kind: ApprovalRequired, Approval: &Approval{Ticket: "x"}})
		_ = l.Event(h, Event{Kind: Decided, Approval: &Approval{Ticket: "x", Verdict: "allow"}})
		_ = l.Event(h, Event{Kind: Started})
		end(b, l, h, Outcome{Status: Completed, Writes: []Write{{Op: tool.OpWrite, Path: "src/main.go", Before: tool.DigestOf(nil), After: tool.DigestOf(nil)}}})
	}
}

func BenchmarkWrite(b *testing.B)   { benchEffect(b, tool.Writes) }
func BenchmarkDestroy(b *testing.B) { benchEffect(b, tool.Destroys) }

func fill(b testing.TB, calls int) *Log {
	l := testLog(b)
	pad := strings.Repeat("some text of a call ", 40)
	for i := range calls {
		in := readCall(fmt.Sprintf(`{"path":"src/dir%d/file%d.go","note":%q}`, i%100, i, pad[:650]))
		in.Call = fmt.Sprint("call-", i)
		end(b, l, begin(b, l, in), Outcome{Status: Completed, Message: pad[:740], Used: Used{Paths: []string{fmt.Sprintf("src/dir%d/file%d.go", i%100, i)}}})
	}
	return l
}

func BenchmarkVerify(b *testing.B) {
	l := fill(b, 50_000)
	closeLog(b, l)
	b.ResetTimer()
	var r Report
	for b.Loop() {
		r = verified(b, l.o.Dir)
	}
	size := int64(0)
	v := verifier{dir: l.o.Dir}
	u, err := v.snapshot()
	if err != nil {
		b.Fatal(err)
	}
	u()
	for _, n := range v.sizes {
		size += n
	}
	b.ReportMetric(float64(r.Records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(size)/float64(r.Records), "B/record")
}
