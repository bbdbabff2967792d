package proto

import "strconv"

// AMID is the id of a UCP active message (ucp_am_id_t in src/ucp/core/ucp_types.h). UCP
// shares the id space of the transports. C has left 5 and 13 unassigned in all releases;
// this library sends them only to peers of this library.
type AMID uint8

// Active message ids. The feature that a receiver needs is in parentheses.
const (
	IDWireup         AMID = 1
	IDEagerOnly      AMID = 2  // (tag)
	IDEagerFirst     AMID = 3  // (tag)
	IDEagerMiddle    AMID = 4  // (tag) also the last fragment
	IDToken          AMID = 5  // only between peers of this library
	IDEagerSyncOnly  AMID = 6  // (tag)
	IDEagerSyncFirst AMID = 7  // (tag)
	IDEagerSyncAck   AMID = 8  // (tag)
	IDRndvRTS        AMID = 9  // (tag or am)
	IDRndvATS        AMID = 10 // (tag or am)
	IDRndvRTR        AMID = 11 // (tag or am)
	IDRndvData       AMID = 12 // (tag or am)
	IDEpClose        AMID = 13 // only between peers of this library
	IDOffloadSyncAck AMID = 14 // (tag) only with tag matching in the device
	IDStreamData     AMID = 15 // (stream)
	IDRndvATP        AMID = 16 // (tag or am)
	IDPut            AMID = 17 // (rma)
	IDGetReq         AMID = 18 // (rma)
	IDGetRep         AMID = 19 // (rma)
	IDAtomicReq      AMID = 20 // (amo)
	IDAtomicRep      AMID = 21 // (amo)
	IDCmpl           AMID = 22 // (rma or amo)
	IDAMSingle       AMID = 23 // (am)
	IDAMFirst        AMID = 24 // (am)
	IDAMMiddle       AMID = 25 // (am) also the last fragment
	IDAMSingleReply  AMID = 26 // (am)
	IDAMFirstPSN     AMID = 27 // (am) since release 21, failover mode only
	IDAMMiddlePSN    AMID = 28 // (am) since release 21, failover mode only
	IDLast           AMID = 29 // one past the last id
)

var amNames = [IDLast]string{
	IDWireup: "WIREUP", IDEagerOnly: "EAGER_ONLY", IDEagerFirst: "EAGER_FIRST",
	IDEagerMiddle: "EAGER_MIDDLE", IDToken: "TOKEN", IDEagerSyncOnly: "EAGER_SYNC_ONLY",
	IDEagerSyncFirst: "EAGER_SYNC_FIRST", IDEagerSyncAck: "EAGER_SYNC_ACK",
	IDRndvRTS: "RNDV_RTS", IDRndvATS: "RNDV_ATS", IDRndvRTR: "RNDV_RTR",
	IDRndvData: "RNDV_DATA", IDEpClose: "EP_CLOSE", IDOffloadSyncAck: "OFFLOAD_SYNC_ACK",
	IDStreamData: "STREAM_DATA", IDRndvATP: "RNDV_ATP", IDPut: "PUT",
	IDGetReq: "GET_REQ", IDGetRep: "GET_REP", IDAtomicReq: "ATOMIC_REQ",
	IDAtomicRep: "ATOMIC_REP", IDCmpl: "CMPL", IDAMSingle: "AM_SINGLE",
	IDAMFirst: "AM_FIRST", IDAMMiddle: "AM_MIDDLE",
	IDAMSingleReply: "AM_SINGLE_REPLY", IDAMFirstPSN: "AM_FIRST_PSN",
	IDAMMiddlePSN: "AM_MIDDLE_PSN",
}

// Known reports whether id is assigned.
func (id AMID) Known() bool { return id < IDLast && amNames[id] != "" }

// String returns the name that the C library uses in its traces, if it has the id.
func (id AMID) String() string {
	if id.Known() {
		return amNames[id]
	}
	return "AM id " + strconv.Itoa(int(id))
}
