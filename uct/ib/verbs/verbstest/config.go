//go:build linux

package verbstest

import (
	"fmt"
	"net/netip"
	"slices"
)

// Config describes a device. The zero value is an rdma_rxe device with addresses that no other
// device of its Fabric has.
type Config struct {
	MLX5     *MLX5  // nil: an rdma_rxe device
	Name     string // "": rxe0, rxe1 and so on, or mlx5_0, mlx5_1 and so on
	NodeGUID uint64 // 0: a unique one is assigned
	Ports    []Port // none: one port, the zero value of Port
	Limits   Limits
	GRH      GRH
	// WCSL is the service level that completions of datagrams report on Ethernet links. rdma_rxe
	// reports 0; some devices report the kind of packet there.
	WCSL uint8
	// LastWQE enables the event "last WQE reached" when a queue pair with a shared receive queue
	// enters the error state, as in rdma_rxe of Linux 6.12 but not of 6.1. mlx5_ib always raises
	// it.
	LastWQE bool
	// Endless makes a retry count of 7 mean endless tries to reach a peer, as in rdma_rxe. Without
	// Endless an rdma_rxe device does so only under Serve, where tries are far apart.
	Endless bool
}

// Port describes a port of a device. GIDs and PKeys are indexed as the device's tables.
type Port struct {
	// GIDs are the port's addresses. If empty, an Ethernet port gets a link-local address and an
	// IPv4 one, as rdma_rxe on the n-th interface of a network 10.9.0.0/16 has, and an InfiniBand
	// port gets one with the link-local prefix. These addresses have no network interface, so
	// routes do not matter.
	GIDs       []GID
	PKeys      []uint16 // none: 0xffff
	MTU        uint8    // active MTU: 1 to 5 for 256 to 4096 bytes; 0: 5
	Width      uint8    // width of the link: 1 (1X), 2 (4X), 4 (8X), 8 (12X), 16 (2X); 0: 1
	Speed      uint8    // per lane: 1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR, 32 EDR, 64 HDR, 128 NDR; 0: 8
	InfiniBand bool     // the link layer is InfiniBand, with LIDs as addresses; else Ethernet
	LID        uint16   // InfiniBand only; 0: a unique one is assigned
	LMC        uint8    // number of low bits of the LID that are ignored
	Down       bool     // the port is down at first

	TrafficClass uint8 // RoCE traffic class that the administrator has set; 0: none
}

// GID is an entry of a port's GID table.
type GID struct {
	ID      [16]byte // all zeros: the entry is empty
	V1      bool     // RoCE v1, else v2
	NetDev  string   // name of the network interface; "": none
	IfIndex uint32   // index of the network interface; 0: none
}

// IP returns the GID of an IP address in text form. It panics if the text is malformed.
func IP(addr string) GID { return GID{ID: netip.MustParseAddr(addr).As16()} }

// gidTable is the smallest number of entries of a GID table.
const gidTable = 16

// loopback returns the port that rdma_rxe has on the network interface lo.
func loopback() Port {
	p := Port{GIDs: []GID{IP("fe80::200:ff:fe00:0"), IP("127.0.0.1"), IP("::1")}, Speed: 1}
	for i := range p.GIDs {
		p.GIDs[i].NetDev, p.GIDs[i].IfIndex = "lo", 1
	}
	return p
}

// filled returns the configuration of the n-th device of a network, counted from 0, with the
// defaults filled in.
func (c Config) filled(n int) Config {
	if c.Name == "" {
		c.Name = fmt.Sprintf("rxe%d", n)
		if c.MLX5 != nil {
			c.Name = fmt.Sprintf("mlx5_%d", n)
		}
	}
	c.LastWQE = c.LastWQE || c.MLX5 != nil
	if c.NodeGUID == 0 {
		c.NodeGUID = 0x020000fffe000000 + uint64(n)
	}
	if len(c.Ports) == 0 {
		c.Ports = []Port{{}}
	}
	c.Limits = c.Limits.filled(c.kind().limits())
	c.Ports = slices.Clone(c.Ports)
	for i := range c.Ports {
		c.Ports[i] = c.Ports[i].filled(n*maxPorts + i)
	}
	return c
}

// filled returns the port with the defaults filled in. The parameter number is the number of the
// port in the network.
func (p Port) filled(number int) Port {
	low := byte(number + 1)
	if len(p.GIDs) == 0 {
		p.GIDs = []GID{{ID: [16]byte{0: 0xfe, 1: 0x80, 8: 2, 11: 0xff, 12: 0xfe, 15: low}}}
		if !p.InfiniBand {
			p.GIDs = append(p.GIDs, GID{ID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 9, 15: low}})
		}
	}
	p.GIDs = slices.Clone(p.GIDs)
	for len(p.GIDs) < gidTable {
		p.GIDs = append(p.GIDs, GID{})
	}
	if len(p.PKeys) == 0 {
		p.PKeys = []uint16{0xffff}
	}
	if p.InfiniBand && p.LID == 0 {
		p.LID = uint16(low) << 3
	}
	set := func(v *uint8, byDefault uint8) {
		if *v == 0 {
			*v = byDefault
		}
	}
	set(&p.MTU, maxMTU)
	set(&p.Width, 1)
	set(&p.Speed, 8)
	return p
}

// kind returns the device-specific part of the simulation.
func (c *Config) kind() deviceKind {
	if c.MLX5 != nil {
		return mlx5{*c.MLX5}
	}
	return rxe{}
}

// check panics if a device cannot have this configuration.
func (c *Config) check() {
	if len(c.Ports) > maxPorts {
		panic(fmt.Sprintf("verbstest: %s with %d ports, the most is %d", c.Name, len(c.Ports), maxPorts))
	}
	if l, most := c.Limits, c.kind().limits(); l.WR > most.WR || l.SGE > most.SGE || l.Inline > most.Inline || l.CQE > most.CQE || l.SRQWR > most.SRQWR {
		panic(fmt.Sprintf("verbstest: %s: limits exceed those of the device type: %+v", c.Name, l))
	}
	for _, p := range c.Ports {
		if lanes[p.Width] == 0 {
			panic(fmt.Sprintf("verbstest: %s with width %d", c.Name, p.Width))
		}
		if p.MTU > maxMTU || len(p.GIDs) > 1<<8 || len(p.PKeys) > 1<<10 {
			panic(fmt.Sprintf("verbstest: %s with MTU %d, %d GIDs and %d P_Keys", c.Name, p.MTU, len(p.GIDs), len(p.PKeys)))
		}
	}
}
