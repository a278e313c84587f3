//go:build !darwin && !(linux && (amd64 || arm64))

package proctree

import (
	"context"
	"errors"
)

type noHost struct{}

func newHost(Options) host { return noHost{} }

func (noHost) start(context.Context, Spec) (*Process, error) {
	return nil, &StartError{Op: "process tree", Err: errors.ErrUnsupported}
}

func (noHost) probe(_ context.Context, p Profile) (Active, error) {
	return Active{}, &UnavailableError{Profile: p.Name, Reason: "process trees are not supported on this system"}
}

func (noHost) close() error { return nil }
