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

// still is a component over a device that works only when the benchmark lets it. The benchmark
// measures the library without the work that the device would do in the call that rings its
// doorbell, or in a round of progress. The doorbell itself costs next to nothing.
type still struct {
	uct.Component
	net *verbstest.Fabric
	let bool // it works in each round of a worker
}

// stillDevice is registered by the first benchmark that needs it, so that tests do not see it.
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
	return &stillDomain{MemoryDomain: md, of: s}, nil
}

type stillDomain struct {
	uct.NoDeviceMemory
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

// RkeyValue implements uct.DeviceMemory, which the wrapped domain does.
func (d *stillDomain) RkeyValue(packed []byte) (uint64, error) {
	return d.MemoryDomain.(uct.DeviceMemory).RkeyValue(packed)
}

// Progress implements uct.Progressor.
func (s *still) Progress() int {
	if s.let {
		s.net.Progress()
	}
	return 0
}

// Arm implements uct.Progressor.
func (s *still) Arm(uct.EventFlags) error { return nil }

// Push implements uct.Service.
func (s *still) Push() {}

// Close implements uct.Service.
func (s *still) Close() error { return nil }

// onStill opens a connected pair of workers over that device, with long queues.
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

// BenchmarkPost measures how long it takes to send a short message over an RDMA device, up to the
// doorbell and without the device.
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
			// deliver lets the device deliver all messages that were sent.
			deliver := func() {
				device.let = true
				for n := sent - got; n > 0; n-- {
					req, err := to.TagRecv(1, ucp.FullMask, dst, params)
					if err != nil {
						b.Fatal(err)
					}
					if req == nil {
						got++ // it had arrived before
					}
				}
				r.until("messages", func() bool { return got == sent })
				for range 10 { // for acknowledgements
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
				b.StopTimer() // a queue or window is full
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

// BenchmarkIdle measures a round of a worker with idle interfaces of RDMA devices.
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
