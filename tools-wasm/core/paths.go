package main

import guest "github.com/wasmtools/wasmtools/guest-sdk"

func deletePath(c *guest.Call) (guest.Result, error) {
	a := c.Args
	path := a.Get("path").TextOr("")
	if err := checkPaths(a, "path"); err != nil {
		return guest.Result{}, err
	}
	remove := c.Remove
	permanent := a.Get("permanent").BoolOr(false)
	if permanent {
		remove = c.RemovePermanently
	}
	change, err := remove(path, a.Get("recursive").BoolOr(false))
	if err != nil {
		return guest.Result{}, err
	}
	head := "deleted " + quoted(change.Path)
	if change.Removed > 1 {
		head += " and everything in it, " + count(change.Removed, "name") + " in all"
	}
	dry := a.Get("dry_run").BoolOr(false)
	if permanent {
		head += "; no undo brings it back"
	}
	return finish(c, head, dry, guest.F("path", named(change.Path)), guest.F("removed", change.Removed))
}

func movePath(c *guest.Call) (guest.Result, error) {
	a := c.Args
	from, to := a.Get("from").TextOr(""), a.Get("to").TextOr("")
	if err := checkPaths(a, "from", "to"); err != nil {
		return guest.Result{}, err
	}
	change, err := c.Rename(from, to, a.Get("overwrite").BoolOr(false))
	if err != nil {
		return guest.Result{}, err
	}
	head := "moved " + quoted(change.From) + " to " + quoted(change.Path)
	return finish(c, head, a.Get("dry_run").BoolOr(false), guest.F("from", named(change.From)), guest.F("path", named(change.Path)))
}
