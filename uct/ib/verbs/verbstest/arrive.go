//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// The receiving end of a datagram.

const grhLength = 40

// packet is a datagram on its way, without its data.
type packet struct {
	dgid      [16]byte
	multicast bool
	qpn       uint32 // of the receiver
	qkey      uint32
	pkey      uint16
	global    bool // it has a global route header
	ipv4      bool // which is of IPv4
	v1        bool // of RoCE v1
	grh       [grhLength]byte
	solicited bool
	wc        abi.Wc // as the receiver gets it
}

// arrive gives a packet to the queue pair that it is for, if there is one that takes
// it; else it is lost.
func (e *port) arrive(p *packet, data *pieces) {
	to := e.k.qps[p.qpn]
	if to == nil || !e.up() || to.typ != abi.IB_UVERBS_QPT_UD || to.attr.PortNum != e.num || to.attr.QpState < stateRTR ||
		to.attr.QpState == stateErr || to.attr.Qkey != p.qkey || !samePartition(to.pkey(), p.pkey) || p.wc.ByteLen > grhLength+e.mtu() {
		return
	}
	wc := p.wc
	if to.take(int(wc.ByteLen), &wc) != wcSuccess {
		return
	}
	d := &to.f.k.net.desk
	space, from := d.space.list, 0 // how much of the header is left alone
	switch cfg := &e.k.cfg; {
	case !p.global || cfg.GRH == GRHNone:
		from = grhLength
	case cfg.GRH == GRHHalf && p.ipv4:
		from = grhLength / 2
	}
	if from < grhLength {
		wc.WcFlags |= abi.IB_WC_GRH
	}
	if !e.InfiniBand {
		if wc.Sl = e.k.cfg.WCSL; wc.Sl == 0 {
			wc.Sl = e.k.of.packetKind(p)
		}
	}
	space = skip(space, from)
	d.bounce.scatter(space, local(p.grh[from:]))
	d.bounce.move(skip(space, grhLength-from), data.list)
	to.received(&wc, p.solicited)
}
