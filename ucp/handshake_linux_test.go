package ucp

import (
	"errors"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// connectedWith is a lane's endpoint that leads to the end with an address.
type connectedWith struct {
	refuse
	uct.Paired // not called but for IsConnectedTo
	end        string
}

func (c connectedWith) IsConnectedTo(_, _, end []byte) bool { return string(end) == c.end }

// TestLanesForEnds checks that the worker that answers a request for lanes keeps the lanes that the
// peer has kept, and makes none for an endpoint address that is missing or belongs to another lane.
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
		return d.s.handshakes.withKept(chosen, addr, ErrModePeer, &rules), nil
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

// TestEndBeforeReply: an endpoint whose own request was lost, and which ends before it is answered,
// leaves no endpoint of the peer waiting whose request it has not answered either.
func TestEndBeforeReply(t *testing.T) {
	for name, x := range map[string]struct {
		first bool // the endpoint ends before the peer's request arrives
		end   func(ep *Endpoint)
	}{
		"fails before the request": {true, func(ep *Endpoint) { ep.fail(ucs.ErrEndpointTimeout) }},
		"fails after the request":  {false, func(ep *Endpoint) { ep.fail(ucs.ErrEndpointTimeout) }},
		"closed by force":          {false, func(ep *Endpoint) { ep.w.ends.destroy(ep, ucs.ErrCanceled) }},
	} {
		t.Run(name, func(t *testing.T) {
			open := func() *targetWorker {
				return newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo", "RESOLVE_REMOTE_EP_ID", "n")
			}
			v, peer := open(), open()
			if v.uuid > peer.uuid {
				v, peer = peer, v // the request of the worker with the smaller uuid counts
			}
			to := func(from, to *targetWorker) *Endpoint {
				ep, err := from.NewEndpoint(EndpointParams{Address: to.own.address, ErrMode: ErrModePeer})
				if err != nil {
					t.Fatal(err)
				}
				return ep
			}
			ep, back := to(v, peer), to(peer, v)
			ep.handshake.Stage = connect.Requested // and the request was lost
			if x.first {
				x.end(ep)
			}
			if err := peer.handshakes.request(back); err != nil {
				t.Fatal(err)
			}
			if !x.first {
				until(t, "request", func() bool { return ep.remoteID != 0 }, v, peer)
				if ep.handshake.Stage != connect.Crossed {
					t.Fatalf("the endpoint is in stage %v", ep.handshake.Stage)
				}
				x.end(ep)
			}
			until(t, "end of the peer's endpoint", func() bool { return back.Err() != nil }, v, peer)
			if err := back.Err(); !errors.Is(err, ucs.ErrConnectionReset) {
				t.Errorf("the peer's endpoint: %v", err)
			}
			ep.w.ends.destroy(ep, ucs.ErrCanceled)
			back.w.ends.destroy(back, ucs.ErrCanceled)
			until(t, "end of the notice", func() bool { return v.endpoints.Len() == 1 && peer.endpoints.Len() == 1 }, v, peer)
		})
	}
}
