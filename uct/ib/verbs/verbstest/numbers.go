//go:build linux

package verbstest

import "encoding/binary"

// Events; enum ib_event_type, ib_verbs.h.
const (
	eventCQErr       = 0
	eventQPReqErr    = 2
	eventQPAccessErr = 3
	eventSQDrained   = 5
	eventDeviceFatal = 8
	eventPortActive  = 9
	eventPortErr     = 10
	eventSRQLimit    = 15
	eventLastWQE     = 16
	eventGIDChange   = 18
)

// Statuses of completions; enum ib_wc_status, ib_verbs.h.
const (
	wcSuccess     = 0
	wcLocLen      = 1
	wcLocQPOp     = 2
	wcLocProt     = 4
	wcFlush       = 5
	wcMWBind      = 6
	wcRemInvReq   = 9
	wcRemAccess   = 10
	wcRetryExc    = 12
	wcRNRRetryExc = 13

	wait  = ^uint32(0)     // not done yet
	again = ^uint32(0) - 1 // not done, but may be at once
)

// Flags of a completion queue; enum ib_uverbs_ex_create_cq_flags,
// ib_user_ioctl_verbs.h.
const (
	cqTimestamps    = 1 << 0
	cqIgnoreOverrun = 1 << 1
)

// States of a queue pair; enum ib_qp_state, ib_verbs.h.
const (
	stateReset = iota
	stateInit
	stateRTR
	stateRTS
	stateSQD
	stateSQE
	stateErr
)

func u32(b []byte) uint32       { return binary.NativeEndian.Uint32(b) }
func u64(b []byte) uint64       { return binary.NativeEndian.Uint64(b) }
func putU32(b []byte, v uint32) { binary.NativeEndian.PutUint32(b, v) }
func putU64(b []byte, v uint64) { binary.NativeEndian.PutUint64(b, v) }

// bigEndian is a number as the kernel has it that is big endian.
func bigEndian(v uint64) uint64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return u64(b[:])
}
