//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
)

// Constants of performance (UCT_UD_VERBS_IFACE_OVERHEAD, uct_ud_iface_query).
const (
	overhead   = 105e-9 // seconds of CPU for a message
	noScatter  = 30e-9  // seconds of latency beyond that of connected queue pairs
	pciPayload = 512    // bytes (UCS_SYS_PCI_MAX_PAYLOAD)

	// zcopyDesc is the number of bytes that C keeps in a buffer beside the header of a message
	// that is not copied (1.22.0; 1.13.1 keeps 40 bytes more).
	zcopyDesc = 96
)

// describe fills in the attributes.
func (i *iface) describe() {
	seg := i.segment()
	limits := i.qp.Cap()
	a := i.NewAttr(transportName)
	// C requires CB_ASYNC of the interface that carries its wireup messages.
	a.Flags |= uct.IfaceAMBcopy | uct.IfaceAMZcopy | uct.IfaceConnectToIface | uct.IfaceConnectToEP |
		uct.IfaceEpCheck | uct.IfaceCBAsync
	a.AM = uct.AMLimits{
		MaxShort: limits.MaxInline - wire.HeaderLen, MaxBcopy: seg - wire.HeaderLen, MaxZcopy: seg - wire.HeaderLen,
		MaxZcopyHdr: seg - wire.HeaderLen - zcopyDesc, MaxIOV: min(limits.MaxSendSGE-1, maxPieces),
		OptZcopyAlign: pciPayload, AlignMTU: i.MTU().Bytes(),
	}
	if a.AM.MaxShort >= 8 {
		a.Flags |= uct.IfaceAMShort
	}
	if a.AM.MaxIOV < 1 || a.AM.MaxZcopyHdr < 1 {
		a.Flags &^= uct.IfaceAMZcopy
	}
	a.MaxEndpoints = i.set.UD.Buffers.Common.MaxNumEPs.Int(uct.Unlimited)
	a.IfaceAddrLen, a.EpAddrLen = wire.IfaceAddrLen, wire.EPAddrLen
	a.Perf = i.Perf(seg, ib.HeaderBTH+ib.HeaderDETH+wire.HeaderLen, overhead)
	a.Perf.Latency.C += noScatter
	i.attr = a
}
