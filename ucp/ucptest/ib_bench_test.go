//go:build linux

package ucptest

import (
	"sync"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// still is a component over a device that does nothing but when it is let: what the library
// does is measured without what the device would do in the call that rings its bell, or in
// a round of progress. The bell itself costs next to nothing.
type still struct {
	uct.Component
	net *verbstest.Fabric
	let bool // it works, in each round of a worker
}

// stillDevice is there from the first benchmark on that wants it: tests shall not find it.
var stillDevice = sync.OnceValue(func() *still {
	n := verbstest.NewFabric()
	n.Add(verbstest.Config{Name: "still0"})
	n.SetWork(verbstest.InStep)
	s := &still{ibtest.Named("still", n.Devices()...), n, true}
	uct.Register(s)
	return s
})

// OpenMD implements uct.Component.
func (s *still) OpenMD(name string, cfg *config.Set) (uct.MemoryDomain, error) {
	md, err := s.Component.OpenMD(name, cfg)
	if err != nil {
		return nil, err
	}
	return &stillDomain{md, s}, nil
}

type stillDomain struct {
	uct.MemoryDomain
	of *still
}

// OpenIface implements uct.MemoryDomain.
func (d *stillDomain) OpenIface(w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	i, err := d.MemoryDomain.OpenIface(w, p, cfg)
	if err == nil {
		_, err = w.Service("still", func() (uct.Service, error) { return d.of, nil })
	}
	return i, err
}

// RkeyValue implements uct.ValueKeys, which the domain is.
func (d *stillDomain) RkeyValue(packed []byte) (uint64, error) {
	return d.MemoryDomain.(uct.ValueKeys).RkeyValue(packed)
}

// Progress implements uct.Progressor.
func (s *still) Progress() int {
	if s.let {
		s.net.Progress()
	}
	return 0
}

// Close implements uct.Service.
func (s *still) Close() error { return nil }

// onStill is a connected pair of workers over that device, with long queues.
func onStill(b *testing.B, tls string) (r *rig, from, to *side, ep *ucp.Endpoint) {
	device := stillDevice()
	device.let = true
	tr := transport{name: "still " + tls, busy: true, silent: true, settings: []setting{
		{"TLS", tls}, {"NET_DEVICES", "still0:1"},
		{"RC_VERBS_TX_QUEUE_LEN", "4096"}, {"RC_VERBS_TX_CQ_LEN", "16384"}, {"RC_VERBS_FC_ENABLE", "n"},
		{"UD_VERBS_TX_QUEUE_LEN", "4096"},
	}}
	r = newRig(b, tr)
	from, to = r.pair()
	ep = from.connect(to)
	r.warm(ep, to)
	r.settle()
	return r, from, to, ep
}

// BenchmarkPost is the sending of a short message over an RDMA device: until the bell has
// been rung, without the device.
func BenchmarkPost(b *testing.B) {
	for _, tls := range []string{"rc_v", "ud_v"} {
		b.Run(tls, func(b *testing.B) {
			r, _, to, ep := onStill(b, tls)
			device := stillDevice()
			src, dst := make([]byte, 8), make([]byte, 8)
			sent, got := 0, 0
			params := &ucp.RequestParams{OnTagRecv: func(req *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
				if got++; err != nil {
					b.Error(err)
				}
				req.Free()
			}}
			// deliver has the messages that were sent arrive.
			deliver := func() {
				device.let = true
				for n := sent - got; n > 0; n-- {
					req, err := to.TagRecv(1, ucp.FullMask, dst, params)
					if err != nil {
						b.Fatal(err)
					}
					if req == nil {
						got++ // it was here already
					}
				}
				r.until("messages", func() bool { return got == sent })
				for range 10 { // acknowledgements
					r.progress()
				}
				device.let = false
			}
			b.ReportAllocs()
			for b.Loop() {
				req, err := ep.TagSend(1, src, nil)
				if err != nil {
					b.Fatal(err)
				}
				if sent++; req == nil {
					continue
				}
				b.StopTimer() // the queue is full, or a window is
				deliver()
				req.Free()
				b.StartTimer()
			}
			b.StopTimer()
			deliver()
			device.let = true
		})
	}
}

// BenchmarkIdle is a round of a worker with interfaces of RDMA devices that have nothing to
// do.
func BenchmarkIdle(b *testing.B) {
	for _, tls := range []string{"rc_v", "ud_v"} {
		b.Run(tls, func(b *testing.B) {
			_, from, _, _ := onStill(b, tls)
			stillDevice().let = false
			defer func() { stillDevice().let = true }()
			b.ReportAllocs()
			for b.Loop() {
				from.Progress()
			}
		})
	}
}
