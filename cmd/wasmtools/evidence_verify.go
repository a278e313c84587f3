package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/approval/channel"
	"github.com/wasmtools/wasmtools/evidence"
)

func newEvidenceVerify() *cobra.Command {
	var f runtimeFlags
	var asJSON bool
	var anchors, file, key string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Check that the record is as it was written",
		Long: `Check that the record is as it was written: nothing edited, removed, inserted,
reordered or cut off. Exit code 6 if something is not, with where and what.

With --anchor it must also hold what was anchored before, which the local key
alone cannot show (docs/evidence.md). With --file, lines that export wrote are
checked against the public key.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := namesFile(c, "anchor", "file", "key"); err != nil {
				return err
			}
			var o evidence.VerifyOptions
			if anchors != "" {
				a, err := openNamed(anchors)
				if err != nil {
					return err
				}
				defer a.Close()
				if o.Anchors, err = evidence.ReadAnchors(a); err != nil {
					fmt.Fprintf(c.ErrOrStderr(), "error: %s: %v\n", anchors, err)
					return exitCode(exitMismatch)
				}
			}
			var r evidence.Report
			var err error
			switch {
			case file != "":
				in := c.InOrStdin()
				if file != "-" {
					p, err := openNamed(file)
					if err != nil {
						return err
					}
					defer p.Close()
					in = p
				}
				r, err = evidence.VerifyExport(in, key, o.Anchors)
			case key != "":
				return usageError{errors.New("--key goes with --file; the record of this machine is checked with its own key")}
			default:
				var dir string
				if dir, err = f.recordDir(c); err != nil {
					return err
				}
				r, err = evidence.Verify(dir, o)
				if errors.Is(err, fs.ErrNotExist) && anchors != "" {
					fmt.Fprintf(c.ErrOrStderr(), "error: %v, but %s says that there was a record\n", errNothing, anchors)
					return exitCode(exitMismatch)
				} else if errors.Is(err, fs.ErrNotExist) {
					err = errNothing
				}
			}
			if err != nil {
				return err
			}
			if asJSON {
				err = printLine(c.OutOrStdout(), r)
			} else {
				_, err = fmt.Fprint(c.OutOrStdout(), r.Summary())
			}
			if err == nil && !r.OK {
				err = exitCode(exitMismatch)
			}
			return err
		},
	}
	f.addWorkspace(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as one JSON document")
	c.Flags().StringVar(&anchors, "anchor", "", "a file that anchor wrote")
	c.Flags().StringVar(&file, "file", "", "check this export (- for standard input) in place of the workspace's record")
	c.Flags().StringVar(&key, "key", "", "with --file: the public key that must have signed it; without it, the one that the file names")
	return c
}

func newEvidenceAnchor() *cobra.Command {
	var f runtimeFlags
	var to string
	c := &cobra.Command{
		Use:   "anchor --to FILE",
		Short: "Write a signed statement of where the record stands into a file outside",
		Long: `Append a signed statement of where the record stands to a file: one line of JSON.
Keep the file where nobody who can change the record can change it as well.
verify --anchor FILE then shows whether the record was put back or begun anew.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if to == "" {
				return usageError{errors.New("--to names the file that takes the anchor")}
			}
			l, err := f.openExisting(c)
			if err != nil {
				return err
			}
			a, err := l.Anchor()
			if err == nil {
				err = a.AppendTo(to)
				var at *fs.PathError
				if errors.As(err, &at) && at.Path == to {
					err = usageError{err}
				}
			}
			if err = errors.Join(err, l.Close()); err == nil {
				notice(c)(fmt.Sprintf("record %d is anchored in %s, signed by %s", a.Seq, to, a.Key))
			}
			return err
		},
	}
	f.addWorkspace(c)
	c.Flags().StringVar(&to, "to", "", "the file; it is made if it is missing, and only ever added to")
	return c
}

func newEvidencePrune() *cobra.Command {
	var f runtimeFlags
	var keep retention
	var dry, asJSON bool
	c := &cobra.Command{
		Use:   "prune",
		Short: "Forget the oldest records, so that the rest still verifies (for a person, at a terminal)",
		Long: `Forget the oldest records: whole segments of some 16 MiB, oldest first, as long
as one of the bounds asks for it. The newest segment stays. The record says what
was removed, signed, and goes on to verify. --dry-run only looks, and needs nobody.`,
		Example: `  wasmtools evidence prune --older-than 90d --dry-run
  wasmtools evidence prune --max-size 500MiB`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			age, bytes, err := keep.parse()
			if err != nil {
				return err
			}
			r := evidence.Retention{MaxAge: age, MaxBytes: bytes}
			p, err := f.prune(c, r, dry)
			if err != nil {
				return err
			}
			if asJSON {
				return printLine(c.OutOrStdout(), p)
			}
			verb := "removed"
			if dry {
				verb = "would be removed"
			}
			if p.Segments == 0 {
				fmt.Fprintln(c.OutOrStdout(), "nothing is old enough or too much")
				return nil
			}
			fmt.Fprintf(c.OutOrStdout(), "%d segments (%d bytes) %s: records up to %d\n", p.Segments, p.Bytes, verb, p.Through)
			return nil
		},
	}
	f.addWorkspace(c)
	keep.add(c, "segments whose newest record is older than this: 90d, 12h", "segments beyond this size of all together: 500MiB, 1GiB")
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would be removed")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (f *runtimeFlags) prune(c *cobra.Command, r evidence.Retention, dry bool) (evidence.Pruned, error) {
	if dry {
		reader, err := f.openReader(c)
		if err != nil {
			return evidence.Pruned{}, err
		}
		return evidence.PlanPrune(reader.Dir(), r)
	}
	if _, err := f.openReader(c); err != nil {
		return evidence.Pruned{}, err
	}
	// Evidence of what a program did is not for that program to remove.
	if err := channel.Human(c.Context(), channel.Folder(userDirs().run)); err != nil {
		return evidence.Pruned{}, err
	}
	l, err := f.openExisting(c)
	if err != nil {
		return evidence.Pruned{}, err
	}
	p, err := l.Prune(r)
	return p, errors.Join(err, l.Close())
}

// retention are the flags that say how much of something is kept.
type retention struct{ age, size string }

func (r *retention) add(c *cobra.Command, age, size string) {
	c.Flags().StringVar(&r.age, "older-than", "", age)
	c.Flags().StringVar(&r.size, "max-size", "", size)
}

// parse gives the bounds; 0 is none. One of them has to be given.
func (r *retention) parse() (age time.Duration, bytes int64, err error) {
	if r.age != "" {
		if age, err = parseAge(r.age); err != nil {
			return 0, 0, usageError{err}
		}
	}
	if r.size != "" {
		if bytes, err = parseSize(r.size); err != nil {
			return 0, 0, usageError{err}
		}
	}
	if r.age == "" && r.size == "" {
		return 0, 0, usageError{errors.New("say what may go: --older-than AGE, --max-size SIZE, or both")}
	}
	return age, bytes, nil
}

// parseAge reads a span in which days are allowed.
func parseAge(s string) (time.Duration, error) {
	if n, ok := strings.CutSuffix(s, "d"); ok {
		if days, err := strconv.ParseUint(n, 10, 16); err == nil && days > 0 {
			return time.Duration(days) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--older-than is a span such as 90d or 12h, not %q", s)
	}
	return d, nil
}

// parseSize reads a number of bytes with an optional unit.
func parseSize(s string) (int64, error) {
	n, unit := s, int64(1)
	for _, u := range []struct {
		name string
		size int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}} {
		if v, ok := strings.CutSuffix(s, u.name); ok {
			n, unit = v, u.size
			break
		}
	}
	v, err := strconv.ParseInt(strings.TrimSpace(n), 10, 32)
	if err != nil || v <= 0 {
		return 0, fmt.Errorf("--max-size is a size such as 500MiB or 1GiB, not %q", s)
	}
	return v * unit, nil
}
