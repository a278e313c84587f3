package channel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/tool"
)

// The protocol: lines of JSON, one object each. The server speaks first, with a
// [greeting]; then every line of the client is a [message] and gets one [reply],
// but for show, whose reply comes in parts; watch, after which the server sends a
// line whenever something changed and the client nothing more; and attach, after
// which the server sends what a terminal shows, and the client types and resizes
// without a reply.
const version = 1

// Limits.
const (
	maxMessage = 64 << 10  // bytes of one line of a client; the longest holds a reason and a rule
	maxReply   = 1 << 20   // bytes of one line of a server
	maxPart    = 512 << 10 // bytes of one part of show, before base64
	maxShown   = 64 << 20  // bytes of one request as JSON; the desk holds less
	MaxReason  = 2 << 10   // bytes of the reason for a no, which goes to the model
	maxRule    = 16 << 10  // bytes of a rule that is saved
	maxListed  = 256       // tickets in one list, of which a desk holds no more; sessions in another
)

// About says what a runtime is.
type About struct {
	PID       int       `json:"pid"`
	Start     uint64    `json:"start"` // see [Process]
	Program   string    `json:"program,omitempty"`
	Workspace string    `json:"workspace,omitempty"` // its real path
	Started   time.Time `json:"started,omitzero"`
}

type greeting struct {
	Wasmtools string   `json:"wasmtools"` // always "approvals"
	Version   int      `json:"v"`
	About     *About   `json:"about,omitempty"`
	Error     *failure `json:"error,omitempty"`
}

const protocol = "approvals"

// What a client may ask for.
const (
	opList   = "list"
	opShow   = "show"
	opAnswer = "answer"
	opWatch  = "watch"
	opJoin   = "joinable"
	opAttach = "attach"
	opType   = "type"   // after attach
	opResize = "resize" // after attach
)

type message struct {
	Version int              `json:"v"`
	Op      string           `json:"op"`
	Ticket  string           `json:"ticket,omitempty"`
	Binding tool.Digest      `json:"binding,omitempty"` // of what the person saw
	Verdict approval.Verdict `json:"verdict,omitempty"`
	Reason  string           `json:"reason,omitempty"`
	Channel string           `json:"channel,omitempty"`
	Save    *wireSave        `json:"save,omitempty"`

	Session  string `json:"session,omitempty"` // of attach
	ReadOnly bool   `json:"read_only,omitempty"`
	Data     []byte `json:"data,omitempty"` // of type
	Cols     int    `json:"cols,omitempty"`
	Rows     int    `json:"rows,omitempty"`
}

// wireSave is an [approval.Rule].
type wireSave struct {
	ID   string `json:"id"`
	TOML string `json:"toml"`
}

func saveOf(r *approval.Rule) *wireSave {
	if r == nil {
		return nil
	}
	return &wireSave{r.ID, r.TOML}
}

func (s *wireSave) rule() *approval.Rule {
	if s == nil {
		return nil
	}
	return &approval.Rule{ID: s.ID, TOML: s.TOML}
}

type reply struct {
	OK       bool      `json:"ok"`
	Error    *failure  `json:"error,omitempty"`
	Waiting  []Waiting `json:"waiting,omitempty"`
	Joinable []Session `json:"joinable,omitempty"`
	Part     []byte    `json:"part,omitempty"`
	More     bool      `json:"more,omitempty"`
	Anew     bool      `json:"anew,omitempty"` // of attach: something before this part was missed
}

// failure is a refusal, with a code that the client's Go error is made from.
type failure struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Waiting is a request as lists have it.
type Waiting struct {
	Ticket  string       `json:"ticket"`
	CallID  string       `json:"call_id"`
	Session string       `json:"session"`
	Tool    string       `json:"tool"`
	Source  tool.Source  `json:"source"`
	Effects tool.Effects `json:"effects"`
	Input   tool.Digest  `json:"input_digest"`
	Binding tool.Digest  `json:"binding"`
	Summary string       `json:"summary"` // one line, safe to show
	Expires time.Time    `json:"expires"`
	MaySave bool         `json:"may_save,omitempty"` // a rule can be saved with the answer
}

// Errors of the protocol beside those of the desk.
var (
	ErrRefused   = errors.New("the runtime refuses this process")
	ErrNoSuch    = errors.New("no call waits under this ticket")
	ErrNoSession = errors.New("no session of this name can be joined")
	ErrOver      = errors.New("the session has ended")
	ErrChanged   = errors.New("the call is not the one that was shown")
	errBad       = errors.New("the runtime does not understand the message")
)

// codes joins the errors that can cross the socket with their names on it.
var codes = []struct {
	code string
	err  error
}{
	{"refused", ErrRefused}, {"no_such", ErrNoSuch}, {"changed", ErrChanged}, {"bad", errBad}, {"no_session", ErrNoSession}, {"over", ErrOver},
	{"answered", approval.ErrAnswered}, {"expired", approval.ErrExpired}, {"not_offered", approval.ErrNotOffered},
}

func failed(err error) *failure {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return &failure{c.code, err.Error()}
		}
	}
	return &failure{"internal", err.Error()}
}

func (f *failure) err() error {
	for _, c := range codes {
		if c.code == f.Code {
			if f.Text == c.err.Error() {
				return c.err
			}
			return &detailed{f.Text, c.err}
		}
	}
	return errors.New(f.Text)
}

// detailed is an error of the table with a text of its own.
type detailed struct {
	text string
	err  error
}

func (d *detailed) Error() string { return d.text }
func (d *detailed) Unwrap() error { return d.err }

// parseMessage reads one line of a client.
func parseMessage(line []byte) (message, error) {
	var m message
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("%w: it is no JSON object of the protocol", errBad)
	}
	if _, err := d.Token(); err == nil || d.InputOffset() < int64(len(bytes.TrimRight(line, " \t\r\n"))) {
		return m, fmt.Errorf("%w: more than one object in a line", errBad)
	}
	if m.Version != version {
		return m, fmt.Errorf("%w: it is of version %d, this runtime speaks %d", errBad, m.Version, version)
	}
	if !utf8.ValidString(m.Reason) || len(m.Reason) > MaxReason {
		return m, fmt.Errorf("%w: the reason is longer than %d bytes", errBad, MaxReason)
	}
	if m.Save != nil && len(m.Save.TOML)+len(m.Save.ID) > maxRule {
		return m, fmt.Errorf("%w: the rule is longer than %d bytes", errBad, maxRule)
	}
	return m, nil
}

// text is a string of a stranger. JSON would replace bytes that are not UTF-8,
// and two paths would become one, so such a string travels as base64.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string][]byte{"base64": []byte(t)})
}

func (t *text) UnmarshalJSON(p []byte) error {
	var s string
	if err := json.Unmarshal(p, &s); err == nil {
		*t = text(s)
		return nil
	}
	var raw struct {
		Base64 []byte `json:"base64"`
	}
	if err := json.Unmarshal(p, &raw); err != nil {
		return err
	}
	*t = text(raw.Base64)
	return nil
}

// wireRequest is a request as show sends it.
type wireRequest struct {
	Ticket    text         `json:"ticket"`
	CallID    text         `json:"call_id"`
	Session   text         `json:"session"`
	Tool      text         `json:"tool"`
	Source    text         `json:"source"`
	Module    tool.Digest  `json:"module,omitempty"`
	Input     tool.Digest  `json:"input_digest"`
	Binding   tool.Digest  `json:"binding"`
	Effects   tool.Effects `json:"effects"`
	Expires   time.Time    `json:"expires"`
	Workspace text         `json:"workspace,omitempty"`
	Root      text         `json:"root,omitempty"`
	Arguments text         `json:"arguments,omitempty"`
	Asked     *wireRule    `json:"asked_by,omitempty"`
	InPerson  bool         `json:"in_person,omitempty"`
	Offer     *wireSave    `json:"offer,omitempty"`
	Writes    []wireWrite  `json:"writes,omitempty"`
	Diff      text         `json:"diff,omitempty"`
	Command   text         `json:"command,omitempty"`
	Cwd       text         `json:"cwd,omitempty"`
	Profile   text         `json:"profile,omitempty"`
	Shell     text         `json:"shell,omitempty"`
	Into      text         `json:"into,omitempty"`
	Changed   bool         `json:"changed,omitempty"`
	TimeoutMS int64        `json:"timeout_ms,omitempty"`
	Env       []wireEnv    `json:"env,omitempty"`
	Hosts     []text       `json:"hosts,omitempty"`
	Protected []wireList   `json:"protected,omitempty"`
}

// wireList is a [tool.ProtectedPath].
type wireList struct {
	Path  text `json:"path"`
	Rule  text `json:"rule"`
	Where text `json:"where,omitempty"`
}

type wireRule struct {
	ID   text `json:"id"`
	File text `json:"file,omitempty"`
	Line int  `json:"line,omitempty"`
	Why  text `json:"why,omitempty"`
}

type wireWrite struct {
	Op       tool.WriteOp  `json:"op"`
	Path     text          `json:"path"`
	From     text          `json:"from,omitempty"`
	Identity tool.Identity `json:"identity"`
	Replaced tool.Identity `json:"replaced"`
	Before   tool.Digest   `json:"before,omitempty"`
	Stamp    tool.Digest   `json:"stamp,omitempty"`
	After    tool.Digest   `json:"after,omitempty"`
	Mode     fs.FileMode   `json:"mode"`
	Size     int64         `json:"size"`

	Permanent bool `json:"permanent,omitempty"`
}

type wireEnv struct {
	Name  text `json:"name"`
	Value text `json:"value"`
}

func toWire(r approval.Request) wireRequest {
	v := r.Preview
	w := wireRequest{
		Ticket: text(r.Ticket), CallID: text(r.CallID), Session: text(r.Session), Tool: text(r.Tool), Source: text(r.Source),
		Module: r.Module, Input: r.Input, Binding: v.Binding, Effects: r.Effects, Expires: r.Expires,
		Workspace: text(r.Workspace), Root: text(r.Root), Arguments: text(r.Arguments), InPerson: r.InPerson, Offer: saveOf(r.Offer),
		Diff: text(v.Diff), Command: text(v.Command), Cwd: text(v.Cwd),
		Profile: text(v.Profile), Shell: text(v.Shell), Into: text(v.Into), Changed: v.Changed, TimeoutMS: v.Timeout.Milliseconds(),
	}
	if a := r.Asked; a != (approval.RuleRef{}) {
		w.Asked = &wireRule{text(a.ID), text(a.File), a.Line, text(a.Why)}
	}
	if v.Writes != nil {
		for _, e := range v.Writes.Entries {
			w.Writes = append(w.Writes, wireWrite{e.Op, text(e.Path), text(e.From), e.Identity, e.Replaced, e.Before, e.Stamp, e.After, e.Mode, e.Size, e.Permanent})
		}
	}
	for name, value := range v.Env {
		w.Env = append(w.Env, wireEnv{text(name), text(value)})
	}
	for _, h := range v.Hosts {
		w.Hosts = append(w.Hosts, text(h))
	}
	for _, p := range v.Protected {
		w.Protected = append(w.Protected, wireList{text(p.Path), text(p.Rule), text(p.Where)})
	}
	return w
}

func (w wireRequest) request() approval.Request {
	r := approval.Request{
		Ticket: string(w.Ticket), CallID: string(w.CallID), Session: string(w.Session), Tool: string(w.Tool), Source: tool.Source(w.Source),
		Module: w.Module, Input: w.Input, Effects: w.Effects, Expires: w.Expires,
		Workspace: string(w.Workspace), Root: string(w.Root), Arguments: json.RawMessage(w.Arguments), InPerson: w.InPerson, Offer: w.Offer.rule(),
		Preview: tool.Preview{Diff: string(w.Diff), Command: string(w.Command), Cwd: string(w.Cwd), Binding: w.Binding,
			Profile: string(w.Profile), Shell: string(w.Shell), Into: string(w.Into), Changed: w.Changed, Timeout: time.Duration(w.TimeoutMS) * time.Millisecond},
	}
	if w.Arguments == "" {
		r.Arguments = nil
	}
	if a := w.Asked; a != nil {
		r.Asked = approval.RuleRef{ID: string(a.ID), File: string(a.File), Line: a.Line, Why: string(a.Why)}
	}
	if len(w.Writes) > 0 {
		set := &tool.WriteSet{}
		for _, e := range w.Writes {
			set.Entries = append(set.Entries, tool.Write{Op: e.Op, Path: string(e.Path), From: string(e.From), Identity: e.Identity,
				Replaced: e.Replaced, Before: e.Before, Stamp: e.Stamp, After: e.After, Mode: e.Mode, Size: e.Size, Permanent: e.Permanent})
		}
		r.Preview.Writes = set
	}
	for _, e := range w.Env {
		if r.Preview.Env == nil {
			r.Preview.Env = map[string]string{}
		}
		r.Preview.Env[string(e.Name)] = string(e.Value)
	}
	for _, h := range w.Hosts {
		r.Preview.Hosts = append(r.Preview.Hosts, string(h))
	}
	for _, p := range w.Protected {
		r.Preview.Protected = append(r.Preview.Protected, tool.ProtectedPath{Path: string(p.Path), Rule: string(p.Rule), Where: string(p.Where)})
	}
	return r
}

// JSON is r in the form that `wasmtools approvals show --json` prints, which is
// also the protocol's.
func JSON(r approval.Request) any { return toWire(r) }
