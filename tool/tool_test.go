package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

func TestErrorResultHidesForeignText(t *testing.T) {
	_, osErr := os.Open("/no/such/host/path")
	for _, c := range []struct {
		err  error
		code tool.Code
	}{
		{osErr, tool.Internal},
		{fmt.Errorf("wrapped: %w", context.DeadlineExceeded), tool.Timeout},
		{context.Canceled, tool.Cancelled},
		{fmt.Errorf("wrapped: %w", tool.PathErrorf(tool.NotFound, "a", "no such file").Because(osErr)), tool.NotFound},
	} {
		r := tool.ErrorResult(c.err)
		if !r.IsError || r.Code != c.code {
			t.Errorf("ErrorResult(%v) = %v, %s; want an error with %s", c.err, r.IsError, r.Code, c.code)
		}
		if strings.Contains(r.PlainText(), "/no/such") {
			t.Errorf("ErrorResult(%v) shows the host's path: %s", c.err, r.PlainText())
		}
	}
}

func TestErrorIsByCode(t *testing.T) {
	err := fmt.Errorf("outer: %w", tool.PathErrorf(tool.Exists, "x", "it is there"))
	if !errors.Is(err, &tool.Error{Code: tool.Exists}) {
		t.Error("errors.Is does not find the code")
	}
	if errors.Is(err, &tool.Error{Code: tool.NotFound}) {
		t.Error("errors.Is finds another code")
	}
}

func TestQuotePath(t *testing.T) {
	for in, want := range map[string]string{
		"a/b.txt":             "a/b.txt",
		"café/日本":             "café/日本",
		"two words":           "two words",
		"":                    `""`,
		"a\nok: b":            `"a\nok: b"`,
		"a\x1b[31m":           `"a\x1b[31m"`,
		"bad\xff":             `"bad\xff"`,
		"rtl\u202etxt.exe":    `"rtl\u202etxt.exe"`,
		"zero\u200bwidth":     `"zero\u200bwidth"`,
		"nbsp\u00a0is a name": `"nbsp\u00a0is a name"`,
	} {
		if got := tool.QuotePath(in); got != want {
			t.Errorf("QuotePath(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestEffectsJSON(t *testing.T) {
	e := tool.Reads | tool.Destroys | tool.AsksUser
	p, err := json.Marshal(e)
	if err != nil || string(p) != `["read","destroy","ask_user"]` {
		t.Fatalf("Marshal = %s, %v", p, err)
	}
	var back tool.Effects
	if err := json.Unmarshal(p, &back); err != nil || back != e {
		t.Errorf("Unmarshal = %v, %v; want %v", back, err, e)
	}
	if err := json.Unmarshal([]byte(`["fly"]`), &back); err == nil {
		t.Error("an unknown effect was accepted")
	}
}

func TestParseSource(t *testing.T) {
	if got := tool.ParseSource("mcp"); got != tool.MCP {
		t.Errorf("ParseSource(mcp) = %s", got)
	}
	for _, s := range []string{"", "Builtin", "root", "builtin "} {
		if got := tool.ParseSource(s); got != tool.Installed {
			t.Errorf("ParseSource(%q) = %s, want installed", s, got)
		}
	}
}

// TestBindingCoversEveryField changes each field of an entry alone: the binding
// has to change, or an approval of one set would pass for the other.
func TestBindingCoversEveryField(t *testing.T) {
	base := tool.Write{
		Op: tool.OpWrite, Path: "p", From: "f", Identity: tool.Identity{Dev: 1, Ino: 2},
		Replaced: tool.Identity{Dev: 3, Ino: 4}, Before: "b", After: "a", Mode: 0o644, Size: 7,
	}
	want := (&tool.WriteSet{Entries: []tool.Write{base}}).Binding()
	for name, change := range map[string]func(*tool.Write){
		"op":       func(w *tool.Write) { w.Op = tool.OpDelete },
		"path":     func(w *tool.Write) { w.Path = "pf" },
		"from":     func(w *tool.Write) { w.From = "" },
		"identity": func(w *tool.Write) { w.Identity.Ino = 9 },
		"device":   func(w *tool.Write) { w.Identity.Dev = 9 },
		"replaced": func(w *tool.Write) { w.Replaced = tool.Identity{} },
		"before":   func(w *tool.Write) { w.Before = "" },
		"after":    func(w *tool.Write) { w.After = "x" },
		"stamp":    func(w *tool.Write) { w.Stamp = "x" },
		"mode":     func(w *tool.Write) { w.Mode = 0o755 },
		"size":     func(w *tool.Write) { w.Size = 8 },
		"shifted":  func(w *tool.Write) { w.Path, w.From = "pf", "" },
	} {
		w := base
		change(&w)
		if got := (&tool.WriteSet{Entries: []tool.Write{w}}).Binding(); got == want {
			t.Errorf("changing %s leaves the binding as it was", name)
		}
	}
	if got := (&tool.WriteSet{Entries: []tool.Write{base, base}}).Binding(); got == want {
		t.Error("a second entry leaves the binding as it was")
	}
	if (*tool.WriteSet)(nil).Binding() != "" || !(*tool.WriteSet)(nil).Empty() {
		t.Error("a nil set is not empty")
	}
}

func TestContentJSON(t *testing.T) {
	for _, c := range []struct {
		in   tool.Content
		want string
	}{
		{tool.Text(""), `{"type":"text","text":""}`},
		{tool.Content{Kind: tool.KindImage, Data: []byte{1}, MIMEType: "image/png"}, `{"type":"image","data":"AQ==","mimeType":"image/png"}`},
		{tool.Content{Kind: tool.KindResourceLink, URI: "artifact:x", Name: "out"}, `{"type":"resource_link","uri":"artifact:x","name":"out"}`},
	} {
		if got, err := json.Marshal(c.in); err != nil || string(got) != c.want {
			t.Errorf("Marshal(%+v) = %s, %v; want %s", c.in, got, err, c.want)
		}
	}
}

// TestValidName compares the loop with the pattern that documents it.
func TestValidName(t *testing.T) {
	pattern := regexp.MustCompile(tool.NamePattern)
	names := []string{"", "a", "Z9_-", "a b", "a.b", "ä", "a\x00", "a\n", strings.Repeat("x", 64), strings.Repeat("x", 65)}
	for c := range 256 {
		names = append(names, "x"+string([]byte{byte(c)}))
	}
	for _, n := range names {
		if got, want := tool.ValidName(n), pattern.MatchString(n); got != want {
			t.Errorf("ValidName(%q) = %v, want %v", n, got, want)
		}
	}
}
