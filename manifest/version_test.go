package manifest

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// versionPattern is validVersion's slow twin.
var versionPattern = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})(-[0-9A-Za-z.-]{1,64})?(\+[0-9A-Za-z.-]{1,64})?$`)

// TestValidVersion compares the two on versions, on near misses and on random
// text over the characters that matter.
func TestValidVersion(t *testing.T) {
	list := []string{
		"", "1", "1.2", "1.2.3", "01.2.3", "1.02.3", "0.0.0", "1.2.3.4", "v1.2.3", "1.2.3-", "1.2.3+", "1.2.3-rc.1", "1.2.3+b-1", "1.2.3-a+b",
		"1.2.3+a-b", "1.2.3-a+b+c", "1..3", "1.2.3 ", "1.2.3\n", "999999999.0.0", "1000000000.0.0", "1.2.3-ä",
		"1.2.3-" + strings.Repeat("x", 64), "1.2.3-" + strings.Repeat("x", 65),
	}
	const letters = "0019..-+ax\n"
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		p := make([]byte, r.IntN(12))
		for i := range p {
			p[i] = letters[r.IntN(len(letters))]
		}
		list = append(list, string(p))
	}
	for _, s := range list {
		if got, want := validVersion(s), versionPattern.MatchString(s); got != want {
			t.Fatalf("validVersion(%q) = %v, want %v", s, got, want)
		}
	}
}
