//go:build linux

package ib

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Reaches checks, from local knowledge only, whether packets from this interface can get to a port
// and back (uct_ib_iface_is_reachable_v2). It returns nil, or an error that names the obstacle and
// matches ucs.ErrUnreachable. It refuses an address that selects the local GID, which only a
// connection manager of this process may produce; C UCX accepts such an address from a peer.
func (i *Iface) Reaches(a *Address) error {
	if a.HasIndex || a.Ethernet && a.Version == RoCEAny {
		return i.unreachable("the peer's address selects the local GID, which only a connection manager may do")
	}
	return i.reaches(a)
}

// ReachesDevice is Reaches for the packed device address of a peer.
func (i *Iface) ReachesDevice(addr []byte) error {
	a, err := ParseAddress(addr)
	if err != nil {
		return fmt.Errorf("%w: %w", err, ucs.ErrUnreachable)
	}
	return i.Reaches(&a)
}

// Admits checks whether an endpoint may be made to a port, given the origin of the address. A RoCE
// address from a peer is refused if its route is not resolved yet, so that the caller does not wait
// for a lookup that a peer has caused.
func (i *Iface) Admits(a *Address, o uct.Origin) error {
	if o == uct.OriginManager {
		return i.reaches(a)
	}
	if err := i.Reaches(a); err != nil {
		return err
	}
	if o == uct.OriginPeer && i.Port.ethernet() && !i.Domain.handles.Known(i.PathTo(a, 0, 0).AH) {
		return i.unreachable("the route to %v is not resolved, and is not resolved on request of a peer", a)
	}
	return nil
}

// reaches is Reaches without the check that the address does not select the local GID.
func (i *Iface) reaches(a *Address) error {
	own, other := i.pkey, a.pkey()
	switch {
	case i.failed != nil:
		return fmt.Errorf("%w: %w", i.failed, ucs.ErrUnreachable)
	case own&partitionMask != other&partitionMask:
		return i.unreachable("partition %#x, not %#x", other, own)
	case (own|other)&fullMember == 0:
		return i.unreachable("limited membership in partition %#x, as here", other)
	case a.Ethernet != i.Port.ethernet():
		return i.unreachable("another link layer")
	case !a.Ethernet:
		// Packets to another subnet go to the LID of a router. It is unknown, unless the GID
		// contains it.
		if [8]byte(a.GID[:8]) != [8]byte(i.source.GID[:8]) && !(i.flid && flidOf(a.GID) != 0 && flidOf(i.source.GID) != 0) {
			return i.unreachable("another subnet")
		}
		return nil
	case a.Version == RoCEAny || i.reach == reachAll:
		return nil
	case a.Version != i.source.version:
		return i.unreachable("%v, not %v", a.Version, i.source.version)
	case a.Version != RoCEv2:
		return nil
	case a.IPv6 != i.source.ipv6() || a.IPv6 == a.GID.Addr().Is4():
		return i.unreachable("another address family")
	}
	ip := a.GID.Addr()
	if i.reach == reachSubnet {
		if !i.subnet.Contains(ip) {
			return i.unreachable("not in subnet %v", i.subnet)
		}
		return nil
	}
	return i.routed(ip)
}

// routed returns nil if a route leads to an address through the port, or if the routes cannot
// be read.
func (i *Iface) routed(ip netip.Addr) error {
	routes, err := i.Domain.routes()
	if err != nil {
		return nil // connecting a queue pair will fail if there is none
	}
	if i.source.IfIndex == 0 || routes.Best(i.source.IfIndex, ip) || routes.Local(ip) {
		return nil
	}
	if ip.IsLinkLocalUnicast() && routes.Match(i.source.IfIndex, ip) >= 0 {
		return nil
	}
	return i.unreachable("no route to %v, or another device has a closer one", ip)
}

func (i *Iface) unreachable(format string, args ...any) error {
	return fmt.Errorf("ib: %s: %s: %w", i.Port.Name(), fmt.Sprintf(format, args...), ucs.ErrUnreachable)
}

// ResolveAddress implements uct.NetworkIface.
func (i *Iface) ResolveAddress(p uct.ReachableParams, done func(found bool)) bool {
	if !i.Port.ethernet() {
		return false
	}
	a, err := ParseAddress(p.DeviceAddr)
	if err != nil || i.Reaches(&a) != nil {
		return false
	}
	postDone := func(found bool) { i.events.Post(func() { done(found) }) }
	if done == nil {
		postDone = nil
	}
	return i.Domain.handles.Resolve(i.PathTo(&a, 0, 0).AH, postDone)
}

// Path is a path to a port.
type Path struct {
	AH  verbs.AHAttr
	MTU verbs.MTU
}

// roceSourcePort is what C UCX writes into the DLID, from which the UDP source port is taken
// (UCT_IB_ROCE_UDP_SRC_PORT_BASE).
const roceSourcePort = 0xc000

// Seed returns a hash of the queue pair numbers of a connection, for PathTo. The two numbers may be
// equal.
func Seed(own, peer verbs.QPN) uint32 { return uint32(own)*0x85ebca6b ^ uint32(peer)*0xc2b2ae35 }

// PathTo returns path number path to a port (uct_ib_iface_fill_ah_attr_from_addr). seed
// distinguishes connections, so that they may take different routes through the network.
func (i *Iface) PathTo(a *Address, path int, seed uint32) Path {
	p := Path{MTU: min(i.mtu, a.mtu())}
	p.AH = verbs.AHAttr{Port: uint8(i.Port.Num), SL: i.sl, TrafficClass: i.trafficClass}
	spread := uint32(i.pathFactor * path)
	switch {
	case i.Port.ethernet():
		p.AH.DLID = verbs.LID(roceSourcePort | spread)
		p.AH.Global = true
		if i.flowLabels {
			p.AH.FlowLabel = flowLabel(seed + spread)
		} else {
			p.AH.FlowLabel = ^spread & flowLabelMask
		}
	default:
		bits := i.bits[path%len(i.bits)]
		p.AH.DLID = i.router(a) | verbs.LID(bits)
		p.AH.SrcPathBits = bits
		p.AH.Global = a.Global && (i.global || [8]byte(a.GID[:8]) != [8]byte(i.source.GID[:8]))
	}
	if p.AH.Global {
		p.AH.DGID, p.AH.HopLimit = a.GID, i.hopLimit
		p.AH.SGIDIndex = uint8(i.source.Index)
		if a.HasIndex {
			p.AH.SGIDIndex = a.GIDIndex
		}
	}
	return p
}

// flowLabelMask is the 20 bits of a flow label. C UCX uses the complement of the path's number
// as the label. There all connections of a path have the same label and, with RoCE v2, the
// same UDP source port.
const flowLabelMask = 1<<20 - 1

// flowLabel spreads connections over the flow labels. It is never 0, which would leave
// the choice to the driver.
func flowLabel(seed uint32) uint32 {
	h := seed * 0x9e3779b1
	return (h>>12)&flowLabelMask | 1
}

// addrOf returns the IP address of a port; it is not valid for InfiniBand.
func (i *Iface) addrOf(a *Address) netip.Addr {
	if !a.Ethernet {
		return netip.Addr{}
	}
	ip := a.GID.Addr()
	if ip.Is6() && ip.IsLinkLocalUnicast() && i.source.IfIndex > 0 {
		ip = ip.WithZone(strconv.Itoa(i.source.IfIndex))
	}
	return ip
}

// here reports whether a port is on this machine, in this network namespace.
func (i *Iface) here(a *Address) bool {
	if !a.Ethernet || a.GID == i.source.GID {
		return a.Ethernet
	}
	routes, err := i.Domain.routes()
	return err == nil && routes.Local(a.GID.Addr())
}

// SourceInfo describes the peer at a port, for uct.Connection.
func (i *Iface) SourceInfo(a *Address) uct.SourceInfo {
	return uct.SourceInfo{
		Addr:  netip.AddrPortFrom(i.addrOf(a), 0),
		Local: i.here(a),
		User:  uct.PeerUser{UID: -1, GID: -1, PID: -1},
	}
}

// PeerAddr implements uct.NetworkIface. The addresses have no port numbers.
func (i *Iface) PeerAddr(p uct.ReachableParams) (at netip.AddrPort, here bool, err error) {
	a, err := ParseAddress(p.DeviceAddr)
	if err != nil {
		return at, false, err
	}
	return netip.AddrPortFrom(i.addrOf(&a), 0), i.here(&a), nil
}
