package runtime

// CacheState reports whether compiled modules are kept, and where, for a person.
// Why a cache is not used was told through [Options.Notice].
func (e *Engine) CacheState() (bool, string) {
	if e.cache == nil {
		return false, "compiled modules are not kept; every process compiles anew"
	}
	return true, "compiled modules are kept in " + e.cache.dir + ", authenticated"
}
