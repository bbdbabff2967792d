package rxe

// Soundness: the union of a send is 120 bytes at an offset that is a multiple of 8,
// and none of its members, all plain numbers, is larger.

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
