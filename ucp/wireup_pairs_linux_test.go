package ucp

import (
	"errors"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// connectedWith is a lane's endpoint that leads to the end with an address.
type connectedWith struct {
	refuse
	end string
}

func (c connectedWith) LeadsTo(_, _, end []byte) bool { return string(end) == c.end }

// TestLanesForEnds: who answers a request for lanes keeps those whose ends the peer has kept,
// makes none where the peer names no end, and none for an end that is another lane's.
func TestLanesForEnds(t *testing.T) {
	d := newDuo(t, "TLS", "tcp")
	here, other := d.s.ifaces[0], *d.s.ifaces[0] // two devices that reach the peer
	d.s.ifaces, d.s.selection.locals = append(d.s.ifaces, &other), append(d.s.selection.locals, d.s.selection.locals[0])
	defer func() { d.s.ifaces, d.s.selection.locals = d.s.ifaces[:1], d.s.selection.locals[:1] }()
	choose := func(spare []lane, ends ...string) (proto.LaneConfig, error) {
		addr := d.c.own.described.Clone()
		addr.Ifaces(func(_ int, _ *proto.AddressDevice, f *proto.AddressIface) bool {
			for k, e := range ends {
				f.EpAddrs = append(f.EpAddrs, proto.AddressEp{Lane: uint8(k), Addr: []byte(e)})
			}
			return true
		})
		rules := laneRules{cm: true, ends: addr, spare: spare}
		chosen, _, err := d.s.selection.selectLanes(addr, ErrModePeer, rules)
		if err != nil {
			return chosen, err
		}
		return d.s.wireups.withKept(chosen, addr, ErrModePeer, &rules), nil
	}
	at := func(i *iface, end string) []lane { return []lane{{iface: i, uct: connectedWith{end: end}}} }
	for name, x := range map[string]struct {
		spare []lane
		ends  []string
		lanes []int // which of the two devices they are of
	}{
		"one end":                 {nil, []string{"a"}, []int{0}},
		"more than are of use":    {nil, []string{"a", "b", "c"}, []int{0}},
		"that of a spare lane":    {at(here, "b"), []string{"a", "b"}, []int{0}},
		"a spare lane for no end": {at(here, "c"), []string{"a", "b"}, []int{0}},
		"also the other device's": {at(&other, "a"), []string{"a", "b"}, []int{0, 1}},
		"only the other device's": {at(&other, "a"), []string{"a"}, []int{1}},
		"no end":                  {nil, nil, nil},
	} {
		c, err := choose(x.spare, x.ends...)
		if x.lanes == nil {
			if !errors.Is(err, ucs.ErrUnreachable) {
				t.Errorf("%s: %+v, %v", name, c, err)
			}
			continue
		}
		var lanes []int
		for _, l := range c.Lanes {
			lanes = append(lanes, l.Local)
		}
		if err != nil || !slices.Equal(lanes, x.lanes) || c.Paired != 1<<len(lanes)-1 || c.AM != 0 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}
