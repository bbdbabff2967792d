//go:build linux

package mlx5

import (
	"encoding/binary"
	"math/bits"
	"runtime"
)

// little reports whether the machine is known to be little-endian. The functions below work on
// other machines, too, but slower.
const little = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || runtime.GOARCH == "386" || runtime.GOARCH == "arm"

// be32 converts v from native to big-endian byte order, or back.
func be32(v uint32) uint32 {
	if little {
		return bits.ReverseBytes32(v)
	}
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], v)
	return binary.BigEndian.Uint32(b[:])
}

// be64 is be32 for 64 bits.
func be64(v uint64) uint64 {
	if little {
		return bits.ReverseBytes64(v)
	}
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return binary.BigEndian.Uint64(b[:])
}
