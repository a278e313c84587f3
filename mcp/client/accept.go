package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/wasmtools/wasmtools/tool"
)

// acceptable are the definitions that can be accepted.
func acceptable(diffs []Difference, listed []remoteTool) map[string]json.RawMessage {
	all := make(map[string]json.RawMessage, len(listed))
	for i, t := range listed {
		if diffs[i].Standing != Faulty {
			all[t.Name] = diffs[i].Now
		}
	}
	return all
}

// Look connects to a server and holds what it lists now against what was
// accepted. Nothing is accepted by looking.
func Look(ctx context.Context, s Server, o Options) ([]Difference, error) {
	diffs, _, err := look(ctx, s, o)
	return diffs, err
}

func look(ctx context.Context, s Server, o Options) ([]Difference, []remoteTool, error) {
	s, o = s.complete(), o.complete()
	ss, err := dial(ctx, s, o)
	if err != nil {
		return nil, nil, fmt.Errorf("the server %s cannot be reached: %w", s.Name, err)
	}
	defer ss.close()
	listed, err := ss.list(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("the server %s: %w", s.Name, err)
	}
	pins, err := OpenPins(o.PinsDir, s.Name).load()
	if err != nil {
		return nil, nil, err
	}
	return compare(s.Name, listed, pins), listed, nil
}

// Accept accepts what a server lists now: of all its tools, or of those that are
// named, by their own names or by those that they have here. It returns what it
// accepted. shown is the digest of what the person saw (see [Digest]); a server
// that lists something else by now is refused.
func Accept(ctx context.Context, s Server, o Options, shown tool.Digest, names ...string) ([]Difference, error) {
	diffs, listed, err := look(ctx, s, o)
	if err != nil {
		return nil, err
	}
	if shown != "" && Digest(diffs) != shown {
		return nil, tool.Errorf(tool.ApprovalMismatch, "the server lists something else by now than what was shown").WithNext("look again with wasmtools upstream show %s", s.Name)
	}
	pins := OpenPins(o.PinsDir, s.Name)
	have, err := pins.load()
	if err != nil {
		return nil, err
	}
	next := map[string]json.RawMessage{}
	if len(names) > 0 {
		for n, d := range have {
			next[n] = d
		}
	}
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	var done []Difference
	for i, t := range listed {
		d := diffs[i]
		if len(names) > 0 && !wanted[t.Name] && !wanted[d.Tool] {
			continue
		}
		delete(wanted, t.Name)
		delete(wanted, d.Tool)
		if d.Standing == Faulty {
			if len(names) > 0 {
				return nil, tool.Errorf(tool.InvalidArguments, "%s cannot be accepted: %s", d.Tool, d.Why)
			}
			continue
		}
		next[t.Name] = d.Now
		done = append(done, d)
	}
	for n := range wanted {
		return nil, tool.Errorf(tool.NotFound, "the server %s lists no tool %s", s.Name, tool.QuotePath(n)).WithNext("wasmtools upstream show %s lists them", s.Name)
	}
	return done, pins.save(next)
}

// Digest is that of what a person is shown of a server.
func Digest(diffs []Difference) tool.Digest {
	b, err := json.Marshal(diffs)
	if err != nil {
		return ""
	}
	return tool.DigestOf(b)
}
