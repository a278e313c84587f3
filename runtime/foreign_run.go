package runtime

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tetratelabs/wazero"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime/extism"
	"github.com/wasmtools/wasmtools/runtime/wasicmd"
	"github.com/wasmtools/wasmtools/runtime/wasihost"
	"github.com/wasmtools/wasmtools/tool"
)

// pluginRunner runs the tools of an Extism plugin.
type pluginRunner struct {
	plugin *extism.Plugin
	cache  wazero.CompilationCache
}

func (p *pluginRunner) Close() {
	p.plugin.Close()
	closeCache(p.cache)
}

func closeCache(c wazero.CompilationCache) {
	if c != nil {
		_ = c.Close(context.Background())
	}
}

func (p *pluginRunner) run(h *wasihost.Host, r manifest.Recipe, m *foreign, call *hostfuncs.Call) (tool.Result, error) {
	input, err := r.Stdin(call.Invocation.Arguments)
	if err != nil {
		return tool.Result{}, err
	}
	out, err := m.ask(h, p, r.Export, input)
	if err != nil {
		return tool.Result{}, err
	}
	return answer(r.Answer, out)
}

// commandRunner runs the tools of a WASI command.
type commandRunner struct {
	program *wasicmd.Program
	cache   wazero.CompilationCache
}

func (c *commandRunner) Close() {
	c.program.Close()
	closeCache(c.cache)
}

// exitError is a command that ended with an exit code that is no success.
type exitError struct {
	code uint32
	out  []byte
}

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func (c *commandRunner) run(h *wasihost.Host, r manifest.Recipe, m *foreign, call *hostfuncs.Call) (tool.Result, error) {
	args, err := r.Arguments(call.Invocation.Arguments)
	if err != nil {
		return tool.Result{}, err
	}
	input, err := r.Stdin(call.Invocation.Arguments)
	if err != nil {
		return tool.Result{}, err
	}
	var env []string
	for k, v := range m.about.Config {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	out := &wasihost.Output{Limit: call.Limits.OutputBytes}
	good := func(code uint32) bool { return code == 0 || slices.Contains(r.OK, int(code)) }
	code, err := c.program.Run(h, wasihost.Options{
		Args: append([]string{m.about.Manifest.Name}, args...), Stdin: input, Stdout: out, Env: env, Mount: m.about.Mount,
	}, func(code uint32) error {
		if good(code) {
			return h.Finish()
		}
		return nil
	})
	switch {
	case err != nil:
		return tool.Result{}, err
	case !good(code):
		return tool.Result{}, &exitError{code, out.Bytes}
	}
	return answer(r.Answer, out.Bytes)
}

// foreignFault turns what a guest itself says about its failure into a trap
// with its words.
func foreignFault(err error) error {
	var plugin *extism.Failure
	var exit *exitError
	switch {
	case errors.As(err, &plugin):
		e := tool.Errorf(tool.Trap, "the plugin failed with code %d", plugin.Code)
		if plugin.Message != "" {
			e = tool.Errorf(tool.Trap, "the plugin says: %s", clip(plugin.Message))
		}
		return e.WithNext("read what it says, and mend the arguments if it is about them").With("exit", plugin.Code)
	case errors.As(err, &exit):
		e := tool.Errorf(tool.Trap, "the command ended with exit code %d", exit.code).
			WithNext("read what it says, and mend the arguments if it is about them").With("exit", exit.code)
		if len(exit.out) > 0 {
			e.With("stdout", strings.ToValidUTF8(string(exit.out[:min(len(exit.out), 4<<10)]), "\uFFFD"))
		}
		return e
	}
	return err
}

// answer turns a module's output into a result.
func answer(kind manifest.Answer, out []byte) (tool.Result, error) {
	switch kind {
	case manifest.AnswerMCP:
		out, err := plainBlocks(out)
		if err != nil {
			return tool.Result{}, err
		}
		return parseResponse(out)
	case manifest.AnswerJSON:
		t := bytes.TrimSpace(out)
		if !json.Valid(t) {
			return tool.Result{}, tool.Errorf(tool.Trap, "the module's output is not JSON")
		}
		r := tool.TextResult(strings.ToValidUTF8(string(t), "\uFFFD"))
		if t[0] == '{' {
			r.Structured = json.RawMessage(strings.ToValidUTF8(string(t), "\uFFFD"))
		}
		return r, nil
	}
	return tool.TextResult(strings.ToValidUTF8(string(out), "\uFFFD")), nil
}

// plainBlocks turns the embedded resources of a result, which our results do
// not have, into text.
func plainBlocks(out []byte) ([]byte, error) {
	if !bytes.Contains(out, []byte(`"resource"`)) {
		return out, nil
	}
	var r map[string]json.RawMessage
	var blocks []json.RawMessage
	if json.Unmarshal(out, &r) != nil || json.Unmarshal(r["content"], &blocks) != nil {
		return out, nil // parseResponse says what is wrong
	}
	if len(blocks) > maxBlocks {
		return nil, tool.Errorf(tool.Trap, "the module's response has %d content blocks; at most %d are allowed", len(blocks), maxBlocks)
	}
	for i, raw := range blocks {
		var b struct {
			Type     string `json:"type"`
			Resource struct {
				URI      string  `json:"uri"`
				MIMEType string  `json:"mimeType"`
				Text     *string `json:"text"`
				Blob     string  `json:"blob"`
			} `json:"resource"`
		}
		if json.Unmarshal(raw, &b) != nil || b.Type != "resource" {
			continue
		}
		text := fmt.Sprintf("[%s, %s, %d bytes]", tool.QuotePath(b.Resource.URI), tool.QuotePath(b.Resource.MIMEType), base64.StdEncoding.DecodedLen(len(b.Resource.Blob)))
		if b.Resource.Text != nil {
			text = *b.Resource.Text
		}
		blocks[i], _ = json.Marshal(tool.Text(text))
	}
	var err error
	if r["content"], err = json.Marshal(blocks); err != nil {
		return nil, tool.Errorf(tool.Trap, "the module's response is not a JSON result").Because(err)
	}
	return json.Marshal(r)
}

// styleOf tells whether a plugin describes its tools, and how.
func styleOf(s manifest.Summary) style {
	if !extism.Is(s) {
		return bySidecar
	}
	have := map[string]bool{}
	for _, e := range s.Exports {
		have[e.Name] = e.Kind == manifest.KindFunc && len(e.Type.Params) == 0 && len(e.Type.Results) <= 1
	}
	switch {
	case have["list_tools"] && have["call_tool"]:
		return byListTools
	case have["describe"] && have["call"]:
		return byDescribe
	}
	return bySidecar
}

// describedTool is a tool as plugins describe it.
type describedTool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema"`
}

// describe asks a plugin for its tools, without any grant, and makes a manifest
// of its answer. Such a plugin asks for no capabilities: a person grants what it
// needs, tool by tool, and what a tool can do follows from that.
func (m *foreign) describe(ctx context.Context, name string) error {
	export, input := "describe", []byte(nil)
	if m.style == byListTools {
		export, input = "list_tools", []byte(`{"context":{"id":"list","_meta":{}}}`)
	}
	call := &hostfuncs.Call{}
	call.Limits.OutputBytes = manifest.MaxBytes
	if err := m.Prepare(ctx); err != nil { // which has a time of its own
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	m.about.Mount = "/"
	var out []byte
	_, _, fault := m.call(bounded, call, func(h *wasihost.Host, runs runner) (tool.Result, error) {
		var err error
		out, err = m.ask(h, runs, export, input)
		return tool.Result{}, err
	})
	if fault != nil {
		return refuse("asked for its tools, the plugin gave no answer: %s", fault.Text).Because(fault)
	}
	var d struct {
		Tools []describedTool `json:"tools"`
	}
	if !utf8.Valid(out) || json.Unmarshal(out, &d) != nil {
		return refuse("asked for its tools, the plugin did not answer with JSON of the right shape")
	}
	about := manifest.Manifest{ABI: manifest.ABI, Name: name, Version: "0.0.0"}
	if !tool.ValidName(name) {
		about.Name = "plugin-" + m.digest.Hex()[:8]
	}
	for _, t := range d.Tools {
		made := manifest.Tool{Name: t.Name, Title: t.Title, Description: t.Description, Input: t.Input, Output: present(t.Output)}
		if present(made.Input) == nil {
			made.Input = json.RawMessage(`{"type":"object"}`)
		}
		if made.Description == "" {
			made.Description = made.Name
		}
		about.Tools = append(about.Tools, made)
	}
	raw, err := json.Marshal(about)
	if err != nil {
		return refuse("the plugin's description of its tools is not JSON").Because(err)
	}
	checked, err := manifest.Parse(raw)
	if err != nil {
		e := tool.AsError(err)
		return refuse("the plugin's description of its tools: %s", strings.TrimPrefix(e.Text, "manifest: ")).
			WithNext("write a sidecar that describes them")
	}
	m.about.Manifest = checked
	return nil
}

// present gives nil for a schema that is missing or null.
func present(s json.RawMessage) json.RawMessage {
	if t := bytes.TrimSpace(s); len(t) == 0 || string(t) == "null" {
		return nil
	}
	return s
}
