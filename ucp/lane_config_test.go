package ucp

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

const none = proto.NullLane

// TestLaneMap: purposes keep the numbers of the selection, and what it has no lane
// for goes over that of messages.
func TestLaneMap(t *testing.T) {
	for _, c := range []struct {
		name   string
		chosen proto.LaneConfig
		want   laneMap
	}{
		{"one lane",
			proto.LaneConfig{AM: 0, Wireup: 0, Keepalive: none, RMABW: []uint8{0}},
			laneMap{am: 0, wireup: 0, keepalive: none, rma: []uint8{0}, amo: []uint8{0}, bandwidth: []uint8{0}}},
		{"nothing but messages",
			proto.LaneConfig{AM: 2, Wireup: none, Keepalive: none},
			laneMap{am: 2, wireup: 2, keepalive: none, rma: []uint8{2}, amo: []uint8{2}, bandwidth: []uint8{2}}},
		{"a lane for each",
			proto.LaneConfig{AM: 2, Wireup: 0, Keepalive: 5, RMA: []uint8{0, 6}, AMO: []uint8{1}, RMABW: []uint8{3, 4}},
			laneMap{am: 2, wireup: 0, keepalive: 5, rma: []uint8{0, 6}, amo: []uint8{1}, bandwidth: []uint8{3, 4}}},
		{"messages behind the others",
			proto.LaneConfig{AM: 1, Wireup: 1, Keepalive: 1, RMA: []uint8{0}, RMABW: []uint8{1, 0}},
			laneMap{am: 1, wireup: 1, keepalive: 1, rma: []uint8{0}, amo: []uint8{1}, bandwidth: []uint8{1, 0}}},
	} {
		got := newLaneMap(&c.chosen)
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(laneMap{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestWireupLanes: which message of wireup goes over which lane.
func TestWireupLanes(t *testing.T) {
	m := laneMap{am: 1, wireup: 2, keepalive: 3}
	without := laneMap{am: 1, wireup: 2, keepalive: none}
	for _, c := range []struct {
		t    proto.WireupType
		m    *laneMap
		want uint8
	}{
		{proto.WireupRequest, &m, 2},
		{proto.WireupReply, &m, 2},
		{proto.WireupReplyReconfig, &m, 2},
		{proto.WireupEpRemoved, &m, 2},
		{proto.WireupAck, &m, 1},
		{proto.WireupEpCheck, &m, 3},
		{proto.WireupEpCheck, &without, 2},
	} {
		if got := c.m.wireupLane(c.t); got != c.want {
			t.Errorf("type %d goes over lane %d, want %d", c.t, got, c.want)
		}
	}
}

// TestRestrictedLanes: a lane does what it was chosen for.
func TestRestrictedLanes(t *testing.T) {
	m := laneMap{rma: []uint8{0}, amo: []uint8{1}, bandwidth: []uint8{2}}
	all := proto.RMALane{
		PutShort: 1, PutBcopy: 2, PutZcopy: 3, GetBcopy: 4, GetZcopy: 5,
		MinPutZcopy: 6, MinGetZcopy: 7, Atomic32: true, Atomic64: true,
	}
	for lane, want := range []proto.RMALane{
		{PutShort: 1, PutBcopy: 2, PutZcopy: 3, GetBcopy: 4, GetZcopy: 5, MinPutZcopy: 6, MinGetZcopy: 7},
		{Atomic32: true, Atomic64: true, MinPutZcopy: 6, MinGetZcopy: 7},
		{PutZcopy: 3, GetZcopy: 5, MinPutZcopy: 6, MinGetZcopy: 7, Wide: true},
		{MinPutZcopy: 6, MinGetZcopy: 7},
	} {
		got := all
		m.restrict(uint8(lane), &got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lane %d (-want +got):\n%s", lane, diff)
		}
	}
}

// askedEndpoint is a lane that counts how often it is asked for the peer.
type askedEndpoint struct {
	refuse
	asked int
}

func (e *askedEndpoint) Check(*uct.Completion) error { e.asked++; return nil }

// TestCheckedLanes: the keepalive asks the transports that do not watch by
// themselves: in shared memory always, elsewhere that of the keepalive lane, or
// all if there is none.
func TestCheckedLanes(t *testing.T) {
	var w Worker
	w.setUp()
	var lanes []proto.Lane
	for i, a := range []uct.IfaceAttr{
		{Flags: uct.IfaceEpCheck, Resource: uct.Resource{Type: uct.DeviceShared}},
		{Flags: 0, Resource: uct.Resource{Type: uct.DeviceShared}},
		{Flags: uct.IfaceEpCheck | uct.IfaceEpKeepalive, Resource: uct.Resource{Type: uct.DeviceNetwork}},
		{Flags: uct.IfaceEpCheck, Resource: uct.Resource{Type: uct.DeviceNetwork}},
		{Flags: uct.IfaceEpCheck, Resource: uct.Resource{Type: uct.DeviceNetwork}},
	} {
		w.ifaces = append(w.ifaces, &iface{attr: &a})
		lanes = append(lanes, proto.Lane{Local: i})
	}
	for _, c := range []struct {
		keepalive uint8
		want      []uint8
	}{
		{none, []uint8{0, 3, 4}},
		{0, []uint8{0}},
		{2, []uint8{0}},
		{4, []uint8{0, 4}},
	} {
		got := w.selection.checkedLanes(&proto.LaneConfig{Lanes: lanes, Keepalive: c.keepalive})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("keepalive over lane %d (-want +got):\n%s", c.keepalive, diff)
		}
	}

	v := newTarget(t)
	ep, old := v.ep, v.ep.lanes[0]
	defer old.uct.Close()
	asked := make([]askedEndpoint, 3)
	ep.lanes = nil
	for i := range asked {
		ep.lanes = append(ep.lanes, lane{iface: old.iface, uct: &asked[i]})
	}
	cfg := *ep.cfg
	cfg.lanes.checked = []uint8{0, 2}
	ep.cfg = &cfg
	ep.keepalive()
	if asked[0].asked != 1 || asked[1].asked != 0 || asked[2].asked != 1 {
		t.Errorf("the lanes were asked %d, %d and %d times", asked[0].asked, asked[1].asked, asked[2].asked)
	}
}
