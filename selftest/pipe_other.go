//go:build !unix

package selftest

import "errors"

func pipe(string) error { return errors.ErrUnsupported }
