//go:build linux

package tcp

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/uct"
)

// TestFlat: clients that connected and left leave no state that grows with their number.
func TestFlat(t *testing.T) {
	needtest.Goroutines(t)
	h := newHost(t, "")
	n := 3 * maxIdleNumbers
	if testing.Short() {
		n = maxIdleNumbers + 500
	}
	for k := range n {
		ip := fmt.Sprintf("10.%d.%d.%d", k>>16, k>>8&255, k&255)
		p := enter(t, h, ip, 0)
		from := addr(ip + ":5")
		dev := deviceAddr{ip: from.addrPort().Addr()}
		ep, err := h.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: dev.pack(), IfaceAddr: []byte{0, 5}, ForPeer: k%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		p.want(req(h.iface.addr, 0))
		p.send(ack)
		until(t, "connect", connected(ep.(*endpoint)), h)
		ep.Close()
		p.want(fin)
		p.send(fin)
		p.wantClosed()
		p.close()
	}
	i := h.iface
	for name, size := range map[string]int{
		"connections": h.conns(), "endpoints": len(i.endpoints), "keys": len(i.keys), "matches": len(i.match.entries),
		"kept aside": len(i.match.aside), "guests": i.svc.guests.n(), "accounts": len(ledger.Accounts()),
		"numbers": max(len(i.match.numbers.byPeer)-maxIdleNumbers, 0),
	} {
		if size != 0 {
			t.Errorf("%d %s are left", size, name)
		}
	}
}

// TestNumbers: the endpoint numbers of a listener continue where a peer may still rely on them.
func TestNumbers(t *testing.T) {
	var b numberBook
	peer := func(k int) sockaddr { return addr(fmt.Sprintf("10.0.%d.%d:7", k>>8, k&255)) }
	busy, idle := peer(0), peer(1)
	alive := b.hold(busy)
	alive.take()
	again := b.hold(idle)
	again.take()
	b.drop(again)
	b.drop(b.hold(peer(2))) // gave out no number
	if len(b.byPeer) != 2 || b.idle != 1 {
		t.Fatalf("%d listeners, %d idle", len(b.byPeer), b.idle)
	}
	if n := b.hold(idle); n.take() != 1 {
		t.Error("the numbers of a listener began anew")
	} else {
		b.drop(n)
	}
	for k := 10; k < 10+maxIdleNumbers+100; k++ {
		n := b.hold(peer(k))
		n.take()
		b.drop(n)
	}
	if len(b.byPeer) != maxIdleNumbers+1 || b.idle != maxIdleNumbers {
		t.Errorf("%d listeners, %d idle", len(b.byPeer), b.idle)
	}
	if b.hold(busy).take() != 1 {
		t.Error("the numbers of a listener with something alive were forgotten")
	}
	if b.hold(idle).take() != 0 {
		t.Error("the longest idle was not forgotten")
	}
	b.hold(peer(200)) // removes it from the idle list
	if b.idle != maxIdleNumbers-1 {
		t.Errorf("%d idle", b.idle)
	}
}
