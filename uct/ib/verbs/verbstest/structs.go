//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// load reads a struct from as many bytes as there are.
func load[T abi.Struct](b []byte) T {
	var v T
	fetch(&v, b)
	return v
}

// fetch is load into a place.
func fetch[T abi.Struct](v *T, b []byte) { copy(abi.Bytes(v), b) }

// store writes as much of a struct as there is room for.
func store[T abi.Struct](b []byte, v T) { copy(b, abi.Bytes(&v)) }
