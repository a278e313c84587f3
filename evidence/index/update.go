package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/tool"
)

// batch is how many lines one transaction takes in. Other processes wait that
// long at most.
const batch = 20_000

// update takes in the lines after those that the index knows.
func (x *Index) update(ctx context.Context) error {
	for {
		done, err := x.step(ctx)
		if err != nil || done {
			return err
		}
	}
}

// step takes in one batch, in one transaction.
func (x *Index) step(ctx context.Context) (done bool, err error) {
	var at evidence.Cursor
	var hash string
	read := func(q interface {
		QueryRowContext(context.Context, string, ...any) *sql.Row
	}) error {
		err := q.QueryRowContext(ctx, `SELECT segment, offset, seq, hash FROM at`).Scan(&at.Segment, &at.Offset, &at.Seq, &hash)
		if errors.Is(err, sql.ErrNoRows) {
			return errSpoilt
		}
		return err
	}
	if err := read(x.db); err != nil {
		return false, err
	}
	if at.Seq > 0 {
		if err := x.record.Holds(at, hash); errors.Is(err, evidence.ErrElsewhere) {
			return false, errSpoilt
		} else if err != nil {
			return false, err
		}
	}
	segment, size, oldest, err := x.record.Size()
	if err != nil || segment == at.Segment && size == at.Offset {
		return true, err // the usual case needs no transaction
	}
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	was := at
	if err := read(tx); err != nil {
		return false, err
	}
	if at != was { // another process took lines in meanwhile
		return false, nil
	}
	u, err := newUpdater(ctx, tx)
	if err != nil {
		return false, err
	}
	n := 0
	for l, err := range x.record.Lines(at) {
		if err != nil {
			return false, err
		}
		if err := u.take(l); err != nil {
			return false, err
		}
		at, hash = l.After(), l.Hash
		if n++; n == batch {
			break
		}
	}
	if n == 0 {
		return true, nil
	}
	if err := u.flush(); err != nil {
		return false, err
	}
	// What was pruned is forgotten here too.
	for _, q := range []string{
		`DELETE FROM paths WHERE id IN (SELECT id FROM calls WHERE id < ?)`,
		`DELETE FROM hosts WHERE id IN (SELECT id FROM calls WHERE id < ?)`,
		`DELETE FROM calls WHERE id < ?`,
	} {
		if _, err := tx.ExecContext(ctx, q, oldest); err != nil {
			return false, err
		}
	}
	if _, err := tx.ExecContext(ctx, `UPDATE at SET segment = ?, offset = ?, seq = ?, hash = ?`, at.Segment, at.Offset, at.Seq, hash); err != nil {
		return false, err
	}
	return n < batch, tx.Commit()
}

// updater puts lines into tables. What is said of one call in one batch is put
// together before it is written: most calls are one row then, written once.
type updater struct {
	ctx                                 context.Context
	insert, outcome, decided, path, end *sql.Stmt
	host                                *sql.Stmt

	calls map[uint64]*entry
	order []uint64
}

// entry is a call as the tables have it.
type entry struct {
	line                  evidence.Cursor // of the intent
	writer                uint64
	began, ended          int64
	status, code          string
	in                    *indexed
	approver, channel     string
	rule, ticket, summary string
	paths, hosts          []string
}

// indexed is what is read of an intent's line.
type indexed struct {
	Call, Turn, Session, Tool string
	Source, Module            string
	Effects                   tool.Effects
	Arguments                 json.RawMessage
	Redacted                  bool
}

func newUpdater(ctx context.Context, tx *sql.Tx) (*updater, error) {
	u := &updater{ctx: ctx, calls: map[uint64]*entry{}}
	for _, s := range []struct {
		stmt **sql.Stmt
		sql  string
	}{
		{&u.insert, `INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&u.outcome, `UPDATE calls SET ended = ?, status = ?, code = ?, summary = coalesce(nullif(summary, ''), ?) WHERE id = ?`},
		{&u.decided, `UPDATE calls SET approver = coalesce(nullif(?, ''), approver), channel = coalesce(nullif(?, ''), channel),
			rule = coalesce(nullif(?, ''), rule), ticket = coalesce(nullif(?, ''), ticket) WHERE id = ?`},
		{&u.path, `INSERT OR IGNORE INTO paths SELECT ?, id FROM calls WHERE id = ?`},
		{&u.host, `INSERT OR IGNORE INTO hosts SELECT ?, id FROM calls WHERE id = ?`},
		{&u.end, `INSERT OR IGNORE INTO writers VALUES (?)`},
	} {
		var err error
		if *s.stmt, err = tx.PrepareContext(ctx, s.sql); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// take reads one line. Lines that are not as we write them are passed over:
// verification says so.
func (u *updater) take(l *evidence.Line) error {
	switch l.Type {
	case "intent":
		var in indexed
		if json.Unmarshal(l.Raw, &in) != nil {
			return nil
		}
		paths, hosts := named(in.Arguments)
		in.Arguments = nil
		u.calls[l.Seq] = &entry{
			line: evidence.Cursor{Segment: l.Segment, Offset: l.Offset}, writer: l.Writer, began: l.Time.UnixMicro(), in: &in,
			summary: summary(paths, hosts), paths: paths, hosts: hosts,
		}
		u.order = append(u.order, l.Seq)
	case "event":
		var e struct {
			Approval *evidence.Approval
			Writes   []evidence.Write
		}
		if json.Unmarshal(l.Raw, &e) != nil {
			return nil
		}
		if e.Approval != nil {
			if err := u.decide(l.Of, e.Approval); err != nil {
				return err
			}
		}
		return u.names(l.Of, written(e.Writes), nil)
	case "outcome":
		var o struct {
			Status, Code string
			Approval     evidence.Approval
			Writes       []evidence.Write
			Used         struct{ Paths, Hosts []string }
		}
		if json.Unmarshal(l.Raw, &o) != nil {
			return nil
		}
		if err := u.decide(l.Of, &o.Approval); err != nil {
			return err
		}
		paths := append(written(o.Writes), o.Used.Paths...)
		what := summary(paths, o.Used.Hosts)
		if c := u.calls[l.Of]; c != nil {
			c.ended, c.status, c.code = l.Time.UnixMicro(), o.Status, o.Code
			if c.summary == "" {
				c.summary = what
			}
		} else if _, err := u.outcome.ExecContext(u.ctx, l.Time.UnixMicro(), o.Status, o.Code, what, l.Of); err != nil {
			return err
		}
		return u.names(l.Of, paths, o.Used.Hosts)
	case "close":
		_, err := u.end.ExecContext(u.ctx, l.Writer)
		return err
	case "gone":
		var g struct{ Writer uint64 }
		if json.Unmarshal(l.Raw, &g) != nil {
			return nil
		}
		_, err := u.end.ExecContext(u.ctx, g.Writer)
		return err
	}
	return nil
}

// decide notes what is said about a decision; what is not said stays.
func (u *updater) decide(id uint64, approval *evidence.Approval) error {
	a := decision(*approval)
	c := u.calls[id]
	if c == nil {
		_, err := u.decided.ExecContext(u.ctx, a.By, a.Channel, rule(a.Rule), a.Ticket, id)
		return err
	}
	for _, p := range []struct {
		to  *string
		new string
	}{{&c.approver, a.By}, {&c.channel, a.Channel}, {&c.rule, rule(a.Rule)}, {&c.ticket, a.Ticket}} {
		if p.new != "" {
			*p.to = p.new
		}
	}
	return nil
}

// decision is a without who gave it, if it is none: one who was asked and did
// not answer, or sent the question on, has neither allowed nor denied.
func decision(a evidence.Approval) evidence.Approval {
	if a.Verdict != "allow" && a.Verdict != "deny" {
		a.By, a.Channel = "", ""
	}
	return a
}

// names notes which paths and hosts a call touched.
func (u *updater) names(id uint64, paths, hosts []string) error {
	if c := u.calls[id]; c != nil {
		c.paths, c.hosts = append(c.paths, paths...), append(c.hosts, hosts...)
		return nil
	}
	return u.write(id, paths, hosts)
}

func (u *updater) write(id uint64, paths, hosts []string) error {
	last := ""
	for _, p := range paths {
		if p = cleanPath(p); p == "" || p == last {
			continue
		}
		last = p
		if _, err := u.path.ExecContext(u.ctx, p, id); err != nil {
			return err
		}
	}
	for _, h := range hosts {
		if _, err := u.host.ExecContext(u.ctx, strings.ToLower(h), id); err != nil {
			return err
		}
	}
	return nil
}

// flush writes the calls that were begun in this batch.
func (u *updater) flush() error {
	for _, id := range u.order {
		c := u.calls[id]
		if _, err := u.insert.ExecContext(u.ctx, id, c.line.Segment, c.line.Offset, c.writer, c.began, c.ended, c.status, c.code,
			c.in.Call, c.in.Turn, c.in.Session, c.in.Tool, c.in.Source, c.in.Module, c.in.Effects.String(),
			c.approver, c.channel, c.rule, c.ticket, c.in.Redacted, c.summary); err != nil {
			return err
		}
		if err := u.write(id, c.paths, c.hosts); err != nil {
			return err
		}
	}
	return nil
}

// named are the paths and hosts that arguments name themselves, so that a call
// that was refused is found too.
func named(args json.RawMessage) (paths, hosts []string) {
	var m map[string]json.RawMessage
	if json.Unmarshal(args, &m) != nil {
		return nil, nil
	}
	for _, k := range []string{"path", "from", "to", "root", "cwd", "host"} {
		var s string
		if json.Unmarshal(m[k], &s) != nil || s == "" {
			continue
		}
		if k == "host" {
			hosts = append(hosts, s)
		} else {
			paths = append(paths, s)
		}
	}
	return paths, hosts
}

func written(list []evidence.Write) []string {
	var out []string
	for _, w := range list {
		if out = append(out, w.Path); w.From != "" {
			out = append(out, w.From)
		}
	}
	return out
}

func summary(paths, hosts []string) string {
	list := append(paths[:len(paths):len(paths)], hosts...)
	switch len(list) {
	case 0:
		return ""
	case 1:
		return list[0]
	}
	return list[0] + " and " + strconv.Itoa(len(list)-1) + " more"
}

func rule(r evidence.Rule) string {
	switch {
	case r.File != "":
		return r.Name + " (" + r.File + ":" + strconv.Itoa(r.Line) + ")"
	}
	return r.Name
}
