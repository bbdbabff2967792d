package proto

import (
	"fmt"
	"math"
	"strings"

	"github.com/ucx-go/ucx/uct"
)

// LaneType is a purpose of a lane (ucp_lane_type_t).
type LaneType uint8

// Lane types, in C's order.
const (
	LaneAM        LaneType = iota // active messages
	LaneAMBW                      // long eager messages
	LaneRMA                       // remote memory access
	LaneRMABW                     // long remote memory access and rendezvous
	LaneRkeyPtr                   // mapping of the peer's memory (rkey_ptr)
	LaneAMO                       // atomic operations
	LaneTag                       // tag matching in the device; never selected
	LaneCM                        // the connection manager
	LaneKeepalive                 // keepalive: checks that the peer is alive
	numLaneTypes
)

var laneTypeNames = [numLaneTypes]string{"am", "am_bw", "rma", "rma_bw", "rkey_ptr", "amo", "tag", "cm", "keepalive"}

// String returns the name that ucx_info -e prints.
func (t LaneType) String() string {
	if t < numLaneTypes {
		return laneTypeNames[t]
	}
	return fmt.Sprintf("lane type %d", uint8(t))
}

// fastPath reports whether lanes of the type count against LaneLimits.FastPath.
func (t LaneType) fastPath() bool {
	return t == LaneAM || t == LaneRMA || t == LaneAMO || t == LaneCM || t == LaneTag
}

// LaneTypes is a set of lane types.
type LaneTypes uint16

// Has reports whether t is in the set.
func (s LaneTypes) Has(t LaneType) bool { return s&(1<<t) != 0 }

// Lane is a connection of an endpoint: one local resource and one entry of the peer's
// address.
type Lane struct {
	Local     int // index in LaneInput.Local; -1 for the connection manager
	Name      string
	MD        uint8
	Remote    int // index of the address entry (WorkerAddress.Ifaces); -1 for the connection manager
	Peer      TransportID
	Path      int // index among the parallel paths of the device
	DstMD     uint8
	DstSysDev uint8
	SegSize   int // longest active message that the peer accepts; 0: not announced
	Types     LaneTypes
	Scores    [numLaneTypes]float64
}

// LaneConfig holds the lanes of an endpoint and their purposes. Lists are ordered best
// first; a single lane is NullLane if there is none.
type LaneConfig struct {
	Lanes []Lane

	AM        uint8
	RkeyPtr   uint8
	CM        uint8
	Keepalive uint8

	// Wireup is the lane of wireup requests and replies; it may differ from the lane AM. NullLane
	// means that they use the lane AM. Wireup acks always use the lane AM.
	Wireup uint8

	AMBW, RMA, RMABW, AMO []uint8

	// Paired is a bit map of the lanes that are each connected with one endpoint of the
	// peer (ucp_ep_is_lane_p2p in src/ucp/core/ucp_ep.c).
	Paired uint64
}

// WithoutCM returns the configuration without the connection manager's lane. The numbers of the
// other lanes are one less then.
func (c *LaneConfig) WithoutCM() LaneConfig {
	if c.CM != 0 {
		return *c
	}
	less := func(lane uint8) uint8 {
		if lane == NullLane {
			return lane
		}
		return lane - 1
	}
	list := func(lanes []uint8) (list []uint8) {
		for _, l := range lanes {
			list = append(list, l-1)
		}
		return list
	}
	return LaneConfig{
		Lanes: c.Lanes[1:], AM: less(c.AM), RkeyPtr: less(c.RkeyPtr), CM: NullLane, Keepalive: less(c.Keepalive), Wireup: less(c.Wireup),
		AMBW: list(c.AMBW), RMA: list(c.RMA), RMABW: list(c.RMABW), AMO: list(c.AMO), Paired: c.Paired >> 1,
	}
}

// uses lists the purposes of a lane, each with the rank of the lane if several lanes can have the
// purpose, for example "rma#0 am".
func (c *LaneConfig) uses(lane uint8) string {
	var b strings.Builder
	list := func(t LaneType, lanes []uint8) {
		for i, l := range lanes {
			if l == lane {
				fmt.Fprintf(&b, " %v#%d", t, i)
			}
		}
	}
	one := func(name string, l uint8) {
		if l == lane {
			b.WriteString(" " + name)
		}
	}
	list(LaneRMABW, c.RMABW)
	list(LaneRMA, c.RMA)
	list(LaneAMO, c.AMO)
	one("am", c.AM)
	one("rkey_ptr", c.RkeyPtr)
	list(LaneAMBW, c.AMBW)
	one("cm", c.CM)
	one("keepalive", c.Keepalive)
	one("wireup", c.Wireup)
	return strings.TrimPrefix(b.String(), " ")
}

// Lines describes the lanes in the layout of ucx_info -e
// (ucp_ep_config_lane_info_str in src/ucp/core/ucp_ep.c), one line each.
func (c *LaneConfig) Lines() []string { return c.LinesFrom(0) }

// LinesFrom is Lines with lane numbers that begin at first.
func (c *LaneConfig) LinesFrom(first int) []string {
	var out []string
	for i := range c.Lanes {
		l := &c.Lanes[i]
		if l.Local < 0 {
			out = append(out, fmt.Sprintf("lane[%d]: cm", first+i))
			continue
		}
		seg := uint32(math.MaxUint32) // C's value for "not announced"
		if l.SegSize > 0 {
			seg = uint32(l.SegSize)
		}
		head := fmt.Sprintf("lane[%d]: %2d:%s.%d md[%d] ", first+i, l.Local, l.Name, l.Path, l.MD)
		pad := 21 - len(l.Name)
		if l.MD > 9 {
			pad--
		}
		out = append(out, fmt.Sprintf("%s%s-> md[%d]/%s/sysdev[%d] seg %d %s", head, strings.Repeat(" ", max(pad, 1)),
			l.DstMD, l.Peer.component(), l.DstSysDev, seg, c.uses(uint8(i))))
	}
	return out
}

// SelectAux chooses the lane for the wireup messages of an endpoint whose lanes must all be
// connected pairwise first: a local resource and an entry of the peer's address that exchange
// messages without a connection (ucp_wireup_select_aux_transport in src/ucp/wireup/select.c).
// The result has only that lane. The error wraps ucs.ErrUnreachable.
func SelectAux(in *LaneInput) (LaneConfig, LaneTrace, error) {
	s := newSelector(in, false)
	c := criteria{
		lane: LaneAM, title: "auxiliary",
		flags:     uct.IfaceAMBcopy | uct.IfacePending | uct.IfaceConnectToIface | s.errFlags(),
		peer:      PeerAMSync | PeerConnectToIface | PeerCBAsync,
		auxiliary: true,
		score:     s.scorer.am,
	}
	p, ok := s.choose(c, s.scope())
	if !ok {
		c.peer &^= PeerCBAsync
		p, ok = s.choose(c, s.scope())
	}
	if !ok {
		return LaneConfig{}, s.trace, s.unreachable()
	}
	s.add(LaneAM, p)
	return s.config(), s.trace, nil
}
