//go:build linux

package rxe

// Soundness: the union of a send is 120 bytes at an offset that is a multiple of 8,
// and none of its members, all plain numbers, is larger. Pieces lie behind a request,
// as many as ring.mmap was asked to have room for.

import (
	"unsafe"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

func rdmaOf(w *abi.RxeSendWqe) *abi.RxeRdmaWr { return (*abi.RxeRdmaWr)(unsafe.Pointer(&w.Wr.Wr)) }
func atomicOf(w *abi.RxeSendWqe) *abi.RxeAtomicWr {
	return (*abi.RxeAtomicWr)(unsafe.Pointer(&w.Wr.Wr))
}
func mwOf(w *abi.RxeSendWqe) *abi.RxeMwWr { return (*abi.RxeMwWr)(unsafe.Pointer(&w.Wr.Wr)) }
func udOf(w *abi.RxeSendWqe) *abi.RxeUdWr { return (*abi.RxeUdWr)(unsafe.Pointer(&w.Wr.Wr)) }

// sge and recvSGE are the k-th piece behind a send or a receive.
func sge(w *abi.RxeSendWqe, k uint32) *abi.RxeSge {
	return (*abi.RxeSge)(unsafe.Add(unsafe.Pointer(w), sendSize+int(k)*sgeSize))
}
func recvSGE(w *abi.RxeRecvWqe, k int) *abi.RxeSge {
	return (*abi.RxeSge)(unsafe.Add(unsafe.Pointer(w), recvSize+k*sgeSize))
}
