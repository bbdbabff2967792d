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
	"github.com/ucx-go/ucx/uct/ucttest"
)

// Special cases of messages, puts and gets over several devices.

// TestRMARailsOneDevice checks that with UCX_SINGLE_NET_DEVICE puts and gets use one device in
// spite of UCX_MAX_RMA_RAILS, selected by UCX_NODE_LOCAL_ID.
func TestRMARailsOneDevice(t *testing.T) {
	used := make(map[string]bool)
	for _, id := range []string{"0", "1"} {
		t.Run(id, func(t *testing.T) {
			devices := frailNet.renew(t, "frail0", "frail1")
			r := newRig(t, rc.using("frail0:1,frail1:1").with(setting{"ZCOPY_THRESH", "2k"}, setting{"MAX_RMA_RAILS", "2"},
				setting{"SINGLE_NET_DEVICE", "y"}, setting{"NODE_LOCAL_ID", id}))
			a, b := r.oneSidedPair()
			there := a.connect(b)
			const n = 1 << 20
			w := r.unpack(there, b.expose(make([]byte, n), 0))
			r.warm(there, b)
			bytes := countRails(devices, "frail0", "frail1")
			for _, kind := range []string{"put", "get"} {
				if err := r.access(there, kind, w, ucttest.Pattern(n, 1)); err != nil {
					t.Fatal(err)
				}
				for _, dev := range bytes.devices {
					if bytes.count[dev] >= n {
						used[dev] = true
					}
				}
				bytes.only(t, n)
			}
			r.clean(a, b)
		})
	}
	if len(used) != 2 {
		t.Errorf("whoever it is takes %v", used)
	}
}

// TestRMARailsAnyRatio checks that both lanes are used if UCX_MULTI_LANE_MAX_RATIO permits lanes of
// any slowness.
func TestRMARailsAnyRatio(t *testing.T) {
	devices := frailNet.renew(t, "frail0", "frail1")
	r := newRig(t, rc.using("frail0:1,frail1:1").with(setting{"ZCOPY_THRESH", "2k"}, setting{"MAX_RMA_RAILS", "2"},
		setting{"MULTI_LANE_MAX_RATIO", "1000000"}))
	a, b := r.oneSidedPair()
	there := a.connect(b)
	const n = 1 << 20
	w := r.unpack(there, b.expose(make([]byte, n), 0))
	r.warm(there, b)
	bytes := countRails(devices, "frail0", "frail1")
	for _, kind := range []string{"put", "get"} {
		if err := r.access(there, kind, w, ucttest.Pattern(n, 1)); err != nil {
			t.Fatal(err)
		}
		bytes.shared(t, n)
	}
	r.clean(a, b)
}

// TestRailLost: one of two devices goes down in the middle of messages, puts and gets over both.
// All of them end, the endpoints fail once each, and nothing is left.
func TestRailLost(t *testing.T) {
	needtest.Goroutines(t)
	for _, kind := range []string{"copied", "not copied", "put", "get"} {
		for num := 1; num <= 2; num++ {
			for _, queues := range [][]setting{nil, least} {
				t.Run(fmt.Sprintf("%s, port %d, queues %d", kind, num, len(queues)), func(t *testing.T) { testRailLost(t, kind, num, queues) })
			}
		}
	}
}

func testRailLost(t *testing.T, kind string, num int, queues []setting) {
	devices := frailNet.renew(t, "frail0", "frail1")
	zcopy := "0"
	if kind == "copied" {
		zcopy = "inf"
	}
	tr := onFabric("frail", "rc_v").vanishing().using("frail0:1,frail1:1").with(queues...).with(setting{"RNDV_THRESH", "inf"},
		setting{"MAX_EAGER_RAILS", "2"}, setting{"MAX_RMA_RAILS", "2"}, setting{"ZCOPY_THRESH", zcopy})
	tr.paired = true
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	told := 0
	mode := ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: func(*ucp.Endpoint, error, any) { told++ }}
	there := a.connectWith(b, mode)
	const n = 1 << 20
	w := r.unpack(there, b.expose(make([]byte, n), 0))
	r.warm(there, b)
	ended := make(map[int]int)
	var reqs []*ucp.Request
	for k := range 4 {
		p := &ucp.RequestParams{OnSend: func(_ *ucp.Request, _ error, _ any) { ended[k]++ }}
		var req *ucp.Request
		var err error
		switch kind {
		case "put":
			req, err = there.Put(make([]byte, n), w.addr, w.key, p)
		case "get":
			req, err = there.Get(make([]byte, n), w.addr, w.key, p)
		default:
			req, err = there.TagSend(7, make([]byte, n), p)
		}
		if err != nil {
			t.Fatal(err)
		}
		if req != nil {
			reqs = append(reqs, req)
		} else {
			ended[k]++
		}
		if k == 1 {
			devices[fmt.Sprintf("frail%d", num-1)].SetPort(false)
		}
	}
	r.until("the endpoint to fail", func() bool { return there.Err() != nil })
	r.settle()
	failed := 0
	for _, req := range reqs {
		if !req.Done() {
			t.Fatal("a request is under way")
		}
		if req.Err() != nil {
			failed++
		}
		req.Free()
	}
	for k := range 4 {
		if ended[k] != 1 {
			t.Errorf("operation %d ended %d times", k, ended[k])
		}
	}
	if kind == "copied" && queues == nil {
		failed++ // all of them had been queued before
	}
	if told != 1 || failed == 0 || !errors.Is(there.Err(), ucs.ErrEndpointTimeout) {
		t.Errorf("told %d times, %d failed: %v", told, failed, there.Err())
	}
	r.must(there.CloseAsync(force))
	r.settle()
}

// TestStaleAddressTwice checks that an endpoint connects with an address of three devices of which
// two are gone.
func TestStaleAddressTwice(t *testing.T) {
	needtest.Goroutines(t)
	for _, mode := range []ucp.ErrMode{ucp.ErrModeNone, ucp.ErrModePeer} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			r, a, b, stale := staleDevices(t)
			told := 0
			p := ucp.EndpointParams{Address: stale, ErrMode: mode}
			if mode == ucp.ErrModePeer {
				p.OnError = func(*ucp.Endpoint, error, any) { told++ }
			}
			there, err := a.NewEndpoint(p)
			if err != nil {
				t.Fatal(err)
			}
			send := r.started(there.TagSend(1, ucttest.Pattern(8, 1), nil))
			buf := make([]byte, 8)
			r.must(b.TagRecv(1, ucp.FullMask, buf, nil))
			ucttest.SameBytes(t, "message", buf, ucttest.Pattern(8, 1))
			r.must(send, nil)
			if told != 0 {
				t.Errorf("told %d times", told)
			}
			r.must(there.CloseAsync(nil))
		})
	}
}

// staleDevices opens two workers: one with one device, the other with three, of which it loses two.
// stale is the address of the second worker before the loss.
func staleDevices(t *testing.T) (r *rig, a, b *side, stale []byte) {
	devices := frailNet.renew(t, "frail0", "frail1", "frail2", "frail3")
	tr := onFabric("frail", "rc_v").vanishing()
	tr.paired = true
	r = newRig(t, tr)
	r.transport = tr.using("frail0:1")
	a = r.open()
	r.transport = tr.using("frail1:1,frail2:1,frail3:1")
	b = r.open()
	stale = slices.Clone(b.address())
	for _, name := range []string{"frail1", "frail2"} {
		before := slices.Clone(b.address())
		devices[name].Remove()
		r.until("the worker to know", func() bool { return !slices.Equal(b.address(), before) })
	}
	return r, a, b, stale
}

// TestCloseWhileAsking checks that an endpoint that is closed before the peer has replied, after
// any number of requests, is released, and that its operations have ended.
func TestCloseWhileAsking(t *testing.T) {
	needtest.Goroutines(t)
	for _, flags := range []*ucp.RequestParams{nil, force} {
		for after := range 4 {
			t.Run(fmt.Sprintf("%v after %d", flags == force, after), func(t *testing.T) {
				r, a, _, stale := staleDevices(t)
				told := 0
				there, err := a.NewEndpoint(ucp.EndpointParams{Address: stale, ErrMode: ucp.ErrModePeer,
					OnError: func(*ucp.Endpoint, error, any) { told++ }})
				if err != nil {
					t.Fatal(err)
				}
				ended := 0
				send := r.started(there.TagSendSync(1, make([]byte, 8), &ucp.RequestParams{OnSend: func(*ucp.Request, error, any) { ended++ }}))
				for range after * 20 {
					a.Progress()
				}
				done := send.Done()
				r.finish(there.CloseAsync(flags))
				r.until("the send to end", send.Done)
				if ended != 1 || !done && send.Err() == nil && flags == force {
					t.Errorf("ended %d times, %v", ended, send.Err())
				}
				send.Free()
				r.settle()
				if told > 1 {
					t.Errorf("told %d times", told)
				}
				r.endpoints(0, a)
			})
		}
	}
}

// TestFlushBehindRails: a forced close, or that of the worker, ends a flush that waits for a message over two
// devices, whatever else the context does.
func TestFlushBehindRails(t *testing.T) {
	for _, features := range []ucp.Features{ucp.FeatureTag, ucp.FeatureTag | ucp.FeatureRMA} {
		for _, tls := range []string{"ud_v", "rc_v"} {
			for _, whole := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %v worker %v", tls, features, whole), func(t *testing.T) {
					frailNet.renew(t, "frail0", "frail1")
					tr := onFabric("frail", tls).vanishing().using("frail0:1,frail1:1").
						with(setting{"RNDV_THRESH", "inf"}, setting{"MAX_EAGER_RAILS", "2"}, setting{"ZCOPY_THRESH", "0"}).with(least...)
					tr.paired = tls != "ud_v"
					r := newRig(t, tr)
					p := ucp.ContextParams{Features: features}
					a, b := r.openWith(p, ucp.WorkerParams{}), r.openWith(p, ucp.WorkerParams{})
					there := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
					r.warm(there, b)
					for range 3 {
						if _, err := there.TagSend(7, make([]byte, 1<<20), nil); err != nil {
							t.Fatal(err)
						}
					}
					flush, err := there.Flush(nil)
					if err != nil || flush.Done() {
						t.Fatal("the flush does not wait:", err)
					}
					if whole {
						err = a.Close()
					} else {
						_, err = there.CloseAsync(force)
					}
					if err != nil || !flush.Done() || !errors.Is(flush.Err(), ucs.ErrCanceled) {
						t.Errorf("close: %v; the flush is done: %v, %v", err, flush.Done(), flush.Err())
					}
				})
			}
		}
	}
}
