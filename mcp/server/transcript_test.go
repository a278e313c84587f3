package server

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/wasmtools/wasmtools/artifact"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/transcripts")

// TestTranscripts plays what a client sends and compares what the server
// answers. A file of an archive is one session. Its lines are
//
//	-> a line from the client     ${META} stands for what every 2026-07-28 request carries,
//	                              ${REST} for the inside of it,
//	                              ${INIT} for an initialize request, ${repeat N text} for text N times,
//	                              ${ASKME} and ${INITASK} for META and INIT of a client that takes forms,
//	                              ${STATE n} for the nth request state that the server sent,
//	                              ${TICKET n} for the nth ticket or handle
//	-| the same without a line end
//	<- a line from the server
//	.. 150ms                      that time passes
//	.. changed                    what the tool write would change is another thing now
//	.. eof                        the client closes its end
//	.. run returns ERROR          what Run says at the end
//
// Tickets and request state are random and are shown by their numbers. A question
// is shown by its first line, and its form in sessions whose name begins with yes.
// Where several lines come at once, a cancelled question stands first and a new
// one last, because nothing orders them.
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
					got := play(t, string(f.Data), !strings.HasPrefix(f.Name, "yes"))
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
func play(t *testing.T, script string, brief bool) string {
	in, client := io.Pipe()
	var out lockedBuffer
	f := newFake()
	f.store = artifact.Open(filepath.Join(t.TempDir(), "store"), artifact.Options{})
	defer f.store.Close()
	s := New(f, Options{Version: "1", Instructions: "Be kind."})
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background(), in, &out) }()

	var got strings.Builder
	var seen handles
	collect := func() {
		synctest.Wait()
		lines := strings.SplitAfter(out.take(), "\n")
		slices.SortStableFunc(lines, func(a, b string) int { return rank(a) - rank(b) })
		for _, l := range lines {
			if l == "" {
				continue
			}
			l = questionPattern.ReplaceAllString(seen.number(l), `$1..."`)
			if brief {
				l = strings.ReplaceAll(l, askSchema, "<form>")
			}
			got.WriteString("<- " + shown(l))
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
			line := expand(t, seen.expand(t, text[3:]))
			if text[1] == '>' {
				line += "\n"
			}
			if _, err := io.WriteString(client, line); err != nil {
				t.Fatal(err)
			}
		case text == ".. changed":
			got.WriteString(l)
			f.disk.Add(1)
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
	if n := f.wrote.Load(); n > 0 {
		fmt.Fprintf(&got, ".. run returns %v, written %d times\n\n", err, n)
		return got.String()
	}
	fmt.Fprintf(&got, ".. run returns %v\n\n", err)
	return got.String()
}

var questionPattern = regexp.MustCompile(`("mode":"form","message":"[^\\"]*\\n)([^\\"]|\\.)*"`)

// rank orders what is sent at once by nobody in particular.
func rank(line string) int {
	switch {
	case strings.Contains(line, `"notifications/cancelled"`):
		return 0
	case strings.HasPrefix(line, `{"jsonrpc":"2.0","id":`) && strings.Contains(line, `,"method":"elicitation/create"`):
		return 2
	}
	return 1
}

// handles are the random parts of what the server sends, in their order.
type handles struct{ tickets, states []string }

var (
	ticketPattern = regexp.MustCompile(`\b[a-z2-7]{26}\b`)
	statePattern  = regexp.MustCompile(`"requestState":"([A-Za-z0-9_-]+)"`)
)

// number puts the numbers of random parts in their place.
func (h *handles) number(line string) string {
	line = statePattern.ReplaceAllStringFunc(line, func(m string) string {
		h.states = append(h.states, statePattern.FindStringSubmatch(m)[1])
		return `"requestState":"<state ` + strconv.Itoa(len(h.states)) + `>"`
	})
	return ticketPattern.ReplaceAllStringFunc(line, func(m string) string {
		i := slices.Index(h.tickets, m)
		if i < 0 {
			h.tickets, i = append(h.tickets, m), len(h.tickets)
		}
		return "<ticket " + strconv.Itoa(i+1) + ">"
	})
}

// expand puts them back.
func (h *handles) expand(t *testing.T, s string) string {
	return regexp.MustCompile(`\$\{(STATE|TICKET) \d+\}`).ReplaceAllStringFunc(s, func(m string) string {
		name, number, _ := strings.Cut(m[2:len(m)-1], " ")
		list := map[string][]string{"STATE": h.states, "TICKET": h.tickets}[name]
		n, _ := strconv.Atoi(number)
		if n < 1 || n > len(list) {
			t.Fatalf("%s: the server has sent %d", m, len(list))
		}
		return list[n-1]
	})
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
	askText  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	initAsk  = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`
	initText = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
)

func expand(t *testing.T, s string) string {
	s = strings.ReplaceAll(s, "${META}", metaText)
	s = strings.ReplaceAll(s, "${REST}", restText)
	s = strings.ReplaceAll(s, "${INIT}", initText)
	s = strings.ReplaceAll(s, "${ASKME}", askText)
	s = strings.ReplaceAll(s, "${INITASK}", initAsk)
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
