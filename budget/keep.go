package budget

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/tool"
)

// Scheme stands before a handle where a path may stand.
const Scheme = "artifact:"

// Keeper stores what is not shown. It is called by the goroutine that bounds
// the result, at most once for each part that becomes a receipt.
type Keeper interface {
	// Keep stores text under a new handle. An error says in its [tool.Error] what
	// the model may know, and hides what only a person may.
	Keep(about tool.ArtifactInfo, text string) (Kept, error)
}

// Kept is what was stored.
type Kept struct {
	tool.ArtifactRef
	Redacted bool // secrets in it were replaced first
}

// Call is what a receipt says about the call.
type Call struct {
	Tool      string
	Arguments json.RawMessage

	// Readable says that the model can open artifacts: a reader is in its list.
	Readable bool

	// Keeper stores what is not shown; nil keeps nothing.
	Keeper Keeper
}

// errSensitive is why a result is kept nowhere. The store would refuse it, too.
var errSensitive = tool.Errorf(tool.NotAvailable, "a sensitive result is not archived")

// keeping keeps the parts of one result.
type keeping struct {
	Call
	sensitive bool
	isError   bool
	code      tool.Code
	links     []tool.Content
	hidden    []error // why something was not kept, for a person
}

func (k *keeping) keep(title, mime, text string) (Kept, error) {
	if k.sensitive {
		return Kept{}, errSensitive
	}
	if k.Keeper == nil {
		return Kept{}, tool.Errorf(tool.NotAvailable, "no artifact store is open")
	}
	ref, err := k.Keeper.Keep(tool.ArtifactInfo{Title: title, MIMEType: mime}, text)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			k.hidden = append(k.hidden, cause)
		}
		return ref, err
	}
	k.links = append(k.links, tool.Content{Kind: tool.KindResourceLink, URI: Scheme + ref.Handle, Name: head(title, 128), MIMEType: mime})
	return ref, nil
}

// Long reports whether lines are no way to page through what was kept: its
// longest line is cut where it is shown.
func (k Kept) Long() bool { return k.LongestLine > artifact.LongLine }

// sourceOf is what a call was about, quoted and bounded; "" if no argument says.
func sourceOf(args json.RawMessage) string {
	const most = 256
	var members map[string]json.RawMessage
	if json.Unmarshal(args, &members) != nil {
		return ""
	}
	for _, name := range []string{"query", "url", "pattern", "path", "file_path"} {
		var v string
		if json.Unmarshal(members[name], &v) != nil || v == "" {
			continue
		}
		q, err := json.Marshal(strings.Join(strings.Fields(head(v, most)), " "))
		if err != nil || len(q) > most {
			return ""
		}
		return name + " " + string(q)
	}
	return ""
}
