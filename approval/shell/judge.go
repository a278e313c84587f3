package shell

// Judge judges the text of a bash command as it would run at site. It does no
// I/O but through site.FS, never panics, and takes time proportional to the
// text. It is safe for concurrent use.
func Judge(text string, site Site, rules Rules) Result {
	return Result{Verdict: Ask, Reason: "nothing in this text was looked at"}
}
