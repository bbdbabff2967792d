//go:build linux

package verbs

import "github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"

// WC is a completion; struct ibv_wc:
//
//	ID              uint64
//	Status          WCStatus
//	Opcode          WCOpcode
//	VendorErr       uint32
//	ByteLen         uint32 // of what was received, with the GRH
//	Imm             uint32 // with WCWithImm
//	InvalidatedRKey RKey   // with WCWithInv
//	QPN             QPN    // of the local queue pair
//	SrcQPN          QPN    // of a datagram's sender
//	Flags           WCFlags
//	PKeyIndex       uint16
//	SLID            LID
//	SL              uint8
//	DLIDPathBits    uint8
//
// If Status is not WCSuccess, only ID, QPN and VendorErr are valid besides it. Its
// method Err is the status as an error, nil for success.
type WC = provider.WC

// WCStatus is the result of a work request. As an error it matches a ucs.Status.
type WCStatus = provider.WCStatus

// Statuses; enum ib_wc_status, ib_verbs.h.
const (
	WCSuccess        = provider.WCSuccess
	WCLocLenErr      = provider.WCLocLenErr
	WCLocQPOpErr     = provider.WCLocQPOpErr
	WCLocEECOpErr    = provider.WCLocEECOpErr
	WCLocProtErr     = provider.WCLocProtErr
	WCWRFlushErr     = provider.WCWRFlushErr
	WCMWBindErr      = provider.WCMWBindErr
	WCBadRespErr     = provider.WCBadRespErr
	WCLocAccessErr   = provider.WCLocAccessErr
	WCRemInvReqErr   = provider.WCRemInvReqErr
	WCRemAccessErr   = provider.WCRemAccessErr
	WCRemOpErr       = provider.WCRemOpErr
	WCRetryExcErr    = provider.WCRetryExcErr
	WCRNRRetryExcErr = provider.WCRNRRetryExcErr
	WCLocRDDViolErr  = provider.WCLocRDDViolErr
	WCRemInvRDReqErr = provider.WCRemInvRDReqErr
	WCRemAbortErr    = provider.WCRemAbortErr
	WCInvEECNErr     = provider.WCInvEECNErr
	WCInvEECStateErr = provider.WCInvEECStateErr
	WCFatalErr       = provider.WCFatalErr
	WCRespTimeoutErr = provider.WCRespTimeoutErr
	WCGeneralErr     = provider.WCGeneralErr
)

// WCOpcode is the completed operation.
type WCOpcode = provider.WCOpcode

// Completed operations; enum ib_uverbs_wc_opcode.
const (
	WCSend            = provider.WCSend
	WCRDMAWrite       = provider.WCRDMAWrite
	WCRDMARead        = provider.WCRDMARead
	WCCompSwap        = provider.WCCompSwap
	WCFetchAdd        = provider.WCFetchAdd
	WCBindMW          = provider.WCBindMW
	WCLocalInv        = provider.WCLocalInv
	WCRecv            = provider.WCRecv
	WCRecvRDMAWithImm = provider.WCRecvRDMAWithImm
)

// WCFlags say which optional fields of a completion are valid.
type WCFlags = provider.WCFlags

// Flags; enum ib_wc_flags, ib_verbs.h. WCGRH says that the message had a global route
// header; only with UD the first GRHLength bytes of the memory contain it.
const (
	WCGRH      = provider.WCGRH
	WCWithImm  = provider.WCWithImm
	WCWithInv  = provider.WCWithInv
	WCIPCsumOK = provider.WCIPCsumOK
)

// GRHLength is the size of the global route header before a datagram, in each receive of a
// UD queue pair.
const GRHLength = 40
