package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/wasmtools/wasmtools/evidence"
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

// updater puts lines into tables.
type updater struct {
	ctx                              context.Context
	intent, outcome, path, host, end *sql.Stmt
	decided                          *sql.Stmt
}

func newUpdater(ctx context.Context, tx *sql.Tx) (*updater, error) {
	u := &updater{ctx: ctx}
	for _, s := range []struct {
		stmt **sql.Stmt
		sql  string
	}{
		{&u.intent, `INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, 0, '', '', ?, ?, ?, ?, ?, ?, ?, '', '', '', '', ?, ?)`},
		{&u.outcome, `UPDATE calls SET ended = ?, status = ?, code = ?, approver = coalesce(nullif(?, ''), approver), channel = coalesce(nullif(?, ''), channel),
			rule = coalesce(nullif(?, ''), rule), ticket = coalesce(nullif(?, ''), ticket), summary = coalesce(nullif(summary, ''), ?) WHERE id = ?`},
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

func (u *updater) take(l *evidence.Line) error {
	switch l.Type {
	case "intent":
		var in struct {
			evidence.Intent
			Redacted bool
		}
		if json.Unmarshal(l.Raw, &in) != nil {
			return nil // not as we write them; verification says so
		}
		paths, hosts := named(in.Arguments)
		if _, err := u.intent.ExecContext(u.ctx, l.Seq, l.Segment, l.Offset, l.Writer, l.Time.UnixMicro(),
			in.Call, in.Turn, in.Session, in.Tool, string(in.Source), string(in.Module), in.Effects.String(), in.Redacted, summary(paths, hosts)); err != nil {
			return err
		}
		return u.names(l.Seq, paths, hosts)
	case "event":
		var e evidence.Event
		if json.Unmarshal(l.Raw, &e) != nil {
			return nil
		}
		if a := e.Approval; a != nil {
			if _, err := u.decided.ExecContext(u.ctx, a.By, a.Channel, rule(a.Rule), a.Ticket, l.Of); err != nil {
				return err
			}
		}
		return u.names(l.Of, written(e.Writes), nil)
	case "outcome":
		var o evidence.Outcome
		if json.Unmarshal(l.Raw, &o) != nil {
			return nil
		}
		paths, a := append(written(o.Writes), o.Used.Paths...), o.Approval
		if _, err := u.outcome.ExecContext(u.ctx, l.Time.UnixMicro(), string(o.Status), string(o.Code), a.By, a.Channel, rule(a.Rule), a.Ticket,
			summary(paths, o.Used.Hosts), l.Of); err != nil {
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

func (u *updater) names(id uint64, paths, hosts []string) error {
	for _, p := range paths {
		if p = cleanPath(p); p != "" {
			if _, err := u.path.ExecContext(u.ctx, p, id); err != nil {
				return err
			}
		}
	}
	for _, h := range hosts {
		if _, err := u.host.ExecContext(u.ctx, strings.ToLower(h), id); err != nil {
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
