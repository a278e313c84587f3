package tool

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest names bytes by their SHA-256: "sha256:" and 64 lower-case hexadecimal
// digits. The empty Digest means "absent": a file that does not exist, a
// directory, or a value that was never computed.
type Digest string

// DigestOf returns the Digest of p.
func DigestOf(p []byte) Digest {
	return SumDigest(sha256.Sum256(p))
}

// SumDigest turns a finished SHA-256 sum into a Digest.
func SumDigest(sum [sha256.Size]byte) Digest {
	var b [7 + 2*sha256.Size]byte
	copy(b[:], "sha256:")
	hex.Encode(b[7:], sum[:])
	return Digest(b[:])
}

// Hex returns the 64 hexadecimal digits without the algorithm's name, or "".
func (d Digest) Hex() string {
	if len(d) < 7 {
		return ""
	}
	return string(d[7:])
}
