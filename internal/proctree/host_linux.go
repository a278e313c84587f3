package proctree

import (
	"context"
	"errors"
)

type linuxHost struct{}

func newHost(Options) host { return linuxHost{} }

func (linuxHost) start(context.Context, Spec) (*Process, error) {
	return nil, &StartError{Op: "process tree", Err: errors.ErrUnsupported}
}

func (linuxHost) probe(_ context.Context, p Profile) (Active, error) {
	return Active{}, &UnavailableError{Profile: p.Name, Reason: "process trees are not supported on this system"}
}

func (linuxHost) close() error { return nil }
