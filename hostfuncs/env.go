package hostfuncs

import "slices"

// Getenv gives the value of a variable of the host's environment, if the grant
// names it and it is set. A guest cannot tell the two apart.
func (c *Call) Getenv(name string) (string, bool) {
	if c.Env == nil || !slices.Contains(c.Grant.Env, name) {
		return "", false
	}
	return c.Env(name)
}

// Environ lists the variables that the grant names and that are set, as
// NAME=VALUE in the order of the grant.
func (c *Call) Environ() []string {
	var out []string
	for _, n := range c.Grant.Env {
		if v, ok := c.Getenv(n); ok {
			out = append(out, n+"="+v)
		}
	}
	return out
}
