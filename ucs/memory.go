package ucs

import "strconv"

// MemoryType is the kind of device that memory belongs to. The zero value means that the library
// detects it. Wire returns C UCX's number.
type MemoryType uint8

// Memory types, in the order of ucs_memory_type_t after MemoryUnknown.
const (
	MemoryUnknown MemoryType = iota
	MemoryHost
	MemoryCUDA
	MemoryCUDAManaged
	MemoryROCm
	MemoryROCmManaged
	MemoryRDMA
	MemoryZEHost
	MemoryZEDevice
	MemoryZEManaged
	MemoryGaudi // exists in C UCX from 1.21 on
	memoryLast
)

var memoryNames = [memoryLast]string{
	"unknown", "host", "cuda", "cuda-managed", "rocm", "rocm-managed",
	"rdma", "ze-host", "ze-device", "ze-managed",
	"gaudi",
}

// Valid reports whether t is one of the declared types.
func (t MemoryType) Valid() bool { return t < memoryLast }

// Wire returns the number of ucs_memory_type_t that packed keys and headers carry.
// MemoryUnknown and MemoryHost both give 0, host memory.
func (t MemoryType) Wire() uint8 {
	if t == MemoryUnknown {
		return 0
	}
	return uint8(t) - 1
}

// MemoryTypeFromWire is the inverse of Wire; ok is false if n is not the number of a memory
// type.
func MemoryTypeFromWire(n uint8) (t MemoryType, ok bool) {
	if n >= uint8(memoryLast)-1 {
		return MemoryUnknown, false
	}
	return MemoryType(n + 1), true
}

// String returns the name that C UCX prints.
func (t MemoryType) String() string {
	if t.Valid() {
		return memoryNames[t]
	}
	return "memory type " + strconv.Itoa(int(t))
}
