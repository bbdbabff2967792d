package proto

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestLaneCache checks that a cache returns the lanes that a new selection would return, whatever
// has changed since the last one.
func TestLaneCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawLaneInput(t)
		closed := rapid.IntRange(0, 255).Draw(t, "unreachable") // bits, by number modulo 8
		in.Reachable = func(local int, _ *AddressDevice, f *AddressIface) error {
			if closed>>((local+in.Remote.index(f))%8)&1 != 0 {
				return errors.New("not from here")
			}
			return nil
		}
		var c LaneCache
		same := func() {
			t.Helper()
			got, digest, err := c.Select(in)
			want, trace, failed := SelectLanes(in)
			if (err == nil) != (failed == nil) {
				t.Fatalf("%v, want %v", err, failed)
			}
			if err == nil && (!reflect.DeepEqual(got, want) || digest != trace.Digest()) {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
		same()
		same()
		for range 4 {
			other := in.Remote.Clone()
			in.Remote = other
			d, f := other.Entry(rapid.IntRange(0, 8).Draw(t, "entry"))
			switch what := rapid.IntRange(0, 14).Draw(t, "what"); {
			case what == 0:
				closed ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			case what == 1:
				in.ErrMode ^= 1
			case what == 2:
				in.NumEndpoints++
			case what == 3:
				in.Features ^= FeatureRMA
			case what == 4:
				in.Keepalive = !in.Keepalive
			case what == 5:
				other.Version ^= 1
			case what == 6:
				in.Limits = LaneLimits{Total: 1}
			case what == 7:
				in.RndvScheme ^= 1
			case what == 14:
				other.Release ^= 22
			case f == nil:
			case what == 8:
				d.MD++
			case what == 9:
				d.SysDev++
			case what == 10:
				d.NumPaths++
			case what == 11:
				f.Transport ^= 1
			case what == 12:
				f.Attr.Priority++
			default:
				f.Addr = append(f.Addr, 1)
			}
			same()
			same()
		}
	})
}

// TestLaneCacheHits checks that peers share a selection if only their addresses differ, that other
// peers do not, and that long addresses are not cached.
func TestLaneCacheHits(t *testing.T) {
	in := laneInput(capturedAddress(t, "1.22.0", "tcp", "lo", "v1"))
	in.Reachable = func(int, *AddressDevice, *AddressIface) error { return nil }
	var c LaneCache
	if _, _, err := c.Select(in); err != nil {
		t.Fatal(err)
	}
	in.Remote = in.Remote.Clone()
	in.Remote.UUID++
	in.Remote.Devices[0].Ifaces[0].Addr = []byte{1, 2}
	if !c.holds(in) {
		t.Error("the same peer at another port is not known")
	}
	if n := testing.AllocsPerRun(100, func() { c.Select(in) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	in.Remote.Devices[0].Ifaces[0].Attr.Latency *= 2
	if c.holds(in) {
		t.Error("a slower peer is not noticed")
	}
	for len(in.Remote.Devices) <= maxCached {
		in.Remote.Devices = append(in.Remote.Devices, in.Remote.Devices[0])
	}
	if _, _, err := c.Select(in); err != nil || c.filled || c.asked != nil {
		t.Errorf("a long address is kept: %v", err)
	}
}
