//go:build linux && (amd64 || arm64)

package client_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleName is the variable that makes the test program a server.
const roleName = "WASMTOOLS_FAKE_UPSTREAM"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleName); role != "" {
		serve(role, os.Stdin, os.Stdout)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type fakeMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Cursor    string          `json:"cursor"`
		Meta      struct {
			Token   json.RawMessage `json:"progressToken"`
			Version string          `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
	Error *struct {
		Code int `json:"code"`
	} `json:"error"`
}

const plainSchema = `{"type":"object","properties":{"text":{"type":"string"}}}`

func listing(names ...string) string {
	var l []string
	for _, n := range names {
		l = append(l, fmt.Sprintf(`{"name":%q,"description":"does %s","inputSchema":%s,"annotations":{"readOnlyHint":true}}`, n, n, plainSchema))
	}
	return strings.Join(l, ",")
}

// serve is a server of many faces. Role is one, and after a colon what it needs.
func serve(role string, in io.Reader, out io.Writer) {
	role, arg, _ := strings.Cut(role, ":")
	w := bufio.NewWriter(out)
	say := func(format string, args ...any) {
		fmt.Fprintf(w, format+"\n", args...)
		w.Flush()
	}
	switch role {
	case "silent":
		time.Sleep(time.Hour)
	case "missing":
		fmt.Fprintln(os.Stderr, "\x1b[31mno key was given\x1b[0m")
		os.Exit(3)
	case "garbage":
		say("Welcome to my server! \x1b[2J")
		time.Sleep(time.Hour)
	case "stderr":
		go func() {
			for line := strings.Repeat("noise ", 1000); ; {
				fmt.Fprintln(os.Stderr, line)
			}
		}()
	case "orphans":
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() == nil {
			_ = os.WriteFile(arg, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
		}
	}
	asked := json.RawMessage("null")
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		var m fakeMessage
		if json.Unmarshal(line, &m) != nil {
			os.Exit(4)
		}
		answer := func(result string) { say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result) }
		text := func(s string) {
			b, _ := json.Marshal(s)
			answer(`{"content":[{"type":"text","text":` + string(b) + `}]}`)
		}
		if role == "newer" && m.Params.Meta.Version != "2026-07-28" && len(m.ID) > 0 {
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"there is no handshake"}}`, m.ID)
			continue
		}
		switch m.Method {
		case "initialize":
			answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"},"instructions":"a server for tests"}`)
		case "tools/list":
			switch role {
			case "faulty":
				deep := strings.Repeat(`{"type":"object","properties":{"a":`, 20) + "{}" + strings.Repeat("}}", 20)
				answer(`{"tools":[` + listing("echo", "twice", "twice", "bad name!", strings.Repeat("long", 30)) + `,` +
					`{"name":"number","inputSchema":7},{"name":"none"},{"name":"text","inputSchema":{"type":"string"}},` +
					`{"name":"loop","inputSchema":{"type":"object","$ref":"#"}},{"name":"far","inputSchema":{"type":"object","$ref":"https://example.com/x"}},{"name":"lost","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/nowhere"}}}},` +
					`{"name":"pattern","inputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}},` +
					`{"name":"huge","inputSchema":{"type":"object","description":"` + strings.Repeat("x", 70_000) + `"}},{"name":"deep","inputSchema":` + deep + `},"nonsense",{"name":""},` +
					`{"name":"said","description":"line\nnext\u001b[31m\u202eevil\u0000","inputSchema":{"type":"object"}}]}`)
			case "endless":
				n, _ := strconv.Atoi(m.Params.Cursor)
				answer(fmt.Sprintf(`{"tools":[%s],"nextCursor":"%d"}`, listing(fmt.Sprint("t", n)), n+1))
			case "many":
				var names []string
				for i := range 2500 {
					names = append(names, fmt.Sprint("t", i))
				}
				answer(`{"tools":[` + listing(names...) + `]}`)
			case "file": // lists what a file says
				b, _ := os.ReadFile(arg)
				answer(`{"tools":[` + string(b) + `]}`)
			default:
				answer(`{"tools":[` + listing("echo", "work") + `]}`)
			}
			if role == "deaf" {
				time.Sleep(time.Hour) // it never reads again
			}
		case "tools/call":
			switch {
			case m.Params.Name == "echo":
				var a struct{ Text string }
				_ = json.Unmarshal(m.Params.Arguments, &a)
				text("echo " + a.Text + os.Getenv("FAKE_PASSED") + os.Getenv("FAKE_SECRET"))
			case role == "flood":
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, m.ID)
				for chunk := strings.Repeat("x", 1<<20); ; {
					if _, err := w.WriteString(chunk); err != nil {
						os.Exit(5)
					}
				}
			case role == "dies":
				fmt.Fprintln(os.Stderr, "out of memory, said the server")
				os.Exit(6)
			case role == "deep":
				answer(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000))
			case role == "liar":
				say(`{"jsonrpc":"2.0","id":999999,"result":{}}`)
				say(`{"jsonrpc":"2.0","id":"x","result":{}}`)
				say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"?","progress":-1}}`)
				text("the right one")
			case role == "odd":
				answer(`{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"resource","resource":{"uri":"a:b","text":"inside"}},{"type":"hologram"},{"type":"resource_link","uri":"x:y","name":"n"}],"structuredContent":{"a":1},"isError":true}`)
			case role == "nothing":
				answer(`"no result"`)
			case role == "refuses":
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no\u001b[2J such thing"}}`, m.ID)
			case role == "progress":
				for i := range 3 {
					say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":3,"message":"step"}}`, m.Params.Meta.Token, i)
				}
				text("done")
			case role == "asks":
				asked = m.ID
				say(`{"jsonrpc":"2.0","id":77,"method":"sampling/createMessage","params":{"messages":[]}}`)
			case role == "changes":
				say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				text("changed")
			default:
				// It works on it for ever.
			}
		case "notifications/cancelled":
			if arg != "" {
				_ = os.WriteFile(arg, line, 0o600)
			}
		case "":
			if string(m.ID) == "77" && m.Error != nil { // our question was refused
				m.ID = asked
				text(fmt.Sprint("refused with ", m.Error.Code))
			}
		}
	}
}
