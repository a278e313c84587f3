package shell

// checkJq reads a program for jq word by word and returns what speaks against
// running it, or "": a program that looks at the environment or loads modules
// is told.
func checkJq(prog string) string {
	const unsafe = "the jq program is not known to be safe: "
	for i := 0; i < len(prog); {
		c := prog[i]
		switch {
		case c == '"':
			// A string may hold \( ... ) with code in it, so its text is read as
			// code too; words in strings are harmless but for these few.
			i++
		case c == '$' || nameByte(c, 0):
			start := i
			for i++; i < len(prog) && (nameByte(prog[i], 1) || prog[i] == ':'); i++ {
			}
			field := start > 0 && (prog[start-1] == '.' || prog[start-1] == '"')
			switch prog[start:i] {
			case "$ENV":
				return unsafe + "$ENV shows the environment"
			case "env":
				if !field {
					return unsafe + "env shows the environment"
				}
			case "import", "include", "modulemeta", "get_search_list", "input_filename", "$__prog_args":
				if !field {
					return unsafe + prog[start:i] + " reaches other files"
				}
			}
		default:
			i++
		}
	}
	return ""
}
