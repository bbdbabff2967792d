//go:build linux

package rxe

// Soundness: the union in a send request has 120 bytes at an offset that is a multiple of 8. Its
// members consist of numbers, and none is larger. The scatter/gather elements follow a request;
// ring.mmap has checked that slots are large enough for them.

import (
	"unsafe"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

func rdmaOf(w *abi.RxeSendWqe) *abi.RxeRdmaWr { return (*abi.RxeRdmaWr)(unsafe.Pointer(&w.Wr.Wr)) }
func atomicOf(w *abi.RxeSendWqe) *abi.RxeAtomicWr {
	return (*abi.RxeAtomicWr)(unsafe.Pointer(&w.Wr.Wr))
}
func mwOf(w *abi.RxeSendWqe) *abi.RxeMwWr { return (*abi.RxeMwWr)(unsafe.Pointer(&w.Wr.Wr)) }
func udOf(w *abi.RxeSendWqe) *abi.RxeUdWr { return (*abi.RxeUdWr)(unsafe.Pointer(&w.Wr.Wr)) }

// sge and recvSGE return scatter/gather element k of a send or receive request.
func sge(w *abi.RxeSendWqe, k uint32) *abi.RxeSge {
	return (*abi.RxeSge)(unsafe.Add(unsafe.Pointer(w), sendSize+int(k)*sgeSize))
}
func recvSGE(w *abi.RxeRecvWqe, k int) *abi.RxeSge {
	return (*abi.RxeSge)(unsafe.Add(unsafe.Pointer(w), recvSize+k*sgeSize))
}
