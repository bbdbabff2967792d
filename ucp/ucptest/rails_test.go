//go:build linux

package ucptest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// Workers with two devices: transfers over both, and the loss of one.

// using returns the transport over the given devices.
func (tr transport) using(devices string) transport {
	tr.settings = slices.DeleteFunc(slices.Clone(tr.settings), func(s setting) bool { return s.name == "NET_DEVICES" })
	return tr.with(setting{"NET_DEVICES", devices})
}

// TestRails checks that half of a rendezvous goes over each device, for both schemes.
func TestRails(t *testing.T) {
	needtest.Goroutines(t)
	net := frailNet.renew(t, "frail0", "frail1")["frail0"].Fabric()
	tr := rc.using("frail0:1,frail1:1").with(setting{"MAX_RNDV_RAILS", "2"})
	bytes := make(map[string]int)
	net.SetHook(func(m *verbstest.Message) (through verbstest.Fate) {
		bytes[m.From.Name()] += m.Length
		return through
	})
	shared := func(t *testing.T, n int) {
		t.Helper()
		for _, dev := range []string{"frail0", "frail1"} {
			if got := bytes[dev]; n >= 64<<10 && (got < n/2-n/8 || got > n/2+n/8) {
				t.Errorf("%d of %d bytes went over %s", got, n, dev)
			}
		}
		clear(bytes)
	}
	for _, scheme := range []string{"get_zcopy", "put_zcopy"} {
		t.Run(scheme, func(t *testing.T) {
			r := newRig(t, tr.with(setting{"RNDV_SCHEME", scheme}, setting{"RNDV_THRESH", "8k"}))
			a, b := r.pair()
			there := a.connect(b)
			r.warm(there, b)
			clear(bytes)
			for _, n := range []int{1, 4000, 64 << 10, 64<<10 + 1, 1<<20 - 3, 4 << 20} {
				whole := make([]byte, n+2)
				buf := whole[1 : n+1]
				recv := r.started(b.TagRecv(2, ucp.FullMask, buf, nil))
				r.must(there.TagSend(2, ucttest.Pattern(n, 1), nil))
				r.must(recv, nil)
				ucttest.SameBytes(t, fmt.Sprintf("message of %d", n), buf, ucttest.Pattern(n, 1))
				if whole[0] != 0 || whole[n+1] != 0 {
					t.Errorf("%d bytes: beside the buffer is %d and %d", n, whole[0], whole[n+1])
				}
				shared(t, n)
			}
			r.clean(a, b)
		})
	}
}

// clean checks that workers have seen no malformed messages and no failures.
func (r *rig) clean(sides ...*side) {
	r.Helper()
	for _, s := range sides {
		if st := s.Stats(); st.Malformed != 0 || st.Failures != 0 {
			r.Errorf("counters %+v", st)
		}
	}
}

// frail is a component whose devices a test may break. Each test gets its own.
type frail struct{ uct.Component }

var frailNet = &frail{ibtest.Network("frail", verbstest.NewFabric())}

func init() { uct.Register(frailNet) }

// renew replaces the devices for the test.
func (f *frail) renew(t *testing.T, names ...string) map[string]*verbstest.Kernel {
	var list []verbstest.Config
	for _, name := range names {
		list = append(list, verbstest.Config{Name: name})
	}
	return f.renewAs(t, list...)
}

// renewAs replaces the devices by devices of the given kinds.
func (f *frail) renewAs(t *testing.T, list ...verbstest.Config) map[string]*verbstest.Kernel {
	n := verbstest.NewFabric()
	devices := make(map[string]*verbstest.Kernel)
	for _, c := range list {
		devices[c.Name] = n.Add(c)
	}
	before := f.Component
	f.Component = ibtest.Network("frail", n)
	t.Cleanup(func() { f.Component = before })
	return devices
}

// TestDeviceLost: a device is removed. The endpoints over it fail, each once and with all of their
// operations. The worker and new endpoints use the remaining devices.
func TestDeviceLost(t *testing.T) {
	needtest.Goroutines(t)
	for _, tls := range []string{"rc_v,tcp", "ud_v,tcp", "ib,tcp"} {
		for _, left := range []string{"lo", "frail2:1"} {
			t.Run(tls+" with "+left+" left", func(t *testing.T) { testDeviceLost(t, tls, left) })
		}
	}
}

func testDeviceLost(t *testing.T, tls, left string) {
	devices := frailNet.renew(t, "frail0", "frail1", "frail2")
	tr := onFabric("frail", tls).vanishing()
	tr.paired = tls != "ud_v,tcp"
	r := newRig(t, tr)
	r.transport = tr.using("frail0:1," + left)
	a := r.open()
	r.transport = tr.using("frail1:1," + left)
	b := r.open()

	failures := make(map[*ucp.Endpoint][]error)
	mode := ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: func(ep *ucp.Endpoint, err error, _ any) {
		failures[ep] = append(failures[ep], err)
	}}
	there, back := a.connectWith(b, mode), b.connectWith(a, mode)
	r.exchange(there, b, back, a)
	idle, other := a.connectWith(b, mode), b.connectWith(a, mode)
	r.exchange(idle, b, other, a)
	for _, l := range there.Attr().Transports[:1] {
		if l.Device != "frail0:1" && left == "lo" {
			t.Fatalf("first lane over %+v", l)
		}
	}
	// A message is in flight in each direction at that time.
	long := make([]byte, 1<<20)
	sends := []*ucp.Request{r.started(there.TagSend(7, long, nil)), r.started(back.TagSend(8, long, nil))}
	devices["frail0"].Remove()
	lost := []*ucp.Endpoint{there, idle, back, other}
	r.until("the endpoints to fail", func() bool {
		return !slices.ContainsFunc(lost, func(ep *ucp.Endpoint) bool { return ep.Err() == nil })
	})
	r.settle()
	for k, ep := range lost {
		if n := len(failures[ep]); n != 1 {
			t.Fatalf("endpoint %d: told %d times", k, n)
		}
		want := []error{ucs.ErrIO, ucs.ErrEndpointTimeout, ucs.ErrConnectionReset}
		if !slices.ContainsFunc(want, func(w error) bool { return errors.Is(failures[ep][0], w) }) {
			t.Errorf("endpoint %d: %v", k, failures[ep][0])
		}
	}
	for k, req := range sends {
		if r.until("the end of a send", req.Done); req.Err() == nil {
			t.Errorf("send %d succeeded", k)
		}
		req.Free()
	}
	for _, ep := range lost {
		r.must(ep.CloseAsync(force))
	}
	r.endpoints(0, a, b)

	// The remaining devices work.
	for k := range 3 {
		there, back = a.connectWith(b, mode), b.connectWith(a, mode)
		r.exchange(there, b, back, a)
		recv := r.started(b.TagRecv(9, ucp.FullMask, long, nil))
		r.must(there.TagSend(9, ucttest.Pattern(len(long), uint64(k)), nil))
		r.must(recv, nil)
		ucttest.SameBytes(t, "message", long, ucttest.Pattern(len(long), uint64(k)))
		for _, l := range there.Attr().Transports {
			if l.Device == "frail0:1" {
				t.Errorf("a lane over %+v", l)
			}
		}
		r.must(there.CloseAsync(nil))
		r.finish(back.CloseAsync(force))
		r.settle()
	}
	// So they do for a worker that connects only now and whose device is gone, too.
	r.transport = tr.using("frail0:1," + left)
	r.log.Expect("transport not usable")
	c := r.open()
	ep := c.connectWith(a, mode)
	recv := r.started(a.TagRecv(10, ucp.FullMask, nil, nil))
	r.must(ep.TagSendSync(10, nil, nil))
	r.must(recv, nil)
	r.must(ep.CloseAsync(nil))
}

// TestLinkLost: a link stays down. The endpoints over it fail, each once; when the link is up again
// new endpoints work.
func TestLinkLost(t *testing.T) {
	needtest.Goroutines(t)
	for _, tls := range []string{"rc_v", "ud_v", "ib"} {
		t.Run(tls, func(t *testing.T) {
			devices := frailNet.renew(t, "frail0", "frail1")
			tr := onFabric("frail", tls).vanishing()
			r := newRig(t, tr)
			r.transport = tr.using("frail0:1")
			a := r.open()
			r.transport = tr.using("frail1:1")
			b := r.open()
			told := 0
			mode := ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: func(*ucp.Endpoint, error, any) { told++ }}
			for range 2 {
				told = 0
				there, back := a.connectWith(b, mode), b.connectWith(a, mode)
				r.exchange(there, b, back, a)
				devices["frail0"].SetPort(false)
				send := r.started(there.TagSendSync(1, nil, nil))
				r.until("both ends to fail", func() bool { return there.Err() != nil && back.Err() != nil })
				for _, ep := range []*ucp.Endpoint{there, back} {
					if !errors.Is(ep.Err(), ucs.ErrEndpointTimeout) {
						t.Errorf("failed with %v", ep.Err())
					}
				}
				if !send.Done() || !errors.Is(send.Err(), ucs.ErrEndpointTimeout) {
					t.Errorf("a send: %v, %v", send.Done(), send.Err())
				}
				send.Free()
				r.must(there.CloseAsync(force))
				r.must(back.CloseAsync(force))
				r.settle()
				if told != 2 {
					t.Errorf("told %d times of two failures", told)
				}
				devices["frail0"].SetPort(true)
			}
			r.endpoints(0, a, b)
		})
	}
}
