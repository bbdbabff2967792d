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
	perEndpoint = 1e-9  // seconds of latency that each endpoint adds for all
	pciPayload  = 512   // bytes (UCS_SYS_PCI_MAX_PAYLOAD)
)

// inlineAnswer is how many bytes C has devices put into the completion of a read
// (RC_TX_INLINE_RESP). For reads that are not longer, registering the caller's memory does not
// pay.
const inlineAnswer = 64

// describe sets the attributes. limits are those of a queue pair.
func (i *iface) describe(limits verbs.QPCap) {
	seg := i.set.RC.Buffers.SegSize.Int(0)
	mtu := i.MTU().Bytes()
	message := int(i.Port.Attr.MaxMsgSize)
	pieces := min(limits.MaxSendSGE, maxPieces)
	a := i.NewAttr(transportName)
	a.Flags |= uct.IfaceAMBcopy | uct.IfacePutBcopy | uct.IfacePutZcopy | uct.IfaceGetBcopy | uct.IfaceGetZcopy |
		uct.IfaceConnectToEP | uct.IfaceEpCheck | uct.IfacePutAMOrder
	a.AM = uct.AMLimits{
		MaxShort: limits.MaxInline - 1, MaxBcopy: seg - 1, MaxZcopy: seg - 1,
		MaxZcopyHdr: i.set.MaxAMHdr.Int(0) - 1, MaxIOV: pieces - 1, OptZcopyAlign: pciPayload, AlignMTU: mtu,
	}
	if a.AM.MaxShort >= 8 {
		a.Flags |= uct.IfaceAMShort
	}
	if a.AM.MaxZcopyHdr > 0 && a.AM.MaxIOV > 0 {
		a.Flags |= uct.IfaceAMZcopy
	}
	a.Put = uct.RMALimits{
		MaxShort: limits.MaxInline, MaxBcopy: seg, MaxZcopy: message, MaxIOV: pieces, OptZcopyAlign: pciPayload, AlignMTU: mtu,
	}
	if a.Put.MaxShort > 0 {
		a.Flags |= uct.IfacePutShort
	}
	a.Get = uct.RMALimits{
		MaxBcopy: seg, MinZcopy: inlineAnswer + 1, MaxZcopy: min(i.set.RC.MaxGetZcopy.Int(message), message),
		MaxIOV: pieces, OptZcopyAlign: pciPayload, AlignMTU: mtu,
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
