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
	Num    int            // from 1
	Attr   verbs.PortAttr // when the domain was opened

	elsewhere error // it is not of the subnet that the user wants
}

// Name returns the name of the port as a resource: rxe0:1.
func (p *Port) Name() string { return fmt.Sprintf("%s:%d", p.Domain.device.Name, p.Num) }

// ethernet reports whether the port speaks RoCE.
func (p *Port) ethernet() bool { return p.Attr.LinkLayer == verbs.LinkEthernet }

// usable says why nothing can be sent by the port, nil if it can.
func (p *Port) usable() error {
	switch {
	case p.Attr.State != verbs.PortActive:
		return fmt.Errorf("ib: %s is not active but %v: %w", p.Name(), p.Attr.State, ucs.ErrUnreachable)
	case p.Attr.LinkLayer != verbs.LinkEthernet && p.Attr.LinkLayer != verbs.LinkInfiniBand && p.Attr.LinkLayer != verbs.LinkUnspecified:
		return fmt.Errorf("ib: %s has link layer %v: %w", p.Name(), p.Attr.LinkLayer, ucs.ErrUnsupported)
	case p.Domain.device.NodeType.Transport() == verbs.TransportIWARP:
		return fmt.Errorf("ib: %s is an iWARP port: %w", p.Name(), ucs.ErrUnsupported)
	}
	return p.elsewhere
}

// place looks whether the port is of a subnet, if it is one of InfiniBand. index is the GID
// that the user wants, -1 for any.
func (p *Port) place(subnet *subnetPrefix, index int) error {
	if !subnet.set || p.ethernet() {
		return nil
	}
	e, err := p.Domain.ctx.QueryGID(p.Num, max(index, 0))
	if err != nil {
		return err
	}
	if [8]byte(e.GID[:8]) != subnet.prefix {
		p.elsewhere = fmt.Errorf("ib: %s is in the subnet of %v, UCX_IB_SUBNET_PREFIX is %v: %w", p.Name(), e.GID, subnet, ucs.ErrUnsupported)
	}
	return nil
}

// links is how many links of a bond carry the traffic of a network interface of the port.
func (p *Port) links(link int) int {
	if b, ok := p.Domain.source.(bonded); ok && p.ethernet() && link > 0 {
		return max(b.BondPorts(link), 1)
	}
	return 1
}

// source is the GID that an interface has of its port.
type source struct {
	verbs.GIDEntry
	version RoCEVersion
}

// ipv6 reports whether the GID is no IPv4 address.
func (s *source) ipv6() bool { return !s.GID.Addr().Is4() }

// chooseGID chooses the entry of the port's table. index is that which the user wants, -1
// for any; with flid that of InfiniBand which is made for routes by FLID is preferred.
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
			// An entry may be there before what is below it can be used.
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

// maxGIDIndex is what address handles and queue pairs can name.
const maxGIDIndex = 255

// tryGID tries whether packets could be sent from a GID, to itself.
func (p *Port) tryGID(e verbs.GIDEntry) error {
	ah, err := p.Domain.pd.CreateAH(&verbs.AHAttr{Global: true, DGID: e.GID, SGIDIndex: uint8(e.Index), FlowLabel: 1, HopLimit: 255, Port: uint8(p.Num)})
	if err != nil {
		return err
	}
	return ah.Close()
}

// gidKind is a kind of GIDs of RoCE.
type gidKind struct {
	typ        verbs.GIDType
	ipv4, link bool // link: of the link, where others come first
}

// gidKinds are the kinds, the preferred one first (uct_ib_device_select_gid).
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

// partitionMask is the number of a partition, without the bit of full members.
const (
	partitionMask = 0x7fff
	fullMember    = 0x8000
)

// choosePKey chooses the partition of those in the port's table: that which the user wants, -1
// for the first; one that the port is a full member of, where there is a choice.
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

// resource is the port as a resource of a transport.
func (p *Port) resource(transport string) uct.Resource {
	return uct.Resource{Transport: transport, Device: p.Name(), Type: uct.DeviceNetwork, SysDevice: -1}
}
