package proto

import (
	"strconv"
)

// AMID is the id of a UCP active message (ucp_am_id_t in src/ucp/core/ucp_types.h). It is also the
// active message id of the transport. 5 and 13 are unassigned in all releases of C UCX; this
// library sends them only to peers that use this library.
type AMID uint8

// Active message ids, with the feature of the context that a receiver needs for them.
const (
	IDWireup         AMID = 1
	IDEagerOnly      AMID = 2  // needs FeatureTag
	IDEagerFirst     AMID = 3  // needs FeatureTag
	IDEagerMiddle    AMID = 4  // needs FeatureTag; also for the last fragment
	IDToken          AMID = 5  // only between peers of this library
	IDEagerSyncOnly  AMID = 6  // needs FeatureTag
	IDEagerSyncFirst AMID = 7  // needs FeatureTag
	IDEagerSyncAck   AMID = 8  // needs FeatureTag
	IDRndvRTS        AMID = 9  // needs FeatureTag or FeatureAM
	IDRndvATS        AMID = 10 // needs FeatureTag or FeatureAM
	IDRndvRTR        AMID = 11 // needs FeatureTag or FeatureAM
	IDRndvData       AMID = 12 // needs FeatureTag or FeatureAM
	IDEpClose        AMID = 13 // only between peers of this library
	IDOffloadSyncAck AMID = 14 // needs FeatureTag, only with tag matching in the device
	IDStreamData     AMID = 15 // needs FeatureStream
	IDRndvATP        AMID = 16 // needs FeatureTag or FeatureAM
	IDPut            AMID = 17 // needs FeatureRMA
	IDGetReq         AMID = 18 // needs FeatureRMA
	IDGetRep         AMID = 19 // needs FeatureRMA
	IDAtomicReq      AMID = 20 // needs an atomic feature
	IDAtomicRep      AMID = 21 // needs an atomic feature
	IDCmpl           AMID = 22 // needs FeatureRMA or an atomic feature
	IDAMSingle       AMID = 23 // needs FeatureAM
	IDAMFirst        AMID = 24 // needs FeatureAM
	IDAMMiddle       AMID = 25 // needs FeatureAM; also for the last fragment
	IDAMSingleReply  AMID = 26 // needs FeatureAM
	IDAMFirstPSN     AMID = 27 // needs FeatureAM, since release 21, failover mode only
	IDAMMiddlePSN    AMID = 28 // needs FeatureAM, since release 21, failover mode only
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

// String returns the name that C UCX prints in its traces, a name of this library for ids that
// only this library assigns, or else "AM id" with the number.
func (id AMID) String() string {
	if id.Known() {
		return amNames[id]
	}
	return "AM id " + strconv.Itoa(int(id))
}

// Tag is a message's tag.
type Tag uint64

// EndpointID identifies an endpoint at the receiver of a message; 0 means none. The receiver has
// assigned the id, and the sender only echoes it: C UCX uses pointers or odd table keys. The sender
// interprets nothing of an id except EndpointIDMark.
type EndpointID uint64

// RequestID identifies a request at the receiver of a message, which has assigned the id; 0 means
// none.
type RequestID uint64

// MessageID identifies the message that a fragment belongs to. A sender counts ids up from a random
// start, because a receiver of tag messages finds the message by the id alone.
type MessageID uint64

// Numbers that mean "none" or "unknown".
const (
	NullResource  = 0xFF // resource index that means "none"
	NullLane      = 0xFF // lane index that means "none"
	SysDevUnknown = 0xFF // number of a system device that is not known
)

// Limits of the C implementation that bound what a peer may send.
const (
	MaxResources = 128 // UCP_MAX_RESOURCES
	MaxMDs       = 64  // UCP_MAX_MDS
	MaxLanes     = 64  // UCP_MAX_LANES in 1.22.0; 6 in 1.13.1
)
