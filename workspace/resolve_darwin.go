package workspace

func (w *Workspace) probe(Options) { w.why = "this system has no openat2" }

func (w *Workspace) openPath(path string, flags int) (int, error) {
	return w.openPathRoot(path, flags)
}

func (w *Workspace) lstatPath(path string) (st stat, target string, err error) {
	return w.lstatPathRoot(path)
}
