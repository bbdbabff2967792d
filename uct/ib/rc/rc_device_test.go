//go:build linux

package rc_test

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func TestDeviceConformance(t *testing.T) { transport.ConformanceDevice(t) }

// TestDeviceAcross sends between two devices: messages of all kinds in both directions at once, far
// more than the window, and puts and gets.
func TestDeviceAcross(t *testing.T) {
	for _, w := range ways[:2] {
		t.Run(w.Name, func(t *testing.T) { testDeviceAcross(t, w.Pairs) })
	}
}

func testDeviceAcross(t *testing.T, pairs []string) {
	ucttest.NoLeaks(t)
	a, b := transport.Across(t, pairs...)
	ab, ba := a.ConnectPair(t, b)
	rigtest.Exchange(t, a, b, ab, ba, 3000)
	mem := b.Expose(t, make([]byte, 1<<20), uct.AccessAll)
	key := a.Key(t, mem)
	rma := ab.(uct.RMA)
	src, dst := ucttest.Pattern(1<<20, 5), make([]byte, 1<<20)
	from, into := a.IOV(t, src), a.IOV(t, dst)
	c := ucttest.NewCompletion(1)
	c.Finish(t, ucttest.Accept(t, func() error { return rma.PutZcopy([]uct.IOV{from}, mem.Addr, key, &c.Completion) }, a, b), a, b)
	ucttest.SameBytes(t, "what was put", mem.Bytes, src)
	c = ucttest.NewCompletion(1)
	c.Finish(t, ucttest.Accept(t, func() error { return rma.GetZcopy([]uct.IOV{into}, mem.Addr, key, &c.Completion) }, a, b), a, b)
	ucttest.SameBytes(t, "what was got", dst, src)
}

// TestDeviceLossy puts and gets much data over a network that loses 5% of the packets. No peer is
// given up.
func TestDeviceLossy(t *testing.T) {
	rigtest.NeedLink(t)
	a, b := transport.Across(t, "RC_VERBS_TIMEOUT", "10ms")
	ep, _ := a.ConnectPair(t, b)
	rma, mem := ep.(uct.RMA), b.Expose(t, make([]byte, 1<<20), uct.AccessAll)
	key := a.Key(t, mem)
	src, dst := ucttest.Pattern(1<<20, 5), make([]byte, 1<<20)
	from, into := a.IOV(t, src), a.IOV(t, dst)
	rigtest.Impair(t, "loss 5%")
	for range 10 {
		clear(dst)
		c := ucttest.NewCompletion(1)
		c.Finish(t, rma.PutZcopy([]uct.IOV{from}, mem.Addr, key, &c.Completion), a, b)
		c = ucttest.NewCompletion(1)
		c.Finish(t, rma.GetZcopy([]uct.IOV{into}, mem.Addr, key, &c.Completion), a, b)
		ucttest.SameBytes(t, "what was put and got", dst, src)
	}
}

// TestDeviceEnds ends endpoints with much in flight, and checks that the device has receive buffers
// afterwards: a queue pair that ends in the middle of a message loses the buffer of it.
func TestDeviceEnds(t *testing.T) {
	ucttest.NoLeaks(t)
	a, b := transport.Across(t, "RC_VERBS_RX_QUEUE_LEN", "64")
	got := b.Collect(t, 1)
	for range 100 {
		ep, back := a.ConnectPair(t, b)
		for range 20 {
			if _, err := ep.AMBcopy(1, &ucttest.Packer{Data: make([]byte, 8000)}, 0, nil); err != nil {
				break
			}
		}
		ep.Close()
		back.Close()
	}
	ucttest.Settle(a, b)
	got.Take()
	ep, _ := a.ConnectPair(t, b)
	for k := range uint64(200) {
		ucttest.Accept(t, func() error { return ep.AMShort(1, k, nil, 0, nil) }, a, b)
	}
	got.Wait(t, 200, a, b)
	free, total := rc.Credits(a.Iface)
	if rc.Limbo(a.Iface) != 0 || free < total/2 {
		t.Errorf("%d of %d credits, %d in limbo", free, total, rc.Limbo(a.Iface))
	}
}

// TestDeviceFailures checks the errors for a peer that is gone and for a forbidden access.
func TestDeviceFailures(t *testing.T) {
	a, b := transport.Across(t, "RC_VERBS_TIMEOUT", "10ms")
	gone, back := a.ConnectPair(t, b)
	bad, _ := a.ConnectPair(t, b)
	back.Close()
	check(t, gone.AMShort(1, 2, nil, 0, nil))
	check(t, bad.(uct.RMA).PutShort([]byte("x"), 4096, &uct.Rkey{Value: 0xffffffff00000001}))
	ucttest.Until(t, "both failures", func() bool {
		gone.Check(nil) // soft-RoCE alone would retry forever
		return len(a.Failures) == 2
	}, a, b)
	if err := a.Failed(gone); !errors.Is(err, ucs.ErrEndpointTimeout) {
		t.Errorf("a peer that is gone: %v", err)
	}
	if err := a.Failed(bad); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("a bad access: %v", err)
	}
}

// TestDeviceLink takes the link down and up: an idle connection survives, and one that sends
// meanwhile fails.
func TestDeviceLink(t *testing.T) {
	rigtest.NeedLink(t)
	a, b := transport.Across(t)
	idle, _ := a.ConnectPair(t, b)
	busy, _ := a.ConnectPair(t, b)
	got := b.Collect(t, 1)
	check(t, idle.AMShort(1, 1, nil, 0, nil))
	got.Wait(t, 1, a, b)
	t.Cleanup(func() { rdmatest.LinkUp(t) })
	rigtest.Shell(t, "ip link set veth0 down")
	check(t, busy.AMShort(1, 2, nil, 0, nil))
	ucttest.Until(t, "the failure of who sends", func() bool { return a.Failed(busy) != nil }, a, b)
	rdmatest.LinkUp(t)
	ucttest.Settle(a, b)
	if err := a.Failed(idle); err != nil {
		t.Errorf("who did not send: %v", err)
	}
	check(t, idle.AMShort(1, 3, nil, 0, nil))
	got.Wait(t, 2, a, b)
}
