//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// removedDevice is a component whose device is removed; each test adds a new one.
type removedDevice struct{ uct.Component }

var doomedRDMA = &removedDevice{ibtest.Network("doomed", verbstest.NewFabric())}

func init() { uct.Register(doomedRDMA) }

// TestDeviceRemoved removes the device of two workers during an exchange. The operations of their
// endpoints end, the error handlers are called, and the workers go on, with new endpoints over the
// remaining network.
func TestDeviceRemoved(t *testing.T) {
	for _, tls := range []string{"rc_v,tcp", "ud_v,tcp"} {
		t.Run(tls, func(t *testing.T) {
			n := verbstest.NewFabric()
			device := n.Add(verbstest.Config{Name: "doomed0"})
			none := doomedRDMA.Component
			doomedRDMA.Component = ibtest.Network("doomed", n)
			defer func() { doomedRDMA.Component = none }()
			tr := onFabric("doomed", tls)
			tr.settings = append(tr.settings, setting{"NET_DEVICES", "doomed0:1,lo"})
			r := newRig(t, tr)
			a, b := r.pair()
			var lost, lostBack failure
			there := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: lost.onError})
			back := b.connectWith(a, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: lostBack.onError})
			r.sendAndTake(there, b, 1, message(1))
			r.sendAndTake(back, a, 1, message(1))
			if d := there.Attr().Transports[0].Device; d != "doomed0:1" {
				t.Fatalf("goes over %s", d)
			}
			var sync, rndv outcome
			offered := r.started(there.TagSendSync(2, message(2), &ucp.RequestParams{OnSend: sync.onSend}))
			large := r.started(there.TagSend(2, make([]byte, 1<<22), &ucp.RequestParams{OnSend: rndv.onSend, Flags: ucp.OpNoImmediate}))
			device.Remove()
			r.until("both to be told", func() bool { return lost.calls > 0 && lostBack.calls > 0 })
			for what, req := range map[string]*ucp.Request{"a synchronous message": offered, "a rendezvous": large} {
				if err := r.finish(req, nil); err == nil {
					t.Errorf("%s: success", what)
				}
			}
			sync.once(t)
			rndv.once(t)
			if lost.calls != 1 || lostBack.calls != 1 || ucs.StatusOf(there.Err()) == ucs.OK {
				t.Errorf("told %d and %d times, %v", lost.calls, lostBack.calls, there.Err())
			}
			r.must(there.CloseAsync(force))
			r.must(back.CloseAsync(force))
			// The remaining network leads to the peer, too.
			again := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
			for k := range uint64(3) {
				r.sendAndTake(again, b, 3, ucttest.Pattern(1000<<(4*k), k))
			}
			if l := again.Attr().Transports[0]; l.Name != "tcp" {
				t.Errorf("goes over %+v", l)
			}
		})
	}
}
