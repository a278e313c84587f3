package guestbuild

import "testing"

// CompileWith compiles dir as Build does, with more variables set.
func CompileWith(t *testing.T, dir string, more ...string) []byte {
	t.Helper()
	tc, err := FindToolchain(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	tc.env = append(tc.env, more...)
	wasm, err := compile(t.Context(), tc, dir)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}
