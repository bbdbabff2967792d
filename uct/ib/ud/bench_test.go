//go:build linux

package ud_test

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// quick returns two hosts with a connection whose window is fully open, over devices that work only
// in steps, so that their work is not measured.
func quick(b *testing.B) (x, y *ucttest.Host, ep uct.Endpoint) {
	net := network(b, verbstest.Config{})
	f := ucttest.Fixture{Component: net.Slow(1 << 20), Transport: "ud_verbs", Config: settings(b, "UD_VERBS_TX_QUEUE_LEN", "4096")}
	x, y = f.Pair(b)
	ep = x.Connect(b, y)
	y.Handle(b, 1, func(*uct.Source, []byte, *uct.AMDesc) error { return nil })
	for range 20000 {
		ucttest.Accept(b, func() error { return ep.AMShort(1, 2, nil, 0, nil) }, x, y)
	}
	ucttest.Settle(x, y)
	return x, y, ep
}

// BenchmarkShort posts short messages, without the system call of the doorbell and without the work
// of the devices.
func BenchmarkShort(b *testing.B) {
	x, y, ep := quick(b)
	rigtest.PostShort(b, x, y, ep)
}

// BenchmarkRate sends and receives short messages, including the work of the devices.
func BenchmarkRate(b *testing.B) {
	net := network(b, verbstest.Config{})
	f := ucttest.Fixture{Component: fixture(b, net).Component, Transport: "ud_verbs"}
	x, y := f.Pair(b)
	ep := x.Connect(b, y)
	got := 0
	y.Handle(b, 1, func(*uct.Source, []byte, *uct.AMDesc) error { got++; return nil })
	payload := make([]byte, 8)
	b.ReportAllocs()
	for range b.N {
		for ep.AMShort(1, 2, payload, 0, nil) == ucs.ErrNoResource {
			y.Worker.Progress()
			x.Worker.Progress()
		}
	}
	for got < b.N {
		y.Worker.Progress()
		x.Worker.Progress()
	}
}

// BenchmarkIdle measures a progress round of an idle interface.
func BenchmarkIdle(b *testing.B) {
	f := ucttest.Fixture{Component: fixture(b, network(b, verbstest.Config{})).Component, Transport: "ud_verbs"}
	x, y := f.Pair(b)
	x.Connect(b, y)
	ucttest.Settle(x, y)
	p := x.Iface.(uct.Progressor)
	b.ResetTimer()
	for range b.N {
		p.Progress()
	}
}
