//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
)

// Constants of performance (UCT_UD_VERBS_IFACE_OVERHEAD, uct_ud_iface_query).
const (
	overhead  = 105e-9 // seconds of CPU for a message
	noScatter = 30e-9  // seconds of latency beyond that of connected queue pairs

	// zcopyDesc is the number of bytes that C keeps in a buffer beside the header of a message
	// that is not copied (1.22.0; 1.13.1 keeps 40 bytes more).
	zcopyDesc = 96
)

// describe sets the attributes of the interface.
func (i *iface) describe() {
	seg := i.segment()
	limits := i.qp.Cap()
	a := i.NewAttr(transportName, uct.AMLimits{
		MaxShort: limits.MaxInline - wire.HeaderLen, MaxBcopy: seg - wire.HeaderLen, MaxZcopy: seg - wire.HeaderLen,
		MaxZcopyHdr: seg - wire.HeaderLen - zcopyDesc, MaxIOV: min(limits.MaxSendSGE-1, maxPieces),
	})
	// C requires CB_ASYNC of the interface that carries its wireup messages.
	a.Flags |= uct.IfaceConnectToIface | uct.IfaceConnectToEP | uct.IfaceCBAsync
	a.MaxEndpoints = i.set.UD.Buffers.Common.MaxNumEPs.Int(uct.Unlimited)
	a.IfaceAddrLen, a.EpAddrLen = wire.IfaceAddrLen, wire.EPAddrLen
	a.Perf = i.Perf(seg, ib.HeaderBTH+ib.HeaderDETH+wire.HeaderLen, overhead)
	a.Perf.Latency.C += noScatter
	i.attr = a
}
