package hostfuncs

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

// Store keeps values between calls. One Store belongs to one module identity
// and one workspace. It is safe for concurrent use; errors are [tool.Error]
// values.
type Store interface {
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)
	Set(ctx context.Context, key string, value []byte) error // nil removes the key
}

// Bounds on what one store holds.
const (
	MaxKey     = 256       // bytes of a key
	MaxValue   = 256 << 10 // bytes of a value
	MaxKeys    = 1_000
	MaxKVBytes = 4 << 20 // of all keys and values
)

// ErrStoreFull is what Set answers when a store is over its bounds.
var ErrStoreFull = tool.Errorf(tool.Quota, "the module's store would hold more than %d keys or %d bytes", MaxKeys, MaxKVBytes).
	WithNext("remove keys that are not needed")

// KVGet reads a value that an earlier call of this module stored.
func (c *Call) KVGet(ctx context.Context, key string) ([]byte, bool, error) {
	if err := c.kv(key); err != nil {
		return nil, false, err
	}
	if v, ok := c.tried[key]; ok {
		return bytes.Clone(v), v != nil, nil
	}
	return c.KV.Get(ctx, key)
}

// KVSet stores a value; nil removes the key. While a call is previewed the
// value is seen by that call only.
func (c *Call) KVSet(ctx context.Context, key string, value []byte) error {
	if err := c.kv(key); err != nil {
		return err
	}
	if len(value) > MaxValue {
		return tool.Errorf(tool.TooLarge, "a value of %d bytes; at most %d can be stored", len(value), MaxValue)
	}
	if !c.Preview {
		return c.KV.Set(ctx, key, value)
	}
	held := len(key) + len(value)
	for k, v := range c.tried {
		if k != key {
			held += len(k) + len(v)
		}
	}
	if _, known := c.tried[key]; !known && len(c.tried) == MaxKeys || held > MaxKVBytes {
		return ErrStoreFull
	}
	if c.tried == nil {
		c.tried = map[string][]byte{}
	}
	if value != nil {
		value = append([]byte{}, value...)
	}
	c.tried[key] = value
	return nil
}

func (c *Call) kv(key string) error {
	switch {
	case !c.Grant.KV:
		return tool.Errorf(tool.GrantMissing, "no store was granted").
			WithNext("ask a person to grant kv").With("capability", "kv")
	case c.KV == nil:
		return tool.Errorf(tool.NotAvailable, "this runtime keeps nothing between calls")
	case key == "" || len(key) > MaxKey:
		return tool.Errorf(tool.InvalidArguments, "a key of %d bytes; it must have 1 to %d", len(key), MaxKey)
	case !utf8.ValidString(key):
		return tool.Errorf(tool.InvalidArguments, "a key that is not UTF-8") // two of them could be kept as one
	}
	return nil
}
