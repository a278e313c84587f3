package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/wasmtools/wasmtools/evidence"
)

// tourRecord is the record that the tour keeps of itself, in its scratch folder.
type tourRecord struct {
	dir string
	log *evidence.Log
}

func openTourRecord(scratch, tree string) (*tourRecord, error) {
	state := filepath.Join(scratch, "state")
	r := &tourRecord{dir: evidence.Dir(state, tree)}
	var err error
	r.log, err = evidence.Open(evidence.Options{Dir: r.dir, Workspace: tree, Program: "wasmtools tour"})
	return r, err
}

// show prints what was recorded, checks it, and checks it once more after one
// byte was changed.
func (r *tourRecord) show(w io.Writer) error {
	if err := r.log.Close(); err != nil {
		return err
	}
	in, err := evidence.OpenReader(r.dir)
	if err != nil {
		return err
	}
	for c, err := range in.Calls(time.Time{}) {
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%-9s %-14s %s", c.Status, c.Intent.Tool, c.Intent.Input[:min(19, len(c.Intent.Input))])
		if c.Outcome != nil {
			switch a := c.Outcome.Approval; {
			case a.By != "":
				line += fmt.Sprintf(", %s said %s", a.By, a.Verdict)
			case a.Rule.Name != "":
				line += ", by the rule " + a.Rule.Name
			}
			for _, f := range c.Outcome.Writes {
				line += fmt.Sprintf(", %s %s", f.Op, f.Path)
			}
		}
		fmt.Fprintln(w, "   | "+line)
	}
	report, err := evidence.Verify(r.dir, evidence.VerifyOptions{})
	if err != nil {
		return err
	}
	if !report.OK {
		return fmt.Errorf("the record of the tour does not verify: %s", report.Summary())
	}
	fmt.Fprintf(w, "   it verifies: %d records of %d calls\n", report.Records, report.Calls)
	if err := r.tamper(); err != nil {
		return err
	}
	report, err = evidence.Verify(r.dir, evidence.VerifyOptions{})
	if err != nil {
		return err
	}
	if report.OK {
		return fmt.Errorf("a changed record still verifies")
	}
	fmt.Fprintf(w, "   with one word changed it does not: %s\n", report.Faults[0])
	return nil
}

// tamper makes the record claim that what the tour denied was completed.
func (r *tourRecord) tamper() error {
	list, err := filepath.Glob(filepath.Join(r.dir, "*"))
	if err != nil {
		return err
	}
	for _, name := range list {
		if fi, err := os.Lstat(name); err != nil || !fi.Mode().IsRegular() {
			continue
		}
		p, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if changed := bytes.Replace(p, []byte(`"denied"`), []byte(`"passed"`), 1); !bytes.Equal(changed, p) {
			return os.WriteFile(name, changed, 0o600)
		}
	}
	return fmt.Errorf("the record of the tour holds nothing that was denied")
}
