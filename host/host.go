// Package host makes tools of what an embedding program can do: ask its person,
// give tasks to other agents, remember, plan. A tool exists only if the program
// gives the adapter for it; without one a model never hears of it.
//
// An adapter is the program's own code and is trusted to do what it is asked. It
// is not trusted to be quick or to be without fault: each call has a time, and a
// panic is a result. What a model passes in is bounded before the adapter sees it,
// and so is what comes back.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

// Question is what a model asks a person.
type Question struct {
	Text     string
	Options  []string // to choose from; empty: an answer in words
	Multiple bool     // more than one may be chosen
}

// Answer is what a person said.
type Answer struct {
	Chosen   []string // of the options
	Text     string   // in words
	Declined bool     // nothing was said
}

// Task is work that is given to another agent.
type Task struct {
	Title, Prompt, Agent string // Agent: a kind of the program's own; "" is its default
}

// TaskState is how far a task is.
type TaskState struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	State  string `json:"state"` // running, done, failed, stopped
	Reason string `json:"reason,omitempty"`
}

// Tasks are tasks of other agents.
type Tasks interface {
	Start(ctx context.Context, t Task) (id string, err error)
	Append(ctx context.Context, id, text string) error
	Query(ctx context.Context, id string) ([]TaskState, error) // "" is all
	Output(ctx context.Context, id string) (string, error)
	Stop(ctx context.Context, id string) error
}

// Memory is what outlives a session.
type Memory interface {
	Read(ctx context.Context, key string) (string, error) // "" lists the keys, a line each
	Write(ctx context.Context, key, text string) error    // "" as text forgets
}

// Adapters are what a program can do. A field that is nil is no tool.
type Adapters struct {
	AskUser        func(ctx context.Context, q Question) (Answer, error)          // ask_user
	Tasks          Tasks                                                          // task, task_append, task_query, task_output, task_stop
	Memory         Memory                                                         // memory
	RequestFeature func(ctx context.Context, feature, why string) (string, error) // request_feature_enable

	// Timeout bounds a call that asks no person; 0 means a minute. AskTimeout bounds
	// one that does; 0 means ten.
	Timeout, AskTimeout time.Duration
}

// Source lists the tools of the adapters that are given.
func Source(a Adapters) catalog.Source {
	if a.Timeout <= 0 {
		a.Timeout = time.Minute
	}
	if a.AskTimeout <= 0 {
		a.AskTimeout = 10 * time.Minute
	}
	var tools []tool.Tool
	if a.AskUser != nil {
		tools = append(tools, askUser(a.AskUser, a.AskTimeout))
	}
	if a.Tasks != nil {
		tools = append(tools, tasks(a.Tasks, a.Timeout)...)
	}
	if a.Memory != nil {
		tools = append(tools, memory(a.Memory, a.Timeout))
	}
	if a.RequestFeature != nil {
		tools = append(tools, requestFeature(a.RequestFeature, a.Timeout))
	}
	return catalog.Static("host", tools...)
}

// Bounds on what passes between a model and an adapter.
const (
	maxText   = 32 << 10 // bytes of one text of a model
	maxAnswer = 1 << 20  // bytes of what an adapter gives back
	maxOpen   = 64       // calls of one tool that an adapter has not come back from
)

// adapter is one tool.
type adapter struct {
	def     tool.Definition
	timeout time.Duration
	call    func(ctx context.Context, args json.RawMessage) (tool.Result, error)
	open    atomic.Int32 // calls that have not come back
}

func newAdapter(def tool.Definition, timeout time.Duration, call func(context.Context, json.RawMessage) (tool.Result, error)) *adapter {
	return &adapter{def: def, timeout: timeout, call: call}
}

func (a *adapter) Definition() tool.Definition { return a.def }
func (a *adapter) Origin() tool.Origin         { return tool.Origin{Source: tool.Host, Name: "host"} }

// Call implements [tool.Tool]. It returns when its time is over, whatever the
// adapter does.
func (a *adapter) Call(ctx context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
	if a.open.Add(1) > maxOpen {
		a.open.Add(-1)
		return tool.ErrorResult(tool.Errorf(tool.Busy, "%d calls of %s have not come back", maxOpen, a.def.Name).WithNext("tell the user that the program hangs")), nil
	}
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	type answer struct {
		r   tool.Result
		err error
	}
	done := make(chan answer, 1)
	go func() {
		defer a.open.Add(-1)
		defer func() {
			if v := recover(); v != nil {
				done <- answer{err: tool.Errorf(tool.Internal, "the program failed: %.200v", v).WithNext("tell the user; do not repeat the call")}
			}
		}()
		r, err := a.call(limited, inv.Arguments)
		done <- answer{r, err}
	}()
	select {
	case x := <-done:
		if x.err != nil {
			return tool.ErrorResult(failed(x.err)), nil
		}
		return bounded(x.r), nil
	case <-limited.Done():
		if ctx.Err() != nil {
			return tool.ErrorResult(ctx.Err()), nil
		}
		return tool.ErrorResult(tool.Errorf(tool.Timeout, "the program has not answered within %s", a.timeout)), nil
	}
}

// failed is an adapter's error as a model is told it.
func failed(err error) error {
	var coded *tool.Error
	if errors.As(err, &coded) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return tool.Errorf(tool.Internal, "the program cannot do it: %s", clip(err.Error(), 1024)).WithNext("tell the user if it matters")
}

func bounded(r tool.Result) tool.Result {
	if len(r.Structured) > maxAnswer {
		return tool.ErrorResult(tool.Errorf(tool.TooLarge, "the program answers %d bytes, over the limit of %d", len(r.Structured), maxAnswer).WithNext("ask for less"))
	}
	for i, c := range r.Content {
		if c.Kind == tool.KindText {
			r.Content[i].Text = clip(c.Text, maxAnswer)
		}
	}
	return r
}

// clip makes a text valid, and no longer than max bytes.
func clip(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max] + "…"
}

// decoded reads the arguments, which were checked against the schema.
func decoded[T any](f func(context.Context, T) (tool.Result, error)) func(context.Context, json.RawMessage) (tool.Result, error) {
	return func(ctx context.Context, raw json.RawMessage) (tool.Result, error) {
		var a T
		if err := json.Unmarshal(raw, &a); err != nil {
			return tool.Result{}, tool.Errorf(tool.InvalidArguments, "the arguments cannot be read: %v", err)
		}
		return f(ctx, a)
	}
}

// object is a schema of properties, of which some are needed.
func object(needed []string, properties string) json.RawMessage {
	list, _ := json.Marshal(append([]string{}, needed...))
	return json.RawMessage(`{"type":"object","additionalProperties":false,"required":` + string(list) + `,"properties":{` + properties + `}}`)
}

func text(name, description string) string {
	d, _ := json.Marshal(description)
	return fmt.Sprintf(`%q:{"type":"string","maxLength":%d,"description":%s}`, name, maxText, d)
}

func structured(v any, shown string) (tool.Result, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return tool.Result{}, err
	}
	r := tool.TextResult(shown)
	r.Structured = b
	return r, nil
}

func askUser(ask func(context.Context, Question) (Answer, error), timeout time.Duration) tool.Tool {
	type args struct {
		Question string   `json:"question"`
		Options  []string `json:"options"`
		Multiple bool     `json:"multiple"`
	}
	return newAdapter(tool.Definition{
		Name: "ask_user", Title: "Ask the user",
		Description: "Ask the user one question, when only they can decide or know. Give `options` if there are a few answers; else they answer in words. Do not ask for secrets. " +
			"A user who says nothing has not agreed to anything.",
		Input: object([]string{"question"}, text("question", "One question, complete by itself.")+`,"options":{"type":"array","maxItems":20,"items":{"type":"string","minLength":1,"maxLength":200},"description":"Answers to choose from."},`+
			`"multiple":{"type":"boolean","description":"More than one may be chosen."}`),
		Effects: tool.AsksUser,
	}, timeout, decoded(func(ctx context.Context, a args) (tool.Result, error) {
		if strings.TrimSpace(a.Question) == "" {
			return tool.Result{}, tool.Errorf(tool.InvalidArguments, "the question is empty")
		}
		got, err := ask(ctx, Question{Text: clip(a.Question, maxText), Options: a.Options, Multiple: a.Multiple})
		switch {
		case err != nil:
			return tool.Result{}, err
		case got.Declined:
			return tool.Result{}, tool.Errorf(tool.Denied, "the user did not answer").WithNext("go on without an answer if that is safe, or stop; do not ask again at once")
		}
		answer := strings.Join(got.Chosen, ", ")
		if got.Text != "" {
			answer = strings.TrimPrefix(answer+"\n"+got.Text, "\n")
		}
		return structured(map[string]any{"chosen": append([]string{}, got.Chosen...), "text": got.Text}, "The user answered: "+answer)
	}))
}

func tasks(t Tasks, timeout time.Duration) []tool.Tool {
	type args struct {
		ID, Title, Prompt, Agent, Text string
	}
	id := text("id", "The task, as task answered it.")
	make := func(name, title, description string, input json.RawMessage, effects tool.Effects, f func(context.Context, args) (tool.Result, error)) tool.Tool {
		return newAdapter(tool.Definition{Name: name, Title: title, Description: description, Input: input, Effects: effects}, timeout, decoded(f))
	}
	done := func(err error, format string, a ...any) (tool.Result, error) {
		if err != nil {
			return tool.Result{}, err
		}
		return tool.TextResult(fmt.Sprintf(format, a...)), nil
	}
	return []tool.Tool{
		make("task", "Give a task", "Give a piece of work to another agent, which works on it by itself and does not see this conversation: say everything that it needs. The answer is the task's id.",
			object([]string{"title", "prompt"}, text("title", "A few words.")+","+text("prompt", "The whole task.")+","+text("agent", "Which kind of agent; the default if absent.")), tool.Executes,
			func(ctx context.Context, a args) (tool.Result, error) {
				id, err := t.Start(ctx, Task{a.Title, a.Prompt, a.Agent})
				if err != nil {
					return tool.Result{}, err
				}
				return structured(map[string]any{"id": id}, "The task "+id+" is under way.")
			}),
		make("task_append", "Add to a task", "Tell a running task something more.", object([]string{"id", "text"}, id+","+text("text", "What it is told.")), tool.Executes,
			func(ctx context.Context, a args) (tool.Result, error) {
				return done(t.Append(ctx, a.ID, a.Text), "The task %s is told.", a.ID)
			}),
		make("task_query", "Look at tasks", "Say how far a task is, or all tasks.", object(nil, id), tool.Reads, func(ctx context.Context, a args) (tool.Result, error) {
			list, err := t.Query(ctx, a.ID)
			if err != nil {
				return tool.Result{}, err
			}
			var b strings.Builder
			for _, s := range list {
				fmt.Fprintf(&b, "%s  %s  %s  %s\n", s.ID, s.State, s.Title, s.Reason)
			}
			if len(list) == 0 {
				b.WriteString("There are no tasks.\n")
			}
			return structured(map[string]any{"tasks": append([]TaskState{}, list...)}, b.String())
		}),
		make("task_output", "Read what a task found", "Read what a task has answered so far.", object([]string{"id"}, id), tool.Reads, func(ctx context.Context, a args) (tool.Result, error) {
			out, err := t.Output(ctx, a.ID)
			return done(err, "%s", out)
		}),
		make("task_stop", "Stop a task", "Stop a task; what it did stays done.", object([]string{"id"}, id), tool.Executes,
			func(ctx context.Context, a args) (tool.Result, error) {
				return done(t.Stop(ctx, a.ID), "The task %s is stopped.", a.ID)
			}),
	}
}

func memory(m Memory, timeout time.Duration) tool.Tool {
	type args struct {
		Op, Key, Text string
	}
	return newAdapter(tool.Definition{
		Name: "memory", Title: "Remember", Description: "Keep short notes that outlive the session: op list, read, write or forget. Write what was learned about the user's work, never secrets.",
		Input: object([]string{"op"}, `"op":{"type":"string","enum":["list","read","write","forget"]},`+text("key", "The note's name.")+","+text("text", "What is written.")),
	}, timeout, decoded(func(ctx context.Context, a args) (tool.Result, error) {
		if a.Op != "list" && a.Key == "" || a.Op == "write" && a.Text == "" {
			return tool.Result{}, tool.Errorf(tool.InvalidArguments, "op %s needs a key, and write a text", a.Op)
		}
		switch a.Op {
		case "list", "read":
			if a.Op == "list" {
				a.Key = ""
			}
			s, err := m.Read(ctx, a.Key)
			return tool.TextResult(s), err
		case "forget":
			a.Text = ""
		}
		if err := m.Write(ctx, a.Key, a.Text); err != nil {
			return tool.Result{}, err
		}
		return tool.TextResult("done"), nil
	}))
}

func requestFeature(f func(ctx context.Context, feature, why string) (string, error), timeout time.Duration) tool.Tool {
	type args struct{ Feature, Why string }
	return newAdapter(tool.Definition{
		Name: "request_feature_enable", Title: "Ask for a feature", Description: "Ask the user's program to turn a feature on. It may say no; nothing is turned on by asking.",
		Input: object([]string{"feature", "why"}, text("feature", "Its name.")+","+text("why", "What it is needed for.")), Effects: tool.AsksUser,
	}, timeout, decoded(func(ctx context.Context, a args) (tool.Result, error) {
		s, err := f(ctx, a.Feature, a.Why)
		return tool.TextResult(s), err
	}))
}

// Plans are a program's plans: in plan mode a model looks, and changes nothing.
type Plans interface {
	// Enter asks the person whether to plan first.
	Enter(ctx context.Context) (string, error)
	// Exit hands a plan in, which the person agrees to or not.
	Exit(ctx context.Context, plan string) (string, error)
}

// PlanMode gives the extension that a turn gets: EnterPlanMode on a normal turn,
// ExitPlanMode on one that plans. See catalog.Facts.Extensions.
func PlanMode(p Plans, planning bool) []tool.Tool {
	const timeout = 10 * time.Minute
	if !planning {
		return []tool.Tool{newAdapter(tool.Definition{
			Name: "EnterPlanMode", Title: "Plan first", Description: "Ask the user to plan before anything is changed. Ends this turn; the user decides.",
			Input: object(nil, ""), Effects: tool.AsksUser,
		}, timeout, func(ctx context.Context, _ json.RawMessage) (tool.Result, error) {
			s, err := p.Enter(ctx)
			return tool.TextResult(s), err
		})}
	}
	type args struct{ Plan string }
	return []tool.Tool{newAdapter(tool.Definition{
		Name: "ExitPlanMode", Title: "Hand the plan in", Description: "Hand the plan in, beginning with a section \"## Summary\". Ends this turn; the user agrees to it or not.",
		Input: object([]string{"plan"}, text("plan", "The whole plan, in Markdown.")), Effects: tool.AsksUser,
	}, timeout, decoded(func(ctx context.Context, a args) (tool.Result, error) {
		if strings.TrimSpace(a.Plan) == "" {
			return tool.Result{}, tool.Errorf(tool.InvalidArguments, "the plan is empty")
		}
		s, err := p.Exit(ctx, clip(a.Plan, maxText))
		return tool.TextResult(s), err
	}))}
}

// Goals are what a session is for.
type Goals interface {
	Create(ctx context.Context, objective string) (string, error)
	Update(ctx context.Context, status, reason string) (string, error) // complete or blocked
	Get(ctx context.Context) (string, error)
}

// GoalTools gives create_goal, update_goal and get_goal, as extensions of a turn.
func GoalTools(g Goals) []tool.Tool {
	type args struct{ Objective, Status, Reason string }
	make := func(name, description string, input json.RawMessage, f func(context.Context, args) (string, error)) tool.Tool {
		return newAdapter(tool.Definition{Name: name, Description: description, Input: input}, time.Minute, decoded(func(ctx context.Context, a args) (tool.Result, error) {
			s, err := f(ctx, a)
			return tool.TextResult(s), err
		}))
	}
	return []tool.Tool{
		make("create_goal", "Set the session's goal, once the user has agreed to it.", object([]string{"objective"}, text("objective", "What is to be reached, so that it can be told when it is.")),
			func(ctx context.Context, a args) (string, error) { return g.Create(ctx, a.Objective) }),
		make("update_goal", "Say that the goal is complete or blocked.", object([]string{"status", "reason"}, `"status":{"type":"string","enum":["complete","blocked"]},`+text("reason", "What shows it.")),
			func(ctx context.Context, a args) (string, error) { return g.Update(ctx, a.Status, a.Reason) }),
		make("get_goal", "Read the session's goal.", object(nil, ""), func(ctx context.Context, _ args) (string, error) { return g.Get(ctx) }),
	}
}
