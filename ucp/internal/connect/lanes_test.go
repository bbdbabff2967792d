package connect

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// drawAddress draws an address with a few entries. Transport endpoints have numbers that may occur
// twice or be out of range, and addresses of one byte, which may be empty.
func drawAddress(t *rapid.T) *proto.WorkerAddress {
	a := new(proto.WorkerAddress)
	for range rapid.IntRange(0, 3).Draw(t, "devices") {
		d := proto.AddressDevice{Addr: []byte{rapid.ByteRange(0, 1).Draw(t, "device")}}
		for range rapid.IntRange(0, 2).Draw(t, "interfaces") {
			f := proto.AddressIface{
				Transport: proto.TransportID(rapid.IntRange(1, 2).Draw(t, "transport")),
				Addr:      []byte{rapid.ByteRange(0, 1).Draw(t, "interface")},
			}
			for range rapid.IntRange(0, 3).Draw(t, "endpoints") {
				e := proto.AddressEp{Lane: rapid.SampledFrom([]uint8{0, 1, 2, 3, 4, 5, proto.MaxLanes - 1, proto.MaxLanes, 255}).Draw(t, "number")}
				if rapid.IntRange(0, 9).Draw(t, "has an address") > 0 {
					e.Addr = []byte{rapid.ByteRange(0, 9).Draw(t, "endpoint")}
				}
				f.EpAddrs = append(f.EpAddrs, e)
			}
			d.Ifaces = append(d.Ifaces, f)
		}
		a.Devices = append(a.Devices, d)
	}
	return a
}

// entries lists the interfaces of an address with their devices, in their order.
func entries(a *proto.WorkerAddress) (list []Target) {
	for k := range a.Devices {
		for i := range a.Devices[k].Ifaces {
			list = append(list, Target{Device: &a.Devices[k], Iface: &a.Devices[k].Ifaces[i]})
		}
	}
	return list
}

// drawLanes draws some lanes and what those that are connected lead to, one byte of the address of a
// transport endpoint.
func drawLanes(t *rapid.T, a *proto.WorkerAddress) (l Lanes, leads map[int]byte) {
	const lanes = 6
	var paired, kept uint64
	leads = make(map[int]byte)
	list := make([]uint8, lanes)
	for k := range list {
		list[k] = uint8(rapid.IntRange(0, max(len(entries(a)), 1)).Draw(t, "entry")) // the last is none
		if rapid.Bool().Draw(t, "pairwise") {
			paired |= 1 << k
		}
		if rapid.IntRange(0, 2).Draw(t, "connected") == 0 {
			kept |= 1 << k
			leads[k] = rapid.ByteRange(0, 9).Draw(t, "leads to")
		}
	}
	l.Choose(paired, kept, list)
	return l, leads
}

// leadsTo is the LeadsTo of lanes that lead to these bytes.
func leadsTo(leads map[int]byte) LeadsTo {
	return func(lane int, _ *proto.AddressDevice, _ *proto.AddressIface, end []byte) bool {
		b, ok := leads[lane]
		return ok && len(end) == 1 && end[0] == b
	}
}

// TestChoose: lanes that are connected are those that are both pairwise and existed.
func TestChoose(t *testing.T) {
	l := Lanes{Paired: 1, Joined: 1, Kept: 1, Entries: []uint8{9}}
	l.Choose(0b0110, 0b1010, []uint8{3, 2, 1, 0})
	want := Lanes{Paired: 0b0110, Joined: 0b0010, Kept: 0b0010, Entries: []uint8{3, 2, 1, 0}}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("chosen (-want +got):\n%s", diff)
	}
	if got := slices.Collect(l.Unjoined()); !slices.Equal(got, []int{2}) {
		t.Errorf("not connected: %v", got)
	}
	l.Join(2)
	if got := slices.Collect(l.Unjoined()); got != nil || l.Joined != 0b0110 || l.Kept != 0b0010 {
		t.Errorf("not connected: %v, %+v", got, l)
	}
	l.Agreed()
	if l.Kept != 0 || l.Joined != 0b0110 || l.Paired != 0b0110 {
		t.Errorf("agreed: %+v", l)
	}
	for k := range uint8(4) {
		if l.Has(k) != (k == 1 || k == 2) {
			t.Errorf("lane %d is pairwise: %t", k, l.Has(k))
		}
	}
	if l.Has(AuxLane) || l.Has(proto.NullLane) {
		t.Error("a lane that is none is pairwise")
	}
	l.Choose(^uint64(0), 0, nil)
	for k := range l.Unjoined() {
		if k > 3 {
			t.Fatal("goes on after the end")
		}
		if k == 3 {
			break
		}
	}
}

// naiveMatch assigns transport endpoints as the package comment says.
func naiveMatch(l *Lanes, a *proto.WorkerAddress, leads map[int]byte) (map[int]uint8, int) {
	numbers, used := make(map[int]uint8), make(map[uint8]bool)
	list := entries(a)
	for _, connected := range []bool{true, false} {
		for k := range len(l.Entries) {
			if l.Paired>>k&1 == 0 || (l.Joined>>k&1 == 1) != connected {
				continue
			}
			found := false
			if int(l.Entries[k]) < len(list) {
				for _, e := range list[l.Entries[k]].Iface.EpAddrs {
					fits := !connected || len(e.Addr) == 1 && e.Addr[0] == leads[k]
					if !found && fits && e.Lane < proto.MaxLanes && !used[e.Lane] {
						numbers[k], used[e.Lane], found = e.Lane, true, true
					}
				}
			}
			if !found {
				return nil, k
			}
		}
	}
	return numbers, -1
}

// TestMatch compares Match with a naive one. TestMatchOrder has several lanes for certain.
func TestMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAddress(t)
		l, leads := drawLanes(t, a)
		was := l
		numbers, err := l.Match(a, leadsTo(leads))
		want, missing := naiveMatch(&l, a, leads)
		if missing >= 0 {
			e := (*LaneError)(nil)
			if !errors.As(err, &e) || e.Lane != missing || !errors.Is(err, ucs.ErrUnreachable) {
				t.Fatalf("%v, want an error for lane %d", err, missing)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for k, n := range numbers {
			if w, ok := want[k]; n != w || !ok && n != 0 {
				t.Fatalf("lane %d has number %d, want %d", k, n, w)
			}
		}
		if diff := cmp.Diff(was, l); diff != "" {
			t.Fatalf("the lanes have changed:\n%s", diff)
		}
	})
}

// TestMatchOrder: a connected lane keeps its endpoint even if a lane before it could use it.
func TestMatchOrder(t *testing.T) {
	a := &proto.WorkerAddress{Devices: []proto.AddressDevice{{Ifaces: []proto.AddressIface{{EpAddrs: []proto.AddressEp{
		{Lane: 7, Addr: []byte{1}}, {Lane: 5, Addr: []byte{2}}, {Lane: 6, Addr: []byte{3}},
	}}}}}}
	var l Lanes
	l.Choose(0b111, 0b100, []uint8{0, 0, 0})
	numbers, err := l.Match(a, leadsTo(map[int]byte{2: 1}))
	if err != nil || numbers[0] != 5 || numbers[1] != 6 || numbers[2] != 7 {
		t.Errorf("%v, %v", numbers[:3], err)
	}
}

// TestMatchNumbers: numbers that no lane can have are not used.
func TestMatchNumbers(t *testing.T) {
	for number, usable := range map[uint8]bool{0: true, proto.MaxLanes - 1: true, proto.MaxLanes: false, 255: false} {
		a := &proto.WorkerAddress{Devices: []proto.AddressDevice{{Ifaces: []proto.AddressIface{{EpAddrs: []proto.AddressEp{
			{Lane: number, Addr: []byte{1}}, {Lane: 5, Addr: []byte{2}},
		}}}}}}
		l := Lanes{Paired: 1, Entries: []uint8{0}}
		want := uint8(5)
		if usable {
			want = number
		}
		if numbers, err := l.Match(a, nil); err != nil || numbers[0] != want {
			t.Errorf("number %d: %d, %v", number, numbers[0], err)
		}
	}
}

// TestTarget compares Target with a naive one: the endpoint is the first with the number, and is
// refused if it is not at the entry of the lane.
func TestTarget(t *testing.T) {
	const lane = 1
	found := make(map[string]int)
	property := func(t *rapid.T) {
		addr, chosen := drawAddress(t), drawAddress(t)
		if rapid.Bool().Draw(t, "the same address") {
			chosen = addr
		}
		number := uint8(rapid.IntRange(0, 5).Draw(t, "number"))
		l := Lanes{Paired: 1 << lane, Entries: []uint8{0, uint8(rapid.IntRange(0, 4).Draw(t, "entry"))}}
		var want *Target
		for _, e := range entries(addr) {
			k := slices.IndexFunc(e.Iface.EpAddrs, func(e proto.AddressEp) bool { return e.Lane == number })
			if want == nil && k >= 0 && e.Iface.EpAddrs[k].Addr != nil {
				want = &Target{e.Device, e.Iface, e.Iface.EpAddrs[k].Addr}
			}
		}
		check := func(chosen *proto.WorkerAddress) {
			got, err := l.Target(lane, addr, number, chosen)
			status := error(nil)
			switch {
			case want == nil:
				status = ucs.ErrUnreachable
			case chosen == nil:
			default:
				status = ucs.ErrInvalidAddr
				if list, n := entries(chosen), int(l.Entries[lane]); n < len(list) && list[n].Iface.Transport == want.Iface.Transport &&
					cmp.Equal(list[n].Device.Addr, want.Device.Addr) && cmp.Equal(list[n].Iface.Addr, want.Iface.Addr) {
					status = nil
				}
			}
			found[fmt.Sprint(status, chosen == nil)]++
			e := (*LaneError)(nil)
			if !errors.Is(err, status) || status != nil && (!errors.As(err, &e) || e.Lane != lane) {
				t.Fatalf("%v, want %v", err, status)
			}
			if err == nil && (got.Device != want.Device || got.Iface != want.Iface || &got.Addr[0] != &want.Addr[0]) {
				t.Fatalf("%+v, want %+v", got, *want)
			}
		}
		check(chosen)
		check(nil)
	}
	for range 50 { // some results are rare
		if rapid.Check(t, property); len(found) == 5 {
			break
		}
	}
	if len(found) != 5 {
		t.Errorf("of five results only these: %v", found)
	}
}

// TestElsewhere: an endpoint at another transport, device or interface than its lane is refused.
func TestElsewhere(t *testing.T) {
	address := func(transport proto.TransportID, dev, iface byte) *proto.WorkerAddress {
		return &proto.WorkerAddress{Devices: []proto.AddressDevice{{Addr: []byte{dev}, Ifaces: []proto.AddressIface{
			{Transport: transport, Addr: []byte{iface}, EpAddrs: []proto.AddressEp{{Lane: 3, Addr: []byte{1}}}},
		}}}}
	}
	l := Lanes{Paired: 1, Entries: []uint8{0}}
	for name, x := range map[string]struct {
		addr *proto.WorkerAddress
		want error
	}{
		"the same":          {address(1, 2, 3), nil},
		"another transport": {address(9, 2, 3), ucs.ErrInvalidAddr},
		"another device":    {address(1, 9, 3), ucs.ErrInvalidAddr},
		"another interface": {address(1, 2, 9), ucs.ErrInvalidAddr},
	} {
		if _, err := l.Target(0, x.addr, 3, address(1, 2, 3)); !errors.Is(err, x.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := l.Target(0, x.addr, 3, nil); err != nil {
			t.Errorf("%s, by a connection manager: %v", name, err)
		}
	}
	l.Entries[0] = 1
	if _, err := l.Target(0, address(1, 2, 3), 3, address(1, 2, 3)); !errors.Is(err, ucs.ErrInvalidAddr) {
		t.Errorf("an entry that the address does not have: %v", err)
	}
}

// TestEntryOf compares EntryOf and Free with naive ones.
func TestEntryOf(t *testing.T) {
	some := 0
	property := func(t *rapid.T) {
		a := drawAddress(t)
		leads := make(map[int]byte)
		for k := range 3 {
			leads[k] = rapid.ByteRange(0, 9).Draw(t, "leads to")
		}
		list := entries(a)
		at := func(n int, lane int) bool {
			return slices.ContainsFunc(list[n].Iface.EpAddrs, func(e proto.AddressEp) bool { return len(e.Addr) == 1 && e.Addr[0] == leads[lane] })
		}
		for lane := range leads {
			want := -1
			for n := range list {
				if want < 0 && at(n, lane) {
					want = n
				}
			}
			if got := EntryOf(a, lane, leadsTo(leads)); got != want {
				t.Fatalf("lane %d leads to entry %d, want %d", lane, got, want)
			}
			if want > 0 {
				some++
			}
		}
		lanes := func(yield func(int) bool) { _ = yield(0) && yield(2) }
		for n := -1; n <= len(list); n++ {
			want := 0
			if n >= 0 && n < len(list) {
				for _, e := range list[n].Iface.EpAddrs {
					if len(e.Addr) != 1 || e.Addr[0] != leads[0] && e.Addr[0] != leads[2] {
						want++
					}
				}
			}
			if got := Free(a, n, lanes, leadsTo(leads)); got != want {
				t.Fatalf("entry %d has %d free endpoints, want %d", n, got, want)
			}
		}
	}
	for range 50 { // later entries are rare
		if rapid.Check(t, property); some > 0 {
			break
		}
	}
	if some == 0 {
		t.Error("no lane leads to a later entry")
	}
}

// TestCarrier: the lane of a wireup message in all cases.
func TestCarrier(t *testing.T) {
	const usual = 2
	for _, x := range []struct {
		name              string
		paired, kept      uint64
		ack, aux, managed bool
		want              uint8
	}{
		{name: "no pairwise lanes", want: usual},
		{name: "the usual lane is not pairwise", paired: 0b001, aux: true, want: usual},
		{name: "the usual lane is pairwise", paired: 0b100, aux: true, want: AuxLane},
		{name: "the same, after the handshake", paired: 0b100, want: usual},
		{name: "an acknowledgement", paired: 0b100, aux: true, ack: true, want: usual},
		{name: "an acknowledgement over new lanes", paired: 0b101, kept: 0b001, ack: true, want: usual},
		{name: "the lane of a connection manager was replaced", paired: 0b001, aux: true, managed: true, want: AuxLane},
		{name: "the same for an acknowledgement", paired: 0b001, aux: true, managed: true, ack: true, want: usual},
		{name: "other lanes were kept", paired: 0b1111, kept: 0b1010, managed: true, want: 1},
		{name: "the usual lane was kept", paired: 0b1111, kept: 0b1110, managed: true, want: usual},
		{name: "none was kept", paired: 0b1111, managed: true, want: usual},
	} {
		l := Lanes{Paired: x.paired, Joined: x.kept, Kept: x.kept}
		if got := l.Carrier(usual, x.ack, x.aux, x.managed); got != x.want {
			t.Errorf("%s: lane %d, want %d", x.name, got, x.want)
		}
	}
	l := Lanes{Paired: 1, Kept: 1}
	if got := l.Carrier(proto.NullLane, false, false, true); got != 0 {
		t.Errorf("without a usual lane: %d", got)
	}
}

// TestLaneErrors: the texts name the lane.
func TestLaneErrors(t *testing.T) {
	for err, want := range map[error]string{
		errNoEndpoint(3): "ucp: the peer has no endpoint for lane %s: destination is unreachable",
		errNotMade(3):    "ucp: the peer has made no endpoint for lane %s: destination is unreachable",
		errElsewhere(3):  "ucp: the peer's endpoint for lane %s is at another interface: address not valid",
	} {
		if got := err.Error(); got != fmt.Sprintf(want, "3") {
			t.Errorf("%q", got)
		}
		err.(*LaneError).Name = "tcp/lo"
		if got := err.Error(); got != fmt.Sprintf(want, "tcp/lo") {
			t.Errorf("%q", got)
		}
	}
}
