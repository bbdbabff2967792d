//go:build linux

package ucptest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var orderCases = []testCase{
	{"sending before the connection stands", everySwitch, testSendAtOnce},
	{"mixed sends match in order", everySwitch, testMixedOrder},
	{"endpoints do not disturb each other", everySwitch, testManyEndpoints},
}

// testSendAtOnce checks that sends are accepted as soon as the endpoint exists. They wait until the
// connection is established and the peer's id is known, and leave in order, even if only the first
// of them needs the peer's id.
func testSendAtOnce(t *testing.T, tr transport) {
	for _, first := range []string{"sync", "eager", "rndv", "forced"} {
		t.Run(first, func(t *testing.T) {
			r := newRig(t, tr)
			a, b := r.pair()
			var rreqs []*ucp.Request
			var bufs [][]byte
			for range 6 {
				buf := make([]byte, 1<<18)
				rreqs = append(rreqs, b.recvInto(0, 0, buf, nil))
				bufs = append(bufs, buf)
			}
			ep := a.connect(b)
			var sreqs []*ucp.Request
			lengths := []int{8, 8, 1 << 18, 0, 5000, 8}
			if first == "rndv" {
				lengths[0] = 1 << 18
			}
			for i, n := range lengths {
				send := ep.TagSend
				if i == 0 && first == "sync" || i == 4 {
					send = ep.TagSendSync
				}
				var attr ucp.OpFlags
				if i == 0 && first == "forced" {
					attr = ucp.OpNoImmediate
				}
				req, err := send(ucp.Tag(i), ucttest.Pattern(n, uint64(i)), &ucp.RequestParams{Flags: attr})
				if err != nil {
					t.Fatal(err)
				}
				sreqs = append(sreqs, req)
			}
			for i, req := range rreqs {
				r.until("a receive", req.Done)
				info, err := req.TagRecvInfo()
				if want := (ucp.TagRecvInfo{SenderTag: ucp.Tag(i), Length: lengths[i]}); err != nil || info != want {
					t.Errorf("receive %d: %+v, %v, want %+v", i, info, err, want)
				}
				ucttest.SameBytes(t, "message", bufs[i][:lengths[i]], ucttest.Pattern(lengths[i], uint64(i)))
				req.Free()
			}
			for _, req := range sreqs {
				r.must(req, nil)
			}
		})
	}
}

// testMixedOrder sends at random in all ways, with receives posted before and after and little
// progress in between. Receives get the messages of a sender in the order sent.
func testMixedOrder(t *testing.T, tr transport) {
	const messages = 150
	for seed := uint64(1); seed <= 2; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := newRig(t, tr)
			rng := rand.New(rand.NewPCG(seed, 17))
			a, b := r.pair()
			ep := a.connect(b)
			var lengths []int
			var sreqs, rreqs []*ucp.Request
			var bufs [][]byte
			var infos [messages]ucp.TagRecvInfo
			send := func() {
				i := len(lengths)
				n := []int{0, 8, rng.IntN(300), rng.IntN(10_000), rng.IntN(150_000)}[rng.IntN(5)]
				src := ucttest.Pattern(n, uint64(i))
				call, p := ep.TagSend, new(ucp.RequestParams)
				switch rng.IntN(6) {
				case 0:
					call = ep.TagSendSync
				case 1:
					p.Flags = ucp.OpMultiSend
				case 2:
					p.Flags = ucp.OpFastComplete
				}
				p.Buffer = layouts[rng.IntN(len(layouts))].make(src)
				req, err := call(ucp.Tag(i), nil, p)
				if err != nil {
					t.Fatal(err)
				}
				sreqs = append(sreqs, req)
				lengths = append(lengths, n)
			}
			recv := func() {
				buf := make([]byte, 150_000)
				p := &ucp.RequestParams{Buffer: layouts[rng.IntN(len(layouts))].make(buf), TagInfo: &infos[len(rreqs)]}
				req, err := b.TagRecv(0, 0, nil, p)
				if err != nil {
					t.Fatal(err)
				}
				rreqs = append(rreqs, req)
				bufs = append(bufs, buf)
			}
			for len(lengths) < messages || len(rreqs) < messages {
				switch k := rng.IntN(10); {
				case k < 4 && len(lengths) < messages:
					send()
				case k < 8 && len(rreqs) < messages:
					recv()
				case k == 8:
					a.Progress()
				default:
					b.Progress()
				}
			}
			for i, req := range rreqs {
				if req != nil {
					r.until(fmt.Sprint("receive ", i), req.Done)
					var err error
					if infos[i], err = req.TagRecvInfo(); err != nil {
						t.Fatal(err)
					}
					req.Free()
				}
				if want := (ucp.TagRecvInfo{SenderTag: ucp.Tag(i), Length: lengths[i]}); infos[i] != want {
					t.Fatalf("receive %d: %+v, want %+v", i, infos[i], want)
				}
				ucttest.SameBytes(t, fmt.Sprint("message ", i), bufs[i][:lengths[i]], ucttest.Pattern(lengths[i], uint64(i)))
			}
			for _, req := range sreqs {
				r.must(req, nil)
			}
			if s := b.Stats(); s.UnexpectedBytes != 0 || s.Malformed != 0 || s.Dropped != 0 {
				t.Errorf("receiver's counters: %+v", s)
			}
		})
	}
}

// testManyEndpoints checks that many endpoints, some of them to the same peer, carry messages at
// the same time, each in its own order.
func testManyEndpoints(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	const endpoints, messages = 20, 6
	var eps [endpoints]*ucp.Endpoint
	for i := range eps {
		eps[i] = a.connect(b)
	}
	length := func(i, k int) int { return []int{8, 0, 9000, 100_000, 300, 20_000}[(i+k)%6] }
	var sreqs []*ucp.Request
	for k := range messages {
		for i, ep := range eps {
			send := ep.TagSend
			if (i+k)%4 == 0 {
				send = ep.TagSendSync
			}
			req, err := send(ucp.Tag(i), ucttest.Pattern(length(i, k), uint64(k)), nil)
			if err != nil {
				t.Fatal(err)
			}
			sreqs = append(sreqs, req)
		}
	}
	for k := range messages {
		for i := range eps {
			r.arrived(b, ucp.Tag(i))
			got, _ := b.take(ucp.Tag(i), ucp.FullMask, 100_000)
			ucttest.SameBytes(t, fmt.Sprintf("message %d of endpoint %d", k, i), got, ucttest.Pattern(length(i, k), uint64(k)))
		}
	}
	for _, req := range sreqs {
		r.must(req, nil)
	}
}
