//go:build linux

package interop

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestRDMACancel cancels receives of ours while the messages of the other side arrive: a receive
// has its message, or the next one of the same tag gets it, whole and once.
func TestRDMACancel(t *testing.T) {
	rounds := 5
	if rdmaLong {
		rounds = 100
	}
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		for _, over := range rdmaRoutes(t, reliable, datagram) {
			t.Run(over.name, func(t *testing.T) {
				p, err := newPair(where, ours, theirs, setting{mode: "peer"}, over)
				if err != nil {
					t.Fatal(err)
				}
				defer p.report(t)
				p.meet(t)
				canceled := 0
				for range rounds {
					for _, size := range []int{8, 8000, 8300, 30_000, 30_000, 30_000, 100_000} {
						late, err := p.cancelAmid(size)
						if err != nil {
							t.Fatal(err)
						}
						if late {
							canceled++
						}
					}
				}
				t.Logf("%d canceled", canceled)
				if err := p.close("peer"); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// cancelAmid has the other side send while our side cancels the receive, and reports whether that
// receive did not get the message.
func (p *pair) cancelAmid(size int) (canceled bool, err error) {
	m := p.msgs.next(size)
	r, err := p.ours.recv(m.tag, fullMask, size, "contig")
	if err != nil {
		return false, err
	}
	s := p.theirs.request()
	send := []any{"send", s, ep, m.tag, m.size, m.seed, "contig", "async"}
	cancel := []any{"cancel", r}
	if err := p.theirs.tell(send...); err != nil {
		return false, err
	}
	if err := p.ours.tell(cancel...); err != nil {
		return false, err
	}
	if _, err := p.theirs.answer(send...); err != nil {
		return false, err
	}
	if _, err := p.ours.answer(cancel...); err != nil {
		return false, err
	}
	got, err := p.ours.wait(r, m.seed)
	switch {
	case err != nil:
		return false, err
	case got.status == ucs.ErrCanceled:
		if r, err = p.ours.recv(m.tag, fullMask, size, "contig"); err != nil {
			return false, err
		}
		if err := p.ours.received(r, m); err != nil {
			return true, fmt.Errorf("behind a receive of %d bytes that was canceled: %w", size, err)
		}
		return true, p.theirs.finish(s)
	case got.status != ucs.OK || got.length != size || got.verdict != "same":
		return false, fmt.Errorf("a receive of %d bytes: %+v", size, got)
	}
	return false, p.theirs.finish(s)
}
