//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Received packets. A device delivers a packet by the number of the queue pair alone. The buffer of
// a received packet begins with 40 bytes for the network header. With RoCE v2 these hold an IPv6
// header, or an IPv4 header in the last 20 bytes and arbitrary bytes in the first 20. The first
// byte distinguishes IPv6 from IPv4, because it is set to noVersion before a buffer is posted
// (uct_ud_verbs_iface_get_gid_len of 1.22.0; 1.13.1 relies on a value that only one make of devices
// reports, and drops all packets over IPv4 on others).

// packet describes the source of the packet that is being handled.
type packet struct{ from flow.From }

// noVersion is a value of a buffer's first byte that is no version of IP.
const noVersion = 0xff

// received handles a completion of a receive.
func (i *iface) received(wc *verbs.WC) {
	buf := i.recvs.Data(wc.ID)
	if buf == nil {
		return // not the ID of a posted buffer
	}
	desc := i.recvs.Take(wc.ID)
	if i.back != nil {
		desc = nil // its holder would release it without the lock
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

// message handles a packet. It reports whether the handler of the message in the packet keeps the
// data.
func (i *iface) message(pkt []byte, desc *uct.AMDesc) (kept bool) {
	i.inside = true
	e, id, data := i.flow.Receive(pkt, &i.inbound.from)
	i.inside = false
	if e == nil {
		return false
	}
	c := e.User.(*conn)
	if c.paused || c.resumedNode.Listed() || i.offline {
		m := late{uct.AMID(id), append([]byte(nil), data...)}
		c.late = append(c.late, m)
		i.addLateBytes(m.weight())
		if i.offline && len(c.late) >= maxLateOffline {
			c.flow.Halt()
		}
		c.putOff()
		return false
	}
	return c.hand(uct.AMID(id), data, desc)
}

// hand delivers a message to its handler. It reports whether the handler keeps the data.
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

// locate records the source of a packet in iface.inbound. It reports whether the packet was sent to
// an address of this port, or addresses are not checked.
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

// mapped returns an IPv4 address as a GID.
func mapped(a [4]byte) (gid [16]byte) {
	gid[10], gid[11] = 0xff, 0xff
	copy(gid[12:], a[:])
	return gid
}

// gidTable holds the addresses of the port.
type gidTable struct {
	check bool // addresses of packets are checked
	last  [16]byte
	known bool // last is in own
	own   map[[16]byte]struct{}
}

// read reads the addresses of the port from the device, if addresses are checked.
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

// ours reports whether gid is an address of the port.
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
