//go:build !linux

package channel

import "path/filepath"

func (f *folder) address(name string) string { return filepath.Join(f.file.Name(), name) }
