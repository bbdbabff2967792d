//go:build linux

package provider

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// WCStatus is the result of a work request. As an error it matches a ucs.Status.
type WCStatus uint32

// Results of work requests; enum ib_wc_status, ib_verbs.h.
const (
	WCSuccess WCStatus = iota
	WCLocLenErr
	WCLocQPOpErr
	WCLocEECOpErr
	WCLocProtErr
	WCWRFlushErr
	WCMWBindErr
	WCBadRespErr
	WCLocAccessErr
	WCRemInvReqErr
	WCRemAccessErr
	WCRemOpErr
	WCRetryExcErr
	WCRNRRetryExcErr
	WCLocRDDViolErr
	WCRemInvRDReqErr
	WCRemAbortErr
	WCInvEECNErr
	WCInvEECStateErr
	WCFatalErr
	WCRespTimeoutErr
	WCGeneralErr
)

var wcNames = []string{"success", "local length error", "local QP operation error", "local EE context operation error",
	"local protection error", "work request flushed", "memory window bind error", "bad response", "local access error",
	"remote invalid request", "remote access error", "remote operation error", "retries exceeded", "RNR retries exceeded",
	"local RDD violation", "remote invalid RD request", "remote aborted", "invalid EE context number",
	"invalid EE context state", "fatal error", "response timeout", "general error"}

// String describes the status.
func (s WCStatus) String() string { return Name(int(s), wcNames...) }

// Error describes the status.
func (s WCStatus) Error() string { return s.String() }

// Unwrap returns the ucs.Status that corresponds to the status.
func (s WCStatus) Unwrap() error {
	switch s {
	case WCSuccess:
		return ucs.OK
	case WCWRFlushErr:
		return ucs.ErrCanceled
	case WCRetryExcErr, WCRNRRetryExcErr, WCRespTimeoutErr:
		return ucs.ErrEndpointTimeout
	case WCRemAccessErr, WCRemInvReqErr, WCRemOpErr, WCRemAbortErr:
		return ucs.ErrRejected
	case WCLocLenErr, WCLocQPOpErr, WCLocProtErr, WCLocAccessErr, WCMWBindErr:
		return ucs.ErrInvalidParam
	}
	return ucs.ErrIO
}

// WCOpcode is the completed operation.
type WCOpcode uint32

// Completed operations; enum ib_uverbs_wc_opcode.
const (
	WCSend            WCOpcode = 0
	WCRDMAWrite       WCOpcode = 1
	WCRDMARead        WCOpcode = 2
	WCCompSwap        WCOpcode = 3
	WCFetchAdd        WCOpcode = 4
	WCBindMW          WCOpcode = 5
	WCLocalInv        WCOpcode = 6
	WCRecv            WCOpcode = 128
	WCRecvRDMAWithImm WCOpcode = 129
)

// String returns the name of the operation.
func (o WCOpcode) String() string {
	switch o {
	case WCRecv:
		return "RECV"
	case WCRecvRDMAWithImm:
		return "RECV_RDMA_WITH_IMM"
	}
	return Name(int(o), "SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV")
}

// WCFlags say which optional fields of a completion are valid.
type WCFlags uint32

// Flags of completions; enum ib_wc_flags, ib_verbs.h. WCGRH says that the message had a global
// route header. Only with UD do the first 40 bytes of the receive buffer (verbs.GRHLength) contain
// it.
const (
	WCGRH      WCFlags = 1 << 0
	WCWithImm  WCFlags = 1 << 1
	WCWithInv  WCFlags = 1 << 2
	WCIPCsumOK WCFlags = 1 << 3
)

// WC is a completion; struct ibv_wc. If Status is not WCSuccess, only ID, QPN and VendorErr are
// valid besides it.
type WC struct {
	ID              uint64
	Status          WCStatus
	Opcode          WCOpcode
	VendorErr       uint32
	ByteLen         uint32 // bytes received, including the GRH
	Imm             uint32 // valid if Flags has WCWithImm
	InvalidatedRKey RKey   // valid if Flags has WCWithInv
	QPN             QPN    // number of the local queue pair
	SrcQPN          QPN    // number of the queue pair that sent a datagram
	Flags           WCFlags
	PKeyIndex       uint16
	SLID            LID
	SL              uint8
	DLIDPathBits    uint8
}

// Err returns the status as an error, nil for success.
func (w *WC) Err() error {
	if w.Status == WCSuccess {
		return nil
	}
	return w.failed()
}

//go:noinline
func (w *WC) failed() error {
	return fmt.Errorf("verbs: work request %#x on QP %#x: %w (vendor error %#x)", w.ID, uint32(w.QPN), w.Status, w.VendorErr)
}
