//go:build amd64 || arm64

package proctree_test

import (
	"context"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
)

// BenchmarkTrue compares a start of true through the warm helper, all output
// read and the tree ended, with os/exec's own in the same process. The goal is
// a median within twice of os/exec's.
func BenchmarkTrue(b *testing.B) {
	median := func(b *testing.B, once func()) {
		once()
		times := make([]time.Duration, 0, b.N)
		for b.Loop() {
			begin := time.Now()
			once()
			times = append(times, time.Since(begin))
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	}
	b.Run("os-exec", func(b *testing.B) {
		median(b, func() {
			if _, err := exec.Command("/bin/true").CombinedOutput(); err != nil {
				b.Fatal(err)
			}
		})
	})
	h := open(b)
	for _, profile := range []proctree.Profile{
		{Name: proctree.None},
		{Name: proctree.WorkspaceWrite, Network: proctree.NetworkLoopback, Write: []string{realDir(b)}, Tmp: realDir(b)},
	} {
		b.Run(profile.Name, func(b *testing.B) {
			s := proctree.Spec{Path: "/bin/true", Argv: []string{"true"}, Dir: "/", Merge: true, Profile: profile}
			median(b, func() {
				p, err := h.Start(context.Background(), s)
				if err != nil {
					b.Fatal(err)
				}
				io.ReadAll(p.Stdout)
				e, _ := p.Wait(context.Background())
				p.Stdout.Close()
				if p.Close() != nil || e.Code != 0 {
					b.Fatal(e)
				}
			})
		})
	}
}
