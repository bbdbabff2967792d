//go:build linux

package ucptest

import (
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
)

var connManyCases = []testCase{
	{"clients at once", anywhere, inBothModes(testConnCrowd)},
}

// testConnCrowd checks many clients that all connect before the server progresses.
func testConnCrowd(t *testing.T, tr transport, mode ucp.ErrMode) {
	const clients, each = 10, 10
	r := newConnRig(t, tr)
	s := r.open()
	h := s.hall(false)
	var sides []*side
	var eps []*ucp.Endpoint
	var sends []*ucp.Request
	for range clients {
		c := r.open()
		for range each {
			ep := c.dial(h, ucp.EndpointParams{ErrMode: mode})
			sides, eps = append(sides, c), append(eps, ep)
			sends = append(sends, r.started(ep.TagSendSync(1, make([]byte, 8), nil)))
		}
	}
	for range sends {
		s.recvInto(1, ucp.FullMask, make([]byte, 8), nil)
	}
	for _, req := range sends {
		r.must(req, nil)
	}
	if len(h.eps) != len(eps) {
		t.Errorf("%d endpoints for %d clients", len(h.eps), len(eps))
	}
	var closes []*ucp.Request
	for _, ep := range eps {
		req, err := ep.CloseAsync(nil)
		if err != nil {
			t.Fatal(err)
		}
		closes = append(closes, req)
	}
	r.until("the failures", func() bool {
		for _, ep := range h.eps {
			if ep.Err() == nil {
				return false
			}
		}
		return true
	})
	for _, ep := range h.eps {
		r.inTheCall(ep.CloseAsync(nil))
	}
	for _, req := range closes {
		if req != nil {
			r.must(req, nil)
		}
	}
	r.endpoints(0, s)
	r.endpoints(0, sides...)
}

// TestConnectionsLeaveNothing checks that memory does not grow with the number of past connections,
// however they have ended.
func TestConnectionsLeaveNothing(t *testing.T) {
	total := long(10_000, 4000)
	if testing.Short() || race.Enabled {
		total = 500
	}
	for _, tr := range connTransports {
		total := total
		if tr.name == "all" { // slower, and keeps less
			total /= 10
		}
		if tr.name != "tcp" && tr.name != "all" || tr.mode != 0 {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			r := newRig(t, tr)
			c, s := r.open(), r.open()
			h, closed := s.hall(false), c.hall(false)
			if err := closed.Listener.Close(); err != nil {
				t.Fatal(err)
			}
			round := func(k int) {
				h.eps = h.eps[:0]
				clear(h.failures)
				there := c.dial(h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
				switch k % 4 {
				case 0, 1: // closed in order
					r.until("the server's end", func() bool { return len(h.eps) > 0 })
					back := h.eps[0]
					r.must(there.CloseAsync(nil))
					r.until("the failure", func() bool { return back.Err() != nil })
					r.inTheCall(back.CloseAsync(nil))
				case 2: // closed before it is connected
					there.Close()
					there = c.dial(closed, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
					r.until("the failure", func() bool { return there.Err() != nil })
					there.Close()
					r.until("the server's ends", func() bool { return h.fails() })
				default: // closed at once
					r.until("the server's end", func() bool { return len(h.eps) > 0 })
					h.eps[0].Close()
					r.until("the failure", func() bool { return there.Err() != nil })
					there.Close()
				}
			}
			heap := func() int64 {
				r.settle() // sockets end when the other side has noticed the end
				var m runtime.MemStats
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&m)
				return int64(m.HeapAlloc)
			}
			for k := range 200 { // lists and pools reach their final sizes
				round(k)
			}
			before := heap()
			for k := range total {
				round(k)
			}
			grown := heap() - before
			if most := int64(64 << 10); grown > most {
				t.Errorf("%d connections have left %d bytes, at most %d may stay", total, grown, most)
			}
			r.endpoints(0, c, s)
		})
	}
}

// fails closes the endpoints if all have failed, and reports whether they have.
func (h *listeningSide) fails() bool {
	for _, ep := range h.eps {
		if ep.Err() == nil {
			return false
		}
		ep.Close()
	}
	return true
}
