//go:build linux

package ib

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Port is a port of a device.
type Port struct {
	Domain *Domain
	Num    int            // port number, from 1
	Attr   verbs.PortAttr // as of when the domain was opened

	subnetMismatch error // why the port is not in the subnet of UCX_IB_SUBNET_PREFIX; nil if it is
}

// Name returns the name of the port as a resource: rxe0:1.
func (p *Port) Name() string { return fmt.Sprintf("%s:%d", p.Domain.device.Name, p.Num) }

// ethernet reports whether the port is an Ethernet port, which uses RoCE.
func (p *Port) ethernet() bool { return p.Attr.LinkLayer == verbs.LinkEthernet }

// usable returns the reason why the port cannot be used, nil if it can.
func (p *Port) usable() error {
	switch {
	case p.Attr.State != verbs.PortActive:
		return fmt.Errorf("ib: %s is %v, expected ACTIVE: %w", p.Name(), p.Attr.State, ucs.ErrUnreachable)
	case p.Attr.LinkLayer != verbs.LinkEthernet && p.Attr.LinkLayer != verbs.LinkInfiniBand && p.Attr.LinkLayer != verbs.LinkUnspecified:
		return fmt.Errorf("ib: %s has link layer %v: %w", p.Name(), p.Attr.LinkLayer, ucs.ErrUnsupported)
	case p.Domain.device.NodeType.Transport() == verbs.TransportIWARP:
		return fmt.Errorf("ib: %s is an iWARP port, which is not supported: %w", p.Name(), ucs.ErrUnsupported)
	}
	return p.subnetMismatch
}

// place checks whether an InfiniBand port is in the given subnet, and sets p.elsewhere if it is
// not. index is the GID index to use, -1 for any.
func (p *Port) place(subnet *subnetPrefix, index int) error {
	if !subnet.set || p.ethernet() {
		return nil
	}
	e, err := p.Domain.ctx.QueryGID(p.Num, max(index, 0))
	if err != nil {
		return err
	}
	if [8]byte(e.GID[:8]) != subnet.prefix {
		p.subnetMismatch = fmt.Errorf("ib: %s is in the subnet of %v, UCX_IB_SUBNET_PREFIX is %v: %w", p.Name(), e.GID, subnet, ucs.ErrUnsupported)
	}
	return nil
}

// links returns the number of links that carry the traffic of a network interface of the port:
// more than 1 if it is a bond. link is the index of the network interface.
func (p *Port) links(link int) int {
	if b, ok := p.Domain.source.(bonded); ok && p.ethernet() && link > 0 {
		return max(b.BondPorts(link), 1)
	}
	return 1
}

// source is the entry of the port's GID table that an interface uses.
type source struct {
	verbs.GIDEntry
	version RoCEVersion
}

// ipv6 reports whether the GID is not an IPv4 address.
func (s *source) ipv6() bool { return !s.GID.Addr().Is4() }

// chooseGID chooses an entry of the port's GID table. index is the entry from the settings, -1 for
// any. If index is -1, an InfiniBand port prefers the entry for routes by FLID if flid is true
// (flid.go), and a RoCE port chooses among the addresses that the parameter allowed permits.
func (p *Port) chooseGID(index int, allowed *subnets, flid bool) (source, error) {
	ctx := p.Domain.ctx
	if !p.ethernet() && index < 0 {
		index = 0
		if e, err := ctx.QueryGID(p.Num, flidIndex); flid && err == nil && routable(e.GID) {
			index = flidIndex
		}
	}
	if index >= 0 {
		if index > maxGIDIndex {
			return source{}, fmt.Errorf("ib: UCX_IB_GID_INDEX is %d, the limit is %d: %w", index, maxGIDIndex, ucs.ErrInvalidParam)
		}
		e, err := ctx.QueryGID(p.Num, index)
		if err != nil {
			return source{}, fmt.Errorf("ib: GID %d of %s: %w", index, p.Name(), err)
		}
		return source{e, version(e.Type)}, nil
	}
	all, err := ctx.QueryGIDTable()
	if err != nil {
		return source{}, err
	}
	var refused error
	for _, k := range gidKinds {
		for _, e := range all {
			if e.Port != p.Num || e.Index > maxGIDIndex || !k.is(e) || !allowed.allow(e.GID.Addr()) {
				continue
			}
			// An entry may be in the table before packets can be sent from it.
			if err := p.tryGID(e); err != nil {
				refused = errors.Join(refused, err)
				continue
			}
			return source{e, version(e.Type)}, nil
		}
	}
	if refused == nil {
		refused = ucs.ErrUnreachable
	}
	return source{}, fmt.Errorf("ib: %s has no GID that can be used: %w", p.Name(), refused)
}

// maxGIDIndex is the largest GID index that address handles and queue pairs can name.
const maxGIDIndex = 255

// tryGID creates and closes an address handle from a GID to itself, to check that packets can be
// sent from it.
func (p *Port) tryGID(e verbs.GIDEntry) error {
	ah, err := p.Domain.pd.CreateAH(&verbs.AHAttr{Global: true, DGID: e.GID, SGIDIndex: uint8(e.Index), FlowLabel: 1, HopLimit: 255, Port: uint8(p.Num)})
	if err != nil {
		return err
	}
	return ah.Close()
}

// gidKind is a kind of RoCE GID.
type gidKind struct {
	typ        verbs.GIDType
	ipv4, link bool // link: a link-local address; ignored for IPv4
}

// gidKinds are the kinds in order of preference, best first (uct_ib_device_select_gid).
var gidKinds = []gidKind{
	{verbs.GIDRoCEv2, true, false}, {verbs.GIDRoCEv2, false, false}, {verbs.GIDRoCEv2, false, true},
	{verbs.GIDRoCEv1, true, false}, {verbs.GIDRoCEv1, false, false}, {verbs.GIDRoCEv1, false, true},
}

func (k gidKind) is(e verbs.GIDEntry) bool {
	a := e.GID.Addr()
	return e.Type == k.typ && a.Is4() == k.ipv4 && (k.ipv4 || a.IsLinkLocalUnicast() == k.link)
}

func version(t verbs.GIDType) RoCEVersion {
	if t == verbs.GIDRoCEv2 {
		return RoCEv2
	}
	return RoCEv1
}

// Bits of a partition key: the partition number, and the mark of a full member.
const (
	partitionMask = 0x7fff
	fullMember    = 0x8000
)

// choosePKey chooses an entry of the port's partition table. want is the partition number, -1
// for any. Of the matching entries it takes the first one with full membership, or else the
// first one.
func (p *Port) choosePKey(table []verbs.PKey, want int) (key verbs.PKey, index uint16, err error) {
	found := -1
	for i, k := range table {
		if k == 0 || want >= 0 && int(k&partitionMask) != want {
			continue
		}
		if k&fullMember != 0 {
			found = i
			break
		}
		if found < 0 {
			found = i
		}
	}
	switch {
	case found >= 0:
		return table[found], uint16(found), nil
	case want >= 0:
		return 0, 0, fmt.Errorf("ib: %s is not in partition %#x: %w", p.Name(), want, ucs.ErrNoElem)
	}
	return 0, 0, fmt.Errorf("ib: %s is in no partition: %w", p.Name(), ucs.ErrNoElem)
}

// resource describes the port as a resource of a transport.
func (p *Port) resource(transport string) uct.Resource {
	return uct.Resource{Transport: transport, Device: p.Name(), Type: uct.DeviceNetwork, SysDevice: -1}
}
