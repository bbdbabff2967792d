package ucp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// candidate is a pair of an interface of ours and an entry of the peer's
// address.
type candidate struct {
	iface *iface
	addr  int
	dev   *proto.AddressDevice
	peer  *proto.AddressIface
	score float64
	why   error // why it cannot be used
}

// amScore rates a lane for active messages: higher is better. Both sides'
// attributes enter as they are published (src/ucp/wireup/wireup.c,
// ucp_wireup_am_score_func).
func amScore(own, peer *proto.IfaceAttr) float64 {
	return 1e-3 / ((own.Latency+peer.Latency)/2 + own.Overhead + peer.Overhead)
}

// candidates lists how the worker could reach an address, unusable ways
// included.
func (w *Worker) candidates(addr *proto.WorkerAddress) []candidate {
	var list []candidate
	addr.Ifaces(func(n int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		for _, i := range w.ifaces {
			if i.id != f.Transport {
				continue
			}
			c := candidate{iface: i, addr: n, dev: d, peer: f}
			c.why = i.usableFor(d, f)
			own := w.publish(i)
			c.score = amScore(&own, &f.Attr)
			list = append(list, c)
		}
		return true
	})
	return list
}

// usableFor reports why an interface cannot carry active messages to an entry
// of an address.
func (i *iface) usableFor(d *proto.AddressDevice, f *proto.AddressIface) error {
	const need = uct.IfaceAMBcopy | uct.IfacePending | uct.IfaceConnectToIface
	if !i.attr.Flags.Has(need) || !f.Attr.Flags.Has(proto.PeerConnectToIface|proto.PeerAMSync) {
		return errors.New("no active messages")
	}
	return i.uct.Reachable(uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr})
}

// scoreTolerance is the relative difference below which scores count as equal
// (ucp_score_cmp).
const scoreTolerance = 1e-6

// better orders candidates: by score, then by the sum of the devices'
// priorities, then by position.
func (c *candidate) better(o *candidate) bool {
	if d := c.score - o.score; d > scoreTolerance*(c.score+o.score) {
		return true
	} else if -d > scoreTolerance*(c.score+o.score) {
		return false
	}
	return int(c.iface.attr.Perf.Priority)+int(c.peer.Attr.Priority) >
		int(o.iface.attr.Perf.Priority)+int(o.peer.Attr.Priority)
}

// connect chooses the endpoint's lanes and creates them.
func (ep *Endpoint) connect(addr *proto.WorkerAddress) error {
	list := ep.w.candidates(addr)
	var best *candidate
	for i := range list {
		if c := &list[i]; c.why == nil && (best == nil || c.better(best)) {
			best = c
		}
	}
	if best == nil {
		return unreachable(addr, list)
	}
	ue, err := best.iface.uct.NewEndpoint(uct.EndpointParams{
		DeviceAddr: best.dev.Addr,
		IfaceAddr:  best.peer.Addr,
		UserData:   ep,
	})
	if err != nil {
		return err
	}
	ep.lanes = []lane{{iface: best.iface, uct: ue, addr: best.addr}}
	ep.ue = ue
	ep.cfg = ep.w.configFor(best)
	return nil
}

// unreachable explains why none of the transports of an address can be used.
func unreachable(addr *proto.WorkerAddress, list []candidate) error {
	if len(list) == 0 {
		var names []string
		addr.Ifaces(func(_ int, _ *proto.AddressDevice, f *proto.AddressIface) bool {
			names = append(names, f.Transport.String())
			return true
		})
		return fmt.Errorf("ucp: no transport in common with the peer, which has [%s]: %w",
			strings.Join(names, " "), ucs.ErrUnreachable)
	}
	var b strings.Builder
	for i := range list {
		fmt.Fprintf(&b, "; %s: %v", list[i].iface.attr.Resource, list[i].why)
	}
	return fmt.Errorf("ucp: peer not reachable%s: %w", b.String(), ucs.ErrUnreachable)
}

// laneName returns "transport/device" of a lane.
func (ep *Endpoint) laneName(i int) string {
	if i >= len(ep.lanes) {
		return "no lane"
	}
	return ep.lanes[i].iface.attr.Resource.String()
}
