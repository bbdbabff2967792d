//go:build linux

package ucptest

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// TestNoAllocationsActive checks that in steady state an active message allocates nothing on either
// side, whatever its protocol and whatever its handler does.
func TestNoAllocationsActive(t *testing.T) {
	skipUnderRace(t)
	for _, tr := range transports {
		if !tr.frugal() {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			for _, n := range []int{0, 8, 2000, 8192, 100_000, 1 << 20} {
				allocatesNothingActive(t, tr, n)
			}
		})
	}
}

func allocatesNothingActive(t *testing.T, tr transport, n int) {
	r := newRig(t, tr)
	a, b := r.activePair()
	ep := a.connect(b)
	r.warm(ep, b)
	src, buf, header := make([]byte, n), make([]byte, n), make([]byte, 50)
	handled := 0
	var kept *ucp.AMMessage
	keep := func(m *ucp.AMMessage) error {
		handled++
		m.Keep()
		kept = m
		return nil
	}
	b.handle(1, func(*ucp.AMMessage) error { handled++; return nil })
	b.handle(2, keep)
	b.handle(3, keep, ucp.AMPersistentData)
	rparams := &ucp.RequestParams{OnAMRecv: func(req *ucp.Request, _ error, _ int, _ any) {
		handled++
		req.Free()
	}}
	b.handle(4, func(m *ucp.AMMessage) error {
		req, err := m.Recv(buf, rparams)
		if err != nil {
			t.Error(err)
		}
		if req == nil {
			handled++
		}
		return nil
	})
	q, err := b.NewAMQueue(ucp.AMQueueParams{ID: 5, Offers: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		header []byte
		p      *ucp.RequestParams
	}{
		{"plain", nil, nil},
		{"header", header, nil},
		{"reply", header, flagged(ucp.AMSendReply | ucp.AMSendCopyHeader)},
		{"eager", header, flagged(ucp.AMSendEager)},
		{"offered", header, flagged(ucp.AMSendRndv | ucp.AMSendReply)},
	} {
		for id := uint16(1); id <= 4; id++ {
			r.allocatesNothing(fmt.Sprintf("%s for handler %d", sizeText(c.name, n), id), func() {
				handled, kept = 0, nil
				req, err := ep.AMSend(id, c.header, src, c.p)
				for handled == 0 {
					r.progress()
				}
				if kept != nil {
					kept.Release()
				}
				r.spin(req, err)
			})
		}
		r.allocatesNothing(sizeText(c.name, n)+" for a queue", func() {
			req, err := ep.AMSend(5, c.header, src, c.p)
			for {
				if m, ok := q.TryNext(); ok {
					m.Release()
					break
				}
				r.progress()
			}
			r.spin(req, err)
		})
	}
	for _, s := range r.sides {
		s.close()
	}
	r.sides = nil
}
