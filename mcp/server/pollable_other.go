//go:build !unix

package server

import "io"

func pollable(in io.Reader, _ io.Writer) (io.Reader, func()) { return in, func() {} }
