package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmtools/wasmtools/host"
	"github.com/wasmtools/wasmtools/mcp/server"
	"github.com/wasmtools/wasmtools/tool"
)

// clientAsk is the key of what asks the person behind the client of a call.
type clientAsk struct{}

func withAsk(ctx context.Context, ask func(context.Context, server.Question) (server.Reply, error)) context.Context {
	return context.WithValue(ctx, clientAsk{}, ask)
}

// askPerson asks the person behind the client of the call, or at the terminal of
// `wasmtools run`.
func (f *runtimeFlags) askPerson(noInput bool) func(context.Context, host.Question) (host.Answer, error) {
	return func(ctx context.Context, q host.Question) (host.Answer, error) {
		nobody := func(why string) error {
			return tool.Errorf(tool.NotAvailable, "nobody can be asked: %s", why).WithNext("decide without an answer if that is safe, or say in your answer what you need to know")
		}
		if ask, ok := ctx.Value(clientAsk{}).(func(context.Context, server.Question) (server.Reply, error)); ok {
			r, err := ask(ctx, server.Question{Text: q.Text, Options: q.Options, Multiple: q.Multiple})
			if errors.Is(err, server.ErrCannotAsk) {
				err = nobody(err.Error())
			}
			return host.Answer{Chosen: r.Chosen, Text: r.Text, Declined: r.Declined}, err
		}
		if f.program != "run" || noInput {
			return host.Answer{}, nobody("there is no terminal for questions")
		}
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return host.Answer{}, nobody("there is no terminal")
		}
		defer tty.Close()
		stop := context.AfterFunc(ctx, func() { tty.Close() })
		defer stop()
		fmt.Fprint(tty, terminalQuestion(q))
		line, err := bufio.NewReader(tty).ReadString('\n')
		if ctx.Err() != nil {
			return host.Answer{}, ctx.Err()
		}
		if err != nil && line == "" {
			return host.Answer{Declined: true}, nil
		}
		return terminalAnswer(q, line), nil
	}
}

// terminalQuestion is a model's question as a person sees it: marked as the
// model's, without what could act on a terminal.
func terminalQuestion(q host.Question) string {
	var b strings.Builder
	b.WriteString("\nThe model asks, in its own words (your answer allows nothing; do not give passwords):\n")
	for _, l := range strings.Split(q.Text, "\n") {
		// In pieces, so that none wraps to where our own words begin.
		for piece := range slices.Chunk([]rune(orNothing(l)), 70) {
			fmt.Fprintf(&b, "  > %s\n", string(piece))
		}
	}
	for i, o := range q.Options {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, orNothing(o))
	}
	how := "Answer, or nothing to say nothing: "
	switch {
	case len(q.Options) > 0 && q.Multiple:
		how = "Numbers with commas, or an answer in words: "
	case len(q.Options) > 0:
		how = "A number, or an answer in words: "
	}
	b.WriteString(how)
	return b.String()
}

// terminalAnswer reads what was typed: numbers of options, else words.
func terminalAnswer(q host.Question, line string) host.Answer {
	line = strings.TrimSpace(line)
	if line == "" {
		return host.Answer{Declined: true}
	}
	var chosen []string
	parts := strings.Split(line, ",")
	if !q.Multiple {
		parts = []string{line}
	}
	for _, p := range parts {
		n, err := strconv.Atoi(strings.TrimSpace(p))
		if err != nil || n < 1 || n > len(q.Options) {
			return host.Answer{Text: line}
		}
		chosen = append(chosen, q.Options[n-1])
	}
	return host.Answer{Chosen: chosen}
}
