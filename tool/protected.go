package tool

// ProtectedPath is a path of a write set that is on the list of protected paths:
// writing there would make something run later, or change what is allowed. A
// yes to the call covers it only if whoever says it, or a rule, means this path;
// a blanket yes never does.
type ProtectedPath struct {
	Path  string `json:"path"`            // canonical; of a removed tree its top, and everything below counts
	Rule  string `json:"rule"`            // name of the list's rule: "git", "editor", ...
	Where string `json:"where,omitempty"` // file and line of the rule; empty for a built-in one
}
