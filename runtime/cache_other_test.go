//go:build !unix

package runtime

import "testing"

var damageUnix []struct {
	name string
	do   func(t *testing.T, c *cached, file string, good []byte)
}
