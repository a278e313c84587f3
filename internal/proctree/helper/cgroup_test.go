//go:build linux && (amd64 || arm64)

package helper

import (
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "a": {"a"}, "a b": {"a", "b"}, "  a   b ": {"a", "b"}, " ": nil,
	} {
		if got := fields(text); !slices.Equal(got, want) {
			t.Errorf("fields(%q) = %q; want %q", text, got, want)
		}
	}
	if got := lines([]byte("a\n\nb")); !slices.Equal(got, []string{"a", "", "b"}) {
		t.Errorf("lines = %q", got)
	}
	if rest, ok := cutPrefix("0::/x", "0::"); rest != "/x" || !ok {
		t.Errorf("cutPrefix = %q, %v", rest, ok)
	}
	if _, ok := cutPrefix("0", "0::"); ok {
		t.Error("cutPrefix of a short text")
	}
}
