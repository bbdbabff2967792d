//go:build linux

package verbstest

import (
	"fmt"
	"net/netip"
	"slices"
)

// Config is what a device is to be. The zero value is a device as of rdma_rxe, with
// addresses that no other of its Fabric has.
type Config struct {
	MLX5     *MLX5  // nil: as of rdma_rxe
	Name     string // "": rxe0, rxe1 or mlx5_1, and so on
	NodeGUID uint64 // 0: one of its own
	Ports    []Port // none: one, as the zero Port
	Limits   Limits
	GRH      GRH
	// WCSL is what completions of datagrams say of the service level, where the link is
	// Ethernet. rdma_rxe has 0; some devices have the kind of packet there.
	WCSL uint8
	// LastWQE has the event of the last work request sent when a queue pair with a shared
	// receive queue gets into the error state, as rdma_rxe of Linux 6.12 does and of 6.1 does
	// not; mlx5_ib always does.
	LastWQE bool
	// Endless has 7 tries to reach a peer be tries without end, as rdma_rxe does; by itself it
	// is so only where tries are far apart (Serve).
	Endless bool
}

// Port is a port of a device. Its tables are by index.
type Port struct {
	// GIDs are the addresses. Without any, an Ethernet port has one of the link and an
	// IPv4 one, as rdma_rxe on the n-th interface of a network 10.9.0.0/16; one of
	// InfiniBand has one with the prefix of the link. They have no network interface, so
	// routes do not matter.
	GIDs       []GID
	PKeys      []uint16 // none: 0xffff
	MTU        uint8    // in use: 1 to 5 for 256 to 4096 bytes; 0: 5
	Width      uint8    // 1, 2 (4X), 4 (8X), 8 (12X), 16 (2X); 0: 1
	Speed      uint8    // per lane: 1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR, 32 EDR, 64 HDR, 128 NDR; 0: 8
	InfiniBand bool     // the link is, and packets find LIDs; else Ethernet
	LID        uint16   // of InfiniBand; 0: one of its own
	LMC        uint8    // so many low bits of the LID are anything
	Down       bool     // it is, to begin with

	TrafficClass uint8 // that the administrator has set; 0: none
}

// GID is an entry of a port's table.
type GID struct {
	ID      [16]byte // a zero one is empty
	V1      bool     // of RoCE v1, else v2
	NetDev  string   // the name of the network interface; "": there is none
	IfIndex uint32   // and its index; 0: there is none
}

// IP is the GID of an IP address, which must be one.
func IP(addr string) GID { return GID{ID: netip.MustParseAddr(addr).As16()} }

// gidTable is how many entries a table of GIDs has at least.
const gidTable = 16

// loopback is the port of rdma_rxe on lo.
func loopback() Port {
	p := Port{GIDs: []GID{IP("fe80::200:ff:fe00:0"), IP("127.0.0.1"), IP("::1")}, Speed: 1}
	for i := range p.GIDs {
		p.GIDs[i].NetDev, p.GIDs[i].IfIndex = "lo", 1
	}
	return p
}

// filled is the configuration of the n-th device of a network, from 0, with what was
// left out.
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

// filled is a port with what was left out, of the number number in the network.
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

// kind is whose device it is.
func (c *Config) kind() personality {
	if c.MLX5 != nil {
		return mlx5{*c.MLX5}
	}
	return rxe{}
}

// check panics if a device cannot be like that.
func (c *Config) check() {
	if len(c.Ports) > maxPorts {
		panic(fmt.Sprintf("verbstest: %s with %d ports, the most is %d", c.Name, len(c.Ports), maxPorts))
	}
	if l, most := c.Limits, c.kind().limits(); l.WR > most.WR || l.SGE > most.SGE || l.Inline > most.Inline || l.CQE > most.CQE || l.SRQWR > most.SRQWR {
		panic(fmt.Sprintf("verbstest: %s with more than there can be: %+v", c.Name, l))
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
