package uct

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestNumbersOfC checks numbers that are part of addresses or printed by C's tools: they must be
// those of C (src/uct/api/uct.h, src/uct/api/tl.h of 1.22).
func TestNumbersOfC(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"self", uint64(IfaceAMShort | IfaceAMBcopy | IfacePending | IfacePutShort | IfacePutBcopy |
			IfaceGetBcopy | IfaceAtomicCPU | IfaceEpCheck | IfaceConnectToIface | IfaceCBSync), 0x11804000023b},
		{"tcp", uint64(IfaceAMShort | IfaceAMBcopy | IfaceAMZcopy | IfacePending | IfacePutZcopy |
			IfaceErrHandlePeerFail | IfaceEpCheck | IfaceConnectToIface | IfaceConnectToEP | IfaceCBSync |
			IfaceEpKeepalive | IfaceInterNode), 0x4053c00000004f},
		{"cma", uint64(IfacePending | IfacePutZcopy | IfaceGetZcopy | IfaceErrHandlePeerFail | IfaceEpCheck |
			IfaceConnectToIface), 0x1c000000448},
		{"events of tcp", uint64(EventSendComp | EventRecv | EventFD), 0xb},
		{"events of cma, and a callback", uint64(EventSendComp | EventRecv | EventAsyncCB), 0x13},
		{"domain of self", uint64(MDFlagRegister | MDFlagNeedRkey), 0xa},
		{"domain of posix", uint64(MDFlagAlloc | MDFlagNeedRkey | MDFlagFixed | MDFlagRkeyPtr), 0x69},
		{"tag offload", uint64(IfaceTagEagerShort | IfaceTagEagerBcopy | IfaceTagEagerZcopy | IfaceTagRndvZcopy), 0xf << 50},
		{"cswap", uint64(AtomicCSwap), 5},
		{"loopback", uint64(DeviceSelf), 3},
		{"access", uint64(AccessAll), 0x3e0},
		{"signaled", uint64(SendSignaled), 1},
		{"what SendNow shares with the flags of C for a send", uint64(SendNow & 3), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %#x, C has %#x", c.name, c.got, c.want)
		}
	}
}

func TestStrings(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Resource{Transport: "tcp", Device: "eth0"}.String(), "tcp/eth0"},
		{DeviceNetwork.String(), "network"},
		{DeviceSelf.String(), "loopback"},
		{DeviceType(9).String(), "device type 9"},
		{AtomicCSwap.String(), "cswap"},
		{AtomicOp(9).String(), "atomic op 9"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestPerf(t *testing.T) {
	p := Perf{BandwidthDedicated: 100, BandwidthShared: 60, Latency: Linear{C: 2, M: 0.5}}
	for ppn, want := range map[int]float64{-1: 160, 0: 160, 1: 160, 2: 130, 6: 110} {
		if got := p.Bandwidth(ppn); got != want {
			t.Errorf("bandwidth of one of %d processes is %v, want %v", ppn, got, want)
		}
	}
	if got := p.Latency.At(8); got != 6 {
		t.Errorf("latency with 8 endpoints is %v, want 6", got)
	}
}

func TestIOVLen(t *testing.T) {
	for _, c := range []struct {
		iov  []IOV
		want int
	}{
		{nil, 0},
		{[]IOV{{}}, 0},
		{[]IOV{{Data: make([]byte, 3)}, {}, {Data: make([]byte, 4)}}, 7},
	} {
		if got := IOVLen(c.iov); got != c.want {
			t.Errorf("%d entries have %d bytes, want %d", len(c.iov), got, c.want)
		}
	}
}

// bare is an endpoint without methods of its own.
type bare struct {
	NoAM
	NoRMA
	NoAtomic
}

// TestUnsupported calls a few methods of each kind; ucttest calls all of them for each transport.
func TestUnsupported(t *testing.T) {
	var b bare
	for name, err := range map[string]error{
		"AMShort":      b.AMShort(0, 0, nil, 0, nil),
		"PutShort":     b.PutShort(nil, 0, nil),
		"GetBcopy":     b.GetBcopy(nil, 0, 0, nil, nil),
		"Atomic64Post": b.Atomic64Post(AtomicAdd, 0, 0, nil),
	} {
		if err != ucs.ErrUnsupported {
			t.Errorf("%s: %v", name, err)
		}
	}
}
