//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// A device delivers by the number of the queue pair alone. What it has received begins
// with 40 bytes for the header of the network: with RoCE v2 an IPv6 header, or an IPv4
// header in the last 20 bytes, and whatever in the first 20. By the first byte the
// two are told apart: it is made no version before a buffer is posted
// (uct_ud_verbs_iface_get_gid_len of 1.22.0; 1.13.1 goes by what only one make of devices
// tells, and drops all that comes by IPv4 elsewhere).

// packet is what is known of a packet beside its bytes.
type packet struct{ from flow.From }

// noVersion is no version of IP, in the first byte of a buffer.
const noVersion = 0xff

// received handles a completion of a receive.
func (i *iface) received(wc *verbs.WC) {
	buf := i.recvs.Data(wc.ID)
	if buf == nil {
		return // no completion of ours
	}
	desc := i.recvs.Take(wc.ID)
	if i.back != nil {
		desc = nil // it would be given back by whoever has it
	}
	kept := false
	switch n := int(wc.ByteLen); {
	case wc.Status == verbs.WCWRFlushErr:
		i.broken = true
	case wc.Status != verbs.WCSuccess || n > len(buf):
	case n < grhLen+wire.HeaderLen:
		i.flow.Counters.Short++
	case !i.locate(buf, wc):
		i.flow.Counters.Elsewhere++
	default:
		kept = i.message(buf[grhLen:n], desc)
	}
	buf[0] = noVersion
	i.recvs.Done(wc.ID, kept)
}

// message handles a packet, and says whether the handler of the message in it keeps the
// data.
func (i *iface) message(pkt []byte, desc *uct.AMDesc) (kept bool) {
	i.inside = true
	e, id, data := i.flow.Receive(pkt, &i.inbound.from)
	i.inside = false
	if e == nil {
		return false
	}
	c := e.User.(*conn)
	if c.paused || c.turn.Listed() || i.offline {
		m := late{uct.AMID(id), append([]byte(nil), data...)}
		c.late = append(c.late, m)
		i.weigh(m.weight())
		if i.offline && len(c.late) >= maxLateOffline {
			c.flow.Halt()
		}
		c.putOff()
		return false
	}
	return c.hand(uct.AMID(id), data, desc)
}

// hand hands a message to its handler, and says whether that keeps the data.
func (c *conn) hand(id uct.AMID, data []byte, desc *uct.AMDesc) (kept bool) {
	err := c.iface.Handlers.Deliver(&c.Source, id, data, desc)
	if err == nil {
		return false
	}
	if err == ucs.InProgress {
		return true
	}
	c.DropSource(err)
	return false
}

// locate finds out where a packet has come from. It reports whether it was sent to us.
func (i *iface) locate(buf []byte, wc *verbs.WC) bool {
	from := &i.inbound.from
	from.QPN, from.Seen = uint32(wc.SrcQPN), false
	if !i.gids.check || wc.Flags&verbs.WCGRH == 0 {
		return true
	}
	from.Seen = true
	if buf[0]>>4 == 6 {
		from.GID = [16]byte(buf[8:24])
		return i.gids.ours([16]byte(buf[24:40]))
	}
	from.GID = mapped([4]byte(buf[32:36]))
	return i.gids.ours(mapped([4]byte(buf[36:40])))
}

// mapped is an IPv4 address as a GID.
func mapped(a [4]byte) (gid [16]byte) {
	gid[10], gid[11] = 0xff, 0xff
	copy(gid[12:], a[:])
	return gid
}

// gidTable is the addresses of the port.
type gidTable struct {
	check bool // they matter
	last  [16]byte
	known bool // last is one of them
	own   map[[16]byte]struct{}
}

// read reads them.
func (g *gidTable) read(i *iface) error {
	g.check = i.set.UD.DGIDCheck && i.Port.Attr.LinkLayer == verbs.LinkEthernet
	if !g.check {
		return nil
	}
	all, err := i.Domain.Context().QueryGIDTable()
	if err != nil {
		return err
	}
	g.known = false
	g.own = make(map[[16]byte]struct{})
	for _, e := range all {
		if e.Port == i.Port.Num {
			g.own[e.GID] = struct{}{}
		}
	}
	return nil
}

// ours reports whether the port has an address.
func (g *gidTable) ours(gid [16]byte) bool {
	if gid == g.last && g.known {
		return true
	}
	if _, ok := g.own[gid]; !ok {
		return false
	}
	g.last, g.known = gid, true
	return true
}
