// Package index finds calls in a record of evidence without reading all of it.
//
// It is a SQLite database that is made from the record and can be thrown away:
// it is brought up to date whenever it is asked, and made anew when it is
// missing, damaged, or not of this record. What it answers is where calls stand
// and the few fields that lists show; a call itself is read from the record.
//
// The edge: the index believes the record, and a list believes the index. Nobody
// vouches for either here; that is what [evidence.Verify] does. Whoever can write
// to the folder can make a list lie until the next Rebuild.
package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/tool"
)

// folder and file hold the database, below the record.
const (
	folder = "index"
	file   = "calls.sqlite"
)

// Index is an open index. It is safe for concurrent use, also by several
// processes.
type Index struct {
	record *evidence.Reader
	path   string
	db     *sql.DB
	unlock func() // held shared while the database is open
	many   int    // see manyNames
}

// Open opens the index of a record, or makes an empty one. The record must
// exist. Close it when it is not needed any more.
func Open(ctx context.Context, record *evidence.Reader) (*Index, error) {
	x := &Index{record: record, path: filepath.Join(record.Dir(), folder, file), many: manyNames}
	if err := os.Mkdir(filepath.Dir(x.path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := x.lock(true); err != nil {
		return nil, err
	}
	err := x.open(ctx)
	if spoilt(err) {
		err = x.remake(ctx, false)
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// lock changes the lock that keeps the files from being thrown away while they
// are in use.
func (x *Index) lock(shared bool) (err error) {
	if x.unlock != nil {
		x.unlock()
	}
	x.unlock, err = x.record.Lock(folder, shared)
	return err
}

// Close closes the database.
func (x *Index) Close() error {
	err := x.closeDB()
	if x.unlock != nil {
		x.unlock()
		x.unlock = nil
	}
	return err
}

func (x *Index) closeDB() error {
	if x.db == nil {
		return nil
	}
	err := x.db.Close()
	x.db = nil
	return err
}

// schema is what the database must have been made with, to the letter.
const schema = `
CREATE TABLE at (one INTEGER PRIMARY KEY CHECK (one = 1), segment INTEGER, offset INTEGER, seq INTEGER, hash TEXT);
CREATE TABLE calls (
	id INTEGER PRIMARY KEY, segment INTEGER, offset INTEGER, writer INTEGER,
	began INTEGER, ended INTEGER, status TEXT, code TEXT,
	call TEXT, turn TEXT, session TEXT, tool TEXT, source TEXT, module TEXT, effects TEXT,
	-- approver and channel of a decision, not of one who was only asked
	approver TEXT, channel TEXT, rule TEXT, ticket TEXT, redacted INTEGER, summary TEXT
);
CREATE INDEX calls_began ON calls (began);
CREATE INDEX calls_tool ON calls (tool);
CREATE INDEX calls_status ON calls (status);
CREATE INDEX calls_call ON calls (call);
CREATE INDEX calls_session ON calls (session);
CREATE INDEX calls_approver ON calls (approver);
CREATE INDEX calls_ticket ON calls (ticket);
CREATE TABLE paths (path TEXT, id INTEGER, PRIMARY KEY (path, id)) WITHOUT ROWID;
CREATE INDEX paths_id ON paths (id);
CREATE TABLE hosts (host TEXT, id INTEGER, PRIMARY KEY (host, id)) WITHOUT ROWID;
CREATE INDEX hosts_id ON hosts (id);
CREATE TABLE writers (id INTEGER PRIMARY KEY);
`

// busyFor bounds how long a database is waited for that another connection holds.
const busyFor = 10 * time.Second

// open opens the database and waits while it is busy. SQLite's own wait is not
// enough: the change to a write-ahead log, which the first to open it makes and
// the last to close it undoes, answers that the database is busy at once.
func (x *Index) open(ctx context.Context) error {
	until := time.Now().Add(busyFor)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := x.openOnce(ctx)
		if !isBusy(err) || time.Now().After(until) {
			return err
		}
		_ = x.closeDB()
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

func isBusy(err error) bool {
	var s *sqlite.Error
	return errors.As(err, &s) && s.Code()&0xff == sqlite3.SQLITE_BUSY
}

func (x *Index) openOnce(ctx context.Context) error {
	// What a crash of the machine leaves undone is done again from the record, so
	// nothing waits for the disk; what it leaves damaged is made anew.
	q := url.Values{"_pragma": {"journal_mode(wal)", "synchronous(off)", fmt.Sprintf("busy_timeout(%d)", busyFor.Milliseconds()), "temp_store(memory)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: x.path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	x.db = db
	var have string
	err = db.QueryRowContext(ctx, `SELECT coalesce(group_concat(sql || ';', char(10)), '') FROM (SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid)`).Scan(&have)
	if err != nil {
		return err
	}
	if have == "" {
		if err := x.create(ctx); err != nil {
			return err
		}
	} else if strings.TrimSpace(have) != strings.TrimSpace(schema) {
		return errSpoilt
	}
	return nil
}

func (x *Index) create(ctx context.Context) error {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&n); err != nil {
		return err
	}
	if n > 0 { // another process was faster
		return nil
	}
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO at VALUES (1, 0, 0, 0, '')`); err != nil {
		return err
	}
	return tx.Commit()
}

// errSpoilt: the database is not one that this version made from this record.
var errSpoilt = errors.New("the index is not of this record")

// spoilt reports whether err means that the database is of no use.
func spoilt(err error) bool {
	if errors.Is(err, errSpoilt) {
		return true
	}
	var s *sqlite.Error
	if !errors.As(err, &s) {
		return false
	}
	switch s.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH,
		sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_SCHEMA:
		return true
	}
	return false
}

// remake throws the database away and begins an empty one, unless another
// process has done so already and always is false.
func (x *Index) remake(ctx context.Context, always bool) error {
	_ = x.closeDB()
	if err := x.lock(false); err != nil {
		return err
	}
	if always || x.open(ctx) != nil || x.healthy(ctx) != nil {
		_ = x.closeDB()
		for _, end := range []string{"", "-wal", "-shm", "-journal"} {
			if err := os.RemoveAll(x.path + end); err != nil {
				return err
			}
		}
		if err := x.open(ctx); err != nil {
			return err
		}
	}
	return x.lock(true)
}

// healthy looks at every page of the database.
func (x *Index) healthy(ctx context.Context) error {
	var says string
	if err := x.db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&says); err != nil {
		return err
	}
	if says != "ok" {
		return errSpoilt
	}
	var at evidence.Cursor
	var hash string
	if err := x.db.QueryRowContext(ctx, `SELECT segment, offset, seq, hash FROM at`).Scan(&at.Segment, &at.Offset, &at.Seq, &hash); err != nil || at.Seq == 0 {
		return err
	}
	return x.record.Holds(at, hash)
}

// Rebuild makes the index anew from the whole record, and returns how many
// calls it knows.
func (x *Index) Rebuild(ctx context.Context) (calls int, err error) {
	if err := x.remake(ctx, true); err != nil {
		return 0, err
	}
	if err := x.update(ctx); err != nil {
		return 0, err
	}
	err = x.db.QueryRowContext(ctx, `SELECT count(*) FROM calls`).Scan(&calls)
	return calls, err
}

// mend does something with the database, and once more with a new one if it
// turns out to be of no use.
func (x *Index) mend(ctx context.Context, do func() error) error {
	err := do()
	if spoilt(err) {
		if err = x.remake(ctx, false); err == nil {
			err = do()
		}
	}
	return err
}

// Filter chooses calls. Zero fields choose all.
type Filter struct {
	Since, Until time.Time // when the call began; Until is not included
	Tool         string    // patterns: * stands for anything, ? for one character
	Path         string    // of the workspace: the path itself, what is below it, or a pattern
	Host         string    // a pattern
	Approver     string    // a pattern
	Session      string
	Call         string
	Ticket       string
	Status       []evidence.Status
	Effects      tool.Effects // any of them

	Limit  int             // the newest so many; 0 means all
	Before evidence.Handle // only calls that began before this one, for the next page
}

// Row is what a list shows of a call.
type Row struct {
	ID       evidence.Handle `json:"id"`
	At       time.Time       `json:"at"`
	Ended    time.Time       `json:"ended,omitzero"`
	Status   evidence.Status `json:"status"`
	Code     tool.Code       `json:"code,omitempty"`
	Call     string          `json:"call"`
	Turn     string          `json:"turn,omitempty"`
	Session  string          `json:"session,omitempty"`
	Tool     string          `json:"tool"`
	Source   tool.Source     `json:"source,omitempty"`
	Module   tool.Digest     `json:"module,omitempty"`
	Effects  []string        `json:"effects"`
	Approver string          `json:"approver,omitempty"`
	Channel  string          `json:"channel,omitempty"`
	Rule     string          `json:"rule,omitempty"`
	Ticket   string          `json:"ticket,omitempty"`
	Redacted bool            `json:"redacted,omitempty"`
	Summary  string          `json:"summary,omitempty"` // paths or hosts, for a person

	writer uint64
}

// List brings the index up to date and returns the calls that f chooses,
// newest first.
func (x *Index) List(ctx context.Context, f Filter) (rows []Row, err error) {
	err = x.mend(ctx, func() (err error) {
		if err = x.update(ctx); err == nil {
			rows, err = x.list(ctx, f)
		}
		return err
	})
	return rows, err
}

func (x *Index) list(ctx context.Context, f Filter) ([]Row, error) {
	living := x.record.Living()
	for id := range living {
		var n int
		if err := x.db.QueryRowContext(ctx, `SELECT count(*) FROM writers WHERE id = ?`, id).Scan(&n); err != nil {
			return nil, err
		}
		if n > 0 {
			delete(living, id)
		}
	}
	query, args, err := x.query(ctx, f, living)
	if err != nil {
		return nil, err
	}
	rs, err := x.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rs.Close()
	var list []Row
	for rs.Next() {
		var r Row
		var id uint64
		var began, ended int64
		var effects string
		if err := rs.Scan(&id, &r.writer, &began, &ended, &r.Status, &r.Code, &r.Call, &r.Turn, &r.Session, &r.Tool, &r.Source, &r.Module,
			&effects, &r.Approver, &r.Channel, &r.Rule, &r.Ticket, &r.Redacted, &r.Summary); err != nil {
			return nil, err
		}
		r.ID, r.At = evidence.Handle(strconv.FormatUint(id, 10)), time.UnixMicro(began).UTC()
		if ended != 0 {
			r.Ended = time.UnixMicro(ended).UTC()
		}
		if r.Effects = strings.FieldsFunc(effects, func(c rune) bool { return c == ',' }); r.Effects == nil {
			r.Effects = []string{}
		}
		if r.Status == "" {
			r.Status = evidence.Interrupted
			if living[r.writer] {
				r.Status = evidence.Running
			}
		}
		list = append(list, r)
	}
	return list, rs.Err()
}

// manyNames is how many names a filter may match to be looked up at once.
const manyNames = 2000

// names are the conditions on paths and hosts.
func (f Filter) names() (list []nameFilter) {
	if p := cleanPath(f.Path); strings.ContainsAny(p, "*?") {
		list = append(list, nameFilter{"paths", "path GLOB ?", []any{glob(p)}})
	} else if p != "" {
		// From the name and a slash to the name and what follows a slash.
		list = append(list, nameFilter{"paths", "(path = ? OR path >= ? AND path < ?)", []any{p, p + "/", p + "0"}})
	}
	if f.Host != "" {
		list = append(list, nameFilter{"hosts", "host GLOB ?", []any{glob(strings.ToLower(f.Host))}})
	}
	return list
}

type nameFilter struct {
	table, cond string
	args        []any
}

// query puts the filter into words.
func (x *Index) query(ctx context.Context, f Filter, living map[uint64]bool) (string, []any, error) {
	var where []string
	var args []any
	and := func(cond string, a ...any) { where, args = append(where, cond), append(args, a...) }
	match := func(column, pattern string) {
		if pattern == "" {
			return
		}
		if strings.ContainsAny(pattern, "*?") {
			and("+"+column+" GLOB ?", glob(pattern)) // without the index: see the order below
		} else {
			and(column+" = ?", pattern)
		}
	}
	// Calls are wanted in the order of their ids. Where an index gives another
	// order, all that it finds would have to be sorted first; so a time is turned
	// into the ids between which it can be.
	if !f.Since.IsZero() {
		and("+began >= ? AND id >= (SELECT min(id) FROM calls WHERE began >= ?)", f.Since.UnixMicro(), f.Since.UnixMicro())
	}
	if !f.Until.IsZero() {
		and("+began < ? AND id <= (SELECT max(id) FROM calls WHERE began < ?)", f.Until.UnixMicro(), f.Until.UnixMicro())
	}
	if f.Before != "" {
		id, err := strconv.ParseUint(string(f.Before), 10, 63)
		if err != nil {
			return "", nil, fmt.Errorf("%q names no call", string(f.Before))
		}
		and("id < ?", id)
	}
	match("tool", f.Tool)
	match("approver", f.Approver)
	for column, v := range map[string]string{"session": f.Session, "call": f.Call, "ticket": f.Ticket} {
		if v != "" {
			and(column+" = ?", v)
		}
	}
	for _, n := range f.names() {
		count := "SELECT count(*) FROM (SELECT 1 FROM " + n.table + " WHERE " + n.cond + " LIMIT ?)"
		var many int
		if err := x.db.QueryRowContext(ctx, count, append(slices.Clone(n.args), x.many+1)...).Scan(&many); err != nil {
			return "", nil, err
		}
		// Few are looked up; of many, the next calls in order soon have some.
		if many <= x.many {
			and("id IN (SELECT id FROM "+n.table+" WHERE "+n.cond+")", n.args...)
		} else {
			and("EXISTS (SELECT 1 FROM "+n.table+" AS n WHERE n.id = calls.id AND "+n.cond+")", n.args...)
		}
	}
	if f.Effects != 0 {
		var any []string
		for _, e := range f.Effects.Strings() {
			any = append(any, "instr(',' || effects || ',', ?) > 0")
			args = append(args, ","+e+",")
		}
		where = append(where, "("+strings.Join(any, " OR ")+")")
	}
	if len(f.Status) > 0 {
		ids := make([]string, 0, len(living))
		for id := range living {
			ids = append(ids, strconv.FormatUint(id, 10))
		}
		slices.Sort(ids)
		alive := "writer IN (" + strings.Join(ids, ",") + ")"
		var any []string
		for _, s := range f.Status {
			switch s {
			case evidence.Running:
				any = append(any, "(status = '' AND "+alive+")")
			case evidence.Interrupted:
				any = append(any, "(status = '' AND NOT ("+alive+"))")
			default:
				any = append(any, "status = ?")
				args = append(args, string(s))
			}
		}
		where = append(where, "("+strings.Join(any, " OR ")+")")
	}
	q := `SELECT id, writer, began, ended, status, code, call, turn, session, tool, source, module, effects, approver, channel, rule, ticket, redacted, summary FROM calls`
	if len(where) > 0 {
		q += " WHERE " + strings.Join(where, " AND ")
	}
	q += " ORDER BY id DESC"
	if f.Limit > 0 {
		q += " LIMIT " + strconv.Itoa(f.Limit)
	}
	return q, args, nil
}

// glob is a pattern in which only * and ? mean something.
func glob(p string) string { return strings.ReplaceAll(p, "[", "[[]") }

// cleanPath is a path as records have it: relative to the workspace, with '/'.
func cleanPath(p string) string {
	p = strings.TrimPrefix(filepath.ToSlash(p), "./")
	return strings.Trim(p, "/")
}
