package verbs

// Soundness: the pointer is that of the slice; it is handed to the Pinner only,
// which does nothing for memory that is not Go's.

import (
	"runtime"
	"unsafe"
)

// pin keeps the memory of b alive and in place until unpin is called.
func pin(b []byte) (unpin func()) {
	p := new(runtime.Pinner)
	p.Pin(unsafe.SliceData(b))
	return p.Unpin
}
