package proto

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/uct"
)

const none = NullLane

// TestLaneMap checks that each purpose has the lane of the selection, and that a purpose without a
// lane uses the lane for messages.
func TestLaneMap(t *testing.T) {
	for _, c := range []struct {
		name   string
		chosen LaneConfig
		want   LaneMap
	}{
		{"one lane",
			LaneConfig{AM: 0, Wireup: 0, Keepalive: none, RMABW: []uint8{0}},
			LaneMap{AM: 0, Wireup: 0, Keepalive: none, RMA: []uint8{0}, AMO: []uint8{0}, Bandwidth: []uint8{0}}},
		{"nothing but messages",
			LaneConfig{AM: 2, Wireup: none, Keepalive: none},
			LaneMap{AM: 2, Wireup: 2, Keepalive: none, RMA: []uint8{2}, AMO: []uint8{2}, Bandwidth: []uint8{2}}},
		{"a lane for each",
			LaneConfig{AM: 2, Wireup: 0, Keepalive: 5, RMA: []uint8{0, 6}, AMO: []uint8{1}, RMABW: []uint8{3, 4}},
			LaneMap{AM: 2, Wireup: 0, Keepalive: 5, RMA: []uint8{0, 6}, AMO: []uint8{1}, Bandwidth: []uint8{3, 4}}},
		{"messages behind the others",
			LaneConfig{AM: 1, Wireup: 1, Keepalive: 1, RMA: []uint8{0}, RMABW: []uint8{1, 0}},
			LaneMap{AM: 1, Wireup: 1, Keepalive: 1, RMA: []uint8{0}, AMO: []uint8{1}, Bandwidth: []uint8{1, 0}}},
	} {
		got := NewLaneMap(&c.chosen)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestWireupLanes checks which lane each wireup message uses.
func TestWireupLanes(t *testing.T) {
	m := LaneMap{AM: 1, Wireup: 2, Keepalive: 3}
	without := LaneMap{AM: 1, Wireup: 2, Keepalive: none}
	for _, c := range []struct {
		t    WireupType
		m    *LaneMap
		want uint8
	}{
		{WireupRequest, &m, 2},
		{WireupReply, &m, 2},
		{WireupReplyReconfig, &m, 2},
		{WireupEpRemoved, &m, 2},
		{WireupAck, &m, 1},
		{WireupEpCheck, &m, 3},
		{WireupEpCheck, &without, 2},
	} {
		if got := c.m.WireupLane(c.t); got != c.want {
			t.Errorf("type %d goes over lane %d, want %d", c.t, got, c.want)
		}
	}
}

// TestRestrictedLanes checks that a lane is used only for the operations that it was selected for.
func TestRestrictedLanes(t *testing.T) {
	m := LaneMap{RMA: []uint8{0}, AMO: []uint8{1}, Bandwidth: []uint8{2}}
	all := RMALane{
		PutShort: 1, PutBcopy: 2, PutZcopy: 3, GetBcopy: 4, GetZcopy: 5,
		MinPutZcopy: 6, MinGetZcopy: 7, Atomic32: true, Atomic64: true,
	}
	for lane, want := range []RMALane{
		{PutShort: 1, PutBcopy: 2, PutZcopy: 3, GetBcopy: 4, GetZcopy: 5, MinPutZcopy: 6, MinGetZcopy: 7},
		{Atomic32: true, Atomic64: true, MinPutZcopy: 6, MinGetZcopy: 7},
		{PutZcopy: 3, GetZcopy: 5, MinPutZcopy: 6, MinGetZcopy: 7, Wide: true},
		{MinPutZcopy: 6, MinGetZcopy: 7},
	} {
		got := all
		m.Restrict(uint8(lane), &got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lane %d (-want +got):\n%s", lane, diff)
		}
	}
}

// TestCheckedLanes checks which lanes the keepalive asks: of the transports that do not watch the
// peer by themselves, those in shared memory, and the keepalive lane, or all if there is none.
func TestCheckedLanes(t *testing.T) {
	var local []LocalIface
	var lanes []Lane
	for i, a := range []uct.IfaceAttr{
		{Flags: uct.IfaceEpCheck, Resource: uct.Resource{Type: uct.DeviceShared}},
		{Flags: 0, Resource: uct.Resource{Type: uct.DeviceShared}},
		{Flags: uct.IfaceEpCheck | uct.IfaceEpKeepalive, Resource: uct.Resource{Type: uct.DeviceNetwork}},
		{Flags: uct.IfaceEpCheck, Resource: uct.Resource{Type: uct.DeviceNetwork}},
		{Flags: uct.IfaceEpCheck, Resource: uct.Resource{Type: uct.DeviceNetwork}},
	} {
		local = append(local, LocalIface{Attr: a})
		lanes = append(lanes, Lane{Local: i})
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
		got := (&LaneConfig{Lanes: lanes, Keepalive: c.keepalive}).CheckedLanes(local)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("keepalive over lane %d (-want +got):\n%s", c.keepalive, diff)
		}
	}
}
