//go:build !linux

package linmem

import "errors"

func detected() mechanism { return whole }

func (m *Memory) resetFast(mechanism) (Stats, error) { return Stats{}, errors.ErrUnsupported }

func (m *Memory) drop(uint64, uint64) error { return errors.ErrUnsupported }
