package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/internal/ptytest"
	"github.com/wasmtools/wasmtools/tool"
)

// A tool's text reaches a file or a pipe as it is, and a terminal so that it obeys
// nothing in it.
func TestResultOnTerminal(t *testing.T) {
	const text = "1\ta\x1b]0;owned\x07\x1b[2Jb\u202e\n2\tend"
	var plain bytes.Buffer
	if err := printResult(&plain, tool.TextResult(text), false); err != nil || plain.String() != text+"\n" {
		t.Errorf("a pipe gets %q, %v", plain.String(), err)
	}
	master, slave := ptytest.Open(t)
	if err := printResult(slave, tool.TextResult(text), false); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(slave, "DONE"); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for buf := make([]byte, 4096); !bytes.Contains(got, []byte("DONE")); {
		n, err := master.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
	}
	if strings.ContainsAny(string(got), "\x1b\x07\u202e") || !strings.Contains(string(got), "2") || !strings.Contains(string(got), "end") {
		t.Errorf("a terminal gets %q", got)
	}
}
