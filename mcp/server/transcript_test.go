package server

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/transcripts")

// TestTranscripts plays what a client sends and compares what the server
// answers. A file of an archive is one session. Its lines are
//
//	-> a line from the client     ${META} stands for what every 2026-07-28 request carries,
//	                              ${REST} for the inside of it,
//	                              ${INIT} for an initialize request, ${repeat N text} for text N times
//	-| the same without a line end
//	<- a line from the server
//	.. 150ms                      that time passes
//	.. eof                        the client closes its end
//	.. run returns ERROR          what Run says at the end
//
// Time is synctest's, so nothing is slow and nothing is left to chance.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ar.Files {
			f := &ar.Files[i]
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+f.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					got := play(t, string(f.Data))
					if *update {
						f.Data = []byte(got)
					} else if got != string(f.Data) {
						t.Errorf("%s has changed; see with -update.\n--- got\n%s--- want\n%s", f.Name, got, f.Data)
					}
				})
			})
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// play runs one session and returns it with the server's lines as they came.
func play(t *testing.T, script string) string {
	in, client := io.Pipe()
	var out lockedBuffer
	s := New(&fake{}, Options{Version: "1", Instructions: "Be kind."})
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background(), in, &out) }()

	var got strings.Builder
	collect := func() {
		synctest.Wait()
		for _, l := range strings.SplitAfter(out.take(), "\n") {
			if l != "" {
				got.WriteString("<- " + shown(l))
			}
		}
	}
	closed := false
	for _, l := range strings.SplitAfter(script, "\n") {
		text := strings.TrimSuffix(l, "\n")
		switch {
		case strings.HasPrefix(text, "<- ") || strings.HasPrefix(text, ".. run returns"):
			continue
		case strings.HasPrefix(text, "-> ") || strings.HasPrefix(text, "-| "):
			got.WriteString(l)
			line := expand(t, text[3:])
			if text[1] == '>' {
				line += "\n"
			}
			if _, err := io.WriteString(client, line); err != nil {
				t.Fatal(err)
			}
		case text == ".. eof":
			got.WriteString(l)
			client.Close()
			closed = true
		case strings.HasPrefix(text, ".. "):
			got.WriteString(l)
			d, err := time.ParseDuration(text[3:])
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			time.Sleep(d) // synctest's time
		case text == "":
			continue
		default:
			t.Fatalf("%q: no line of a transcript", text)
		}
		collect()
	}
	if !closed {
		client.Close()
	}
	err := <-done
	collect()
	fmt.Fprintf(&got, ".. run returns %v\n\n", err)
	return got.String()
}

func shown(line string) string {
	if len(line) > 2000 {
		return line[:2000] + " [" + strconv.Itoa(len(line)) + " bytes]\n"
	}
	return line
}

const (
	restText = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	metaText = `"_meta":{` + restText + `}`
	initText = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
)

func expand(t *testing.T, s string) string {
	s = strings.ReplaceAll(s, "${META}", metaText)
	s = strings.ReplaceAll(s, "${REST}", restText)
	s = strings.ReplaceAll(s, "${INIT}", initText)
	for {
		at := strings.Index(s, "${repeat ")
		if at < 0 {
			return s
		}
		end := at + strings.Index(s[at:], "}")
		n, text, ok := strings.Cut(s[at+len("${repeat "):end], " ")
		count, err := strconv.Atoi(n)
		if !ok || err != nil {
			t.Fatalf("%q: want ${repeat N text}", s[at:end])
		}
		s = s[:at] + strings.Repeat(text, count) + s[end+1:]
	}
}

// lockedBuffer is an output that never blocks.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.b.String()
	b.b.Reset()
	return s
}
