//go:build linux

package mlx5

import (
	"encoding/binary"
	"math/bits"
	"runtime"
)

// little is whether the machine is known to be little endian. What follows is right on
// others, too, and slower.
const little = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || runtime.GOARCH == "386" || runtime.GOARCH == "arm"

// be32 is v as it has to lie in memory, big endian, and back.
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
