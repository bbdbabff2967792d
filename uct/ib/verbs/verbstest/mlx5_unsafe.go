//go:build linux

package verbstest

// Soundness: the structs are bytes and nothing else, of any alignment; they are copied
// from and to as many bytes as they have.

import (
	"unsafe"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// mlx5Struct lists the structs that mlx5 has in queues.
type mlx5Struct interface {
	abi.Mlx5WqeCtrlSeg | abi.Mlx5WqeAv | abi.Mlx5WqeRaddrSeg | abi.Mlx5WqeDataSeg | abi.Mlx5WqeSrqNextSeg |
		abi.Mlx5WqeUmrCtrlSeg | abi.Mlx5WqeMkeyContextSeg | abi.Mlx5WqeUmrKlmSeg | abi.Mlx5Cqe64
}

// raw returns the bytes of a struct.
func raw[T mlx5Struct](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
