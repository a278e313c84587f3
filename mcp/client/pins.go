package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/gowebpki/jcs"

	"github.com/wasmtools/wasmtools/tool"
)

// Pins remember the definitions of one server's tools that somebody has agreed
// to, by using the server for the first time or by accepting a change: a server
// that says something else later has its tool held back. They are a file in a
// folder of ours.
type Pins struct {
	path string
}

// OpenPins names the pins of a server; an empty folder means that none are kept,
// so that every definition is believed.
func OpenPins(dir, server string) *Pins {
	if dir == "" {
		return &Pins{}
	}
	return &Pins{path: filepath.Join(dir, server+".json")}
}

// pinned is the file.
type pinned struct {
	Version int                        `json:"version"`
	Tools   map[string]json.RawMessage `json:"tools"` // definitions in canonical form, by the server's own names
}

const maxPins = 32 << 20

// load reads the pins; nil if there are none yet.
func (p *Pins) load() (map[string]json.RawMessage, error) {
	if p.path == "" {
		return nil, nil
	}
	f, err := os.Open(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPins+1))
	if err != nil {
		return nil, err
	}
	var got pinned
	if len(b) > maxPins || json.Unmarshal(b, &got) != nil || got.Version != 1 || got.Tools == nil {
		return nil, fmt.Errorf("the file of accepted definitions %s is damaged; remove it to accept all anew", p.path)
	}
	return got.Tools, nil
}

// save replaces the pins.
func (p *Pins) save(tools map[string]json.RawMessage) error {
	if p.path == "" {
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // what is compared later is the bytes
	if err := e.Encode(pinned{1, tools}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(p.path), ".pins-")
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), p.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Drop forgets them, so that the next use of the server accepts all anew.
func (p *Pins) Drop() error {
	if p.path == "" {
		return nil
	}
	err := os.Remove(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// state tells whether the file is another than before.
func (p *Pins) state() string {
	if p.path == "" {
		return ""
	}
	info, err := os.Stat(p.path)
	if err != nil {
		return "none"
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size())
}

// canonical is a definition as it is compared: everything that reaches a model or
// decides about a call.
func canonical(t remoteTool) (json.RawMessage, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(b)
}

// Standing is how a definition relates to the accepted one.
type Standing string

const (
	Accepted Standing = "accepted"
	Changed  Standing = "changed" // since it was accepted
	New      Standing = "new"     // listed since the server was accepted
	Gone     Standing = "gone"    // accepted, and not listed any more
	Faulty   Standing = "faulty"  // never to be used as it is
)

// Difference is one tool of a server, with its definition as it was accepted and
// as it is now.
type Difference struct {
	Name     string          `json:"name"` // the server's own
	Tool     string          `json:"tool"` // under which it is called here
	Standing Standing        `json:"standing"`
	Why      string          `json:"why,omitempty"`
	Before   json.RawMessage `json:"before,omitempty"`
	Now      json.RawMessage `json:"now,omitempty"`
}

// compare holds a list against the pins. Without pins everything is accepted.
func compare(server string, listed []remoteTool, pins map[string]json.RawMessage) []Difference {
	var out []Difference
	seen := map[string]bool{}
	names := map[string]string{}
	for _, t := range listed {
		d := Difference{Name: clean(t.Name, 200), Tool: localName(server, t.Name), Standing: Accepted}
		now, err := canonical(t)
		switch other, taken := names[d.Tool]; {
		case err != nil:
			d.Standing, d.Why = Faulty, "its definition cannot be read"
		case taken && other == t.Name:
			d.Standing, d.Why = Faulty, "the server lists two tools of this name"
			d.Tool = localName(server, fmt.Sprintf("%s#%d", t.Name, len(out)))
		case taken:
			d.Standing, d.Why = Faulty, "another tool of the server has this name here"
			d.Tool = localName(server, fmt.Sprintf("%s#%d", t.Name, len(out)))
		default:
			d.Why = faultOf(t)
			if d.Why != "" {
				d.Standing = Faulty
			}
		}
		names[d.Tool] = t.Name
		d.Now = now
		if d.Standing != Faulty && pins != nil {
			before, known := pins[t.Name]
			switch {
			case !known:
				d.Standing, d.Why = New, "it is new since the server was accepted"
			case tool.DigestOf(before) != tool.DigestOf(now):
				d.Standing, d.Why, d.Before = Changed, "its definition is another than the one that was accepted", before
			}
		}
		seen[t.Name] = true
		out = append(out, d)
	}
	for _, name := range slices.SortedFunc(maps.Keys(pins), cmp.Compare[string]) {
		if !seen[name] {
			out = append(out, Difference{Name: name, Tool: localName(server, name), Standing: Gone, Before: pins[name]})
		}
	}
	return out
}
