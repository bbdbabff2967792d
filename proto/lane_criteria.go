package proto

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// criteria say what a lane of a type must have and how candidates are rated
// (ucp_wireup_criteria_t in src/ucp/wireup/wireup.h).
type criteria struct {
	lane  LaneType
	title string

	flags  uct.IfaceFlags // all of these locally
	any    uct.IfaceFlags // and one of these
	peer   PeerFlags      // all of these at the peer
	anyOf  PeerFlags      // and one of these
	events uct.EventFlags

	auxiliary  bool // auxiliary resources may be used
	keepalive  bool // must be able to check the peer
	rkeyPtr    bool
	invalidate bool
	memory     memoryNeed
	atomic32   bool
	atomic64   bool

	score     func(*LocalIface, remote, paths) float64
	tiebreak  bool    // equal scores are decided by bandwidth
	tolerance float64 // what counts as equal then, relative
}

// memoryNeed is what a lane of remote access does with host memory.
type memoryNeed uint8

const (
	memoryAny    memoryNeed = iota
	memoryUser              // the application's memory
	memoryLocal             // memory the domain allocated
	memoryRegPtr            // memory that can be registered and pointed to
)

var flagText = map[uct.IfaceFlags]string{
	uct.IfaceAMShort: "am short", uct.IfaceAMBcopy: "am bcopy", uct.IfaceAMZcopy: "am zcopy", uct.IfacePending: "pending",
	uct.IfacePutShort: "put short", uct.IfacePutBcopy: "put bcopy", uct.IfacePutZcopy: "put zcopy",
	uct.IfaceGetShort: "get short", uct.IfaceGetBcopy: "get bcopy", uct.IfaceGetZcopy: "get zcopy",
	uct.IfaceErrHandlePeerFail: "peer failure handler", uct.IfaceEpCheck: "ep check", uct.IfaceEpKeepalive: "ep keepalive",
	uct.IfaceConnectToIface: "connect to iface", uct.IfaceConnectToEP: "connect to ep",
}

var peerText = map[PeerFlags]string{
	PeerConnectToIface: "connect to iface", PeerAMSync: "am sync callback", PeerCBAsync: "async callback",
	PeerPut: "put", PeerGet: "get", PeerEventRecv: "receive event", PeerAtomic32: "32-bit atomics", PeerAtomic64: "64-bit atomics",
}

// rejectRemote says why an entry of the address does not serve, "" if it does.
func (c *criteria) rejectRemote(f PeerFlags) string {
	if missing := c.peer &^ f; missing != 0 {
		return "peer has no " + peerText[missing&-missing]
	}
	if c.anyOf != 0 && f&c.anyOf == 0 {
		return "peer has neither put nor get"
	}
	if c.atomic32 && !f.Has(PeerAtomic32) {
		return "peer has no 32-bit atomics"
	}
	if c.atomic64 && !f.Has(PeerAtomic64) {
		return "peer has no 64-bit atomics"
	}
	return ""
}

// rejectLocal says why a resource does not serve, "" if it does. p2p says that
// endpoints would be connected pairwise: then both sides close when one fails,
// and memory needs no invalidation.
func (c *criteria) rejectLocal(l *LocalIface, p2p bool) string {
	if l.Auxiliary && !c.auxiliary {
		return "serves only wireup"
	}
	if c.rkeyPtr && !l.Domain.Flags.Has(uct.MDFlagRkeyPtr) {
		return "gives no pointers to remote memory"
	}
	if c.invalidate && !p2p && !l.Domain.Flags.Has(uct.MDFlagInvalidateRMA) {
		return "no memory invalidation"
	}
	if why := c.memory.reject(&l.Domain); why != "" {
		return why
	}
	if missing := c.flags &^ l.Attr.Flags; missing != 0 {
		if missing.Has(uct.IfaceErrHandlePeerFail) {
			return "no peer failure handler: it does not tell when a peer has failed, which ErrModePeer takes and ErrModeNone does without"
		}
		return "no " + flagName(missing)
	}
	if c.any != 0 && l.Attr.Flags&c.any == 0 {
		return "no " + flagName(c.any)
	}
	if c.keepalive && !canCheckPeer(l.Attr.Flags) {
		return "no way to check the peer"
	}
	if missing := c.events &^ l.Attr.Events; missing != 0 {
		if missing&uct.EventSendComp != 0 {
			return "no send completion event"
		}
		return "no receive event"
	}
	if c.atomic32 && !allAtomics(l.Attr.Atomic32) {
		return "no 32-bit atomics"
	}
	if c.atomic64 && !allAtomics(l.Attr.Atomic64) {
		return "no 64-bit atomics"
	}
	return ""
}

// flagName names the lowest bit.
func flagName(f uct.IfaceFlags) string {
	if s, ok := flagText[f&-f]; ok {
		return s
	}
	return fmt.Sprintf("capability %d", bits.TrailingZeros64(uint64(f)))
}

// canCheckPeer is ucp_wireup_check_keepalive: keepalive or checks of the
// transport's own on pairwise connections, or active messages to an interface.
func canCheckPeer(f uct.IfaceFlags) bool {
	own := f&uct.IfaceConnectToEP != 0 && f&(uct.IfaceEpKeepalive|uct.IfaceEpCheck) != 0
	messages := f&uct.IfaceConnectToIface != 0 && f&uct.IfaceAMBcopy != 0
	return own || messages
}

func (n memoryNeed) reject(md *uct.MDAttr) string {
	keyed := md.Flags&(uct.MDFlagNeedMemh|uct.MDFlagNeedRkey) != 0
	register := md.Flags.Has(uct.MDFlagRegister)
	access := slices.Contains(md.AccessTypes, ucs.MemoryHost)
	switch {
	case n == memoryUser && keyed && !register:
		return "cannot register memory"
	case n == memoryUser && !keyed && !access:
		return "cannot access memory"
	case n == memoryLocal && !md.Flags.Has(uct.MDFlagAlloc|uct.MDFlagNeedRkey):
		return "allocates no memory for remote access"
	case n == memoryRegPtr && !access:
		return "cannot access memory"
	case n == memoryRegPtr && !register:
		return "cannot register memory"
	}
	return ""
}
