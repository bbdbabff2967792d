//go:build linux

package verbs

import "github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"

// WC is a completion; struct ibv_wc:
//
//	ID              uint64
//	Status          WCStatus
//	Opcode          WCOpcode
//	VendorErr       uint32
//	ByteLen         uint32 // bytes received, including the GRH
//	Imm             uint32 // valid if Flags has WCWithImm
//	InvalidatedRKey RKey   // valid if Flags has WCWithInv
//	QPN             QPN    // number of the local queue pair
//	SrcQPN          QPN    // number of the queue pair that sent a datagram
//	Flags           WCFlags
//	PKeyIndex       uint16
//	SLID            LID
//	SL              uint8
//	DLIDPathBits    uint8
//
// If Status is not WCSuccess, only ID, QPN and VendorErr are valid besides it. Its method Err
// returns the status as an error, nil for success.
type WC = provider.WC

// WCStatus is the result of a work request. As an error it matches a ucs.Status.
type WCStatus = provider.WCStatus

// Results of work requests; enum ib_wc_status, ib_verbs.h.
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

// Flags of completions; enum ib_wc_flags, ib_verbs.h. WCGRH says that the message had a global
// route header. Only with UD do the first GRHLength bytes of the receive buffer contain it.
const (
	WCGRH      = provider.WCGRH
	WCWithImm  = provider.WCWithImm
	WCWithInv  = provider.WCWithInv
	WCIPCsumOK = provider.WCIPCsumOK
)

// GRHLength is the number of bytes that the global route header takes at the beginning of each
// receive buffer of a UD queue pair. The datagram follows it.
const GRHLength = 40
