//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Performance constants (UCT_RC_VERBS_IFACE_OVERHEAD, uct_rc_verbs_iface_query).
const (
	overhead    = 75e-9 // seconds of CPU time per message
	perEndpoint = 1e-9  // seconds that each endpoint adds to the latency of all
)

// inlineAnswer is the number of bytes that C UCX lets devices put into the completion of a read
// (RC_TX_INLINE_RESP). For reads that are not longer, registering the caller's memory does not
// pay.
const inlineAnswer = 64

// describe sets the attributes of the interface. limits are the capacities of a queue pair.
func (i *iface) describe(limits verbs.QPCap) {
	seg := i.set.RC.Buffers.SegSize.Int(0)
	mtu := i.MTU().Bytes()
	message := int(i.Port.Attr.MaxMsgSize)
	pieces := min(limits.MaxSendSGE, maxPieces)
	a := i.NewAttr(transportName, uct.AMLimits{
		MaxShort: limits.MaxInline - 1, MaxBcopy: seg - 1, MaxZcopy: seg - 1,
		MaxZcopyHdr: i.set.MaxAMHdr.Int(0) - 1, MaxIOV: pieces - 1,
	})
	a.Flags |= uct.IfacePutBcopy | uct.IfacePutZcopy | uct.IfaceGetBcopy | uct.IfaceGetZcopy |
		uct.IfaceConnectToEP | uct.IfacePutAMOrder
	a.Put = uct.RMALimits{
		MaxShort: limits.MaxInline, MaxBcopy: seg, MaxZcopy: message, MaxIOV: pieces, OptZcopyAlign: ib.PCIPayload, AlignMTU: mtu,
	}
	if a.Put.MaxShort > 0 {
		a.Flags |= uct.IfacePutShort
	}
	a.Get = uct.RMALimits{
		MaxBcopy: seg, MinZcopy: inlineAnswer + 1, MaxZcopy: min(i.set.RC.MaxGetZcopy.Int(message), message),
		MaxIOV: pieces, OptZcopyAlign: ib.PCIPayload, AlignMTU: mtu,
	}
	if i.Domain.Caps().AtomicCap >= verbs.AtomicHCA {
		a.Flags |= uct.IfaceAtomicDevice
		a.Atomic64 = atomics
	}
	a.EpAddrLen = epAddrLen
	a.MaxEndpoints = i.set.RC.Buffers.Common.MaxNumEPs.Int(uct.Unlimited)
	a.MaxInflightEPs = max(i.total/max(i.set.RC.IB.TxQueueLen.Int(0), 1), 1)
	a.Perf = i.Perf(seg, ib.HeaderBTH+ib.HeaderRETH, overhead)
	a.Perf.Latency.M = perEndpoint
	i.attr = a
}
