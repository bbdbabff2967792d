//go:build linux

package verbs

import "encoding/binary"

func native32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
func native64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
