package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/host"
)

func TestTerminalQuestion(t *testing.T) {
	q := host.Question{Text: "which\n\x1b[2Jone?\u202e", Options: []string{"a", "b\x07"}}
	text := terminalQuestion(q)
	if strings.ContainsAny(text, "\x1b\x07\u202e") || !strings.Contains(text, "The model asks") || !strings.Contains(text, "1. a") {
		t.Errorf("%q", text)
	}
	for _, l := range strings.Split(terminalQuestion(host.Question{Text: strings.Repeat("long ", 100)}), "\n")[2:8] {
		if !strings.HasPrefix(l, "  > ") || len(l) > 80 {
			t.Errorf("a line of a long question is %q", l)
		}
	}
	for line, want := range map[string]host.Answer{
		"":       {Declined: true},
		" \n":    {Declined: true},
		"1\n":    {Chosen: []string{"a"}},
		"3":      {Text: "3"},
		"1,2":    {Text: "1,2"},
		"a word": {Text: "a word"},
	} {
		if got := terminalAnswer(q, line); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v", line, got)
		}
	}
	q.Multiple = true
	if got := terminalAnswer(q, "2, 1"); len(got.Chosen) != 2 {
		t.Errorf("%+v", got)
	}
}
