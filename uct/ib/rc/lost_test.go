//go:build linux

package rc_test

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// leaves has a scripted peer go while something is under way to it with which nothing is lost: a
// grant that it has asked for, or the write that asks whether the last messages have arrived.
func leaves(t *testing.T, by string, pairs ...string) (p, other *scriptedPeer) {
	t.Helper()
	r, p, other := duo(t, pairs...)
	h := p.host
	h.Collect(t, 1)
	held := false
	r.net.SetHook(func(m *verbstest.Message) (f verbstest.Fate) {
		if by == "grant" && m.Length == 1 && m.Head[0] == 0xe0 || by == "tail" && m.Length == 0 {
			held = true
			f.Hold = verbstest.UntilReleased
		}
		return f
	})
	if by == "grant" {
		_, err := p.ep.AMBcopy(1, &ucttest.Packer{Data: []byte("before")}, 0, nil)
		check(t, err)
		p.tell(0x41, 1, 2, 3, 4, 5, 6, 7, 8) // asks for one at once
	} else {
		for range 3 {
			check(t, p.ep.AMShort(1, 2, nil, 0, nil))
		}
	}
	heard := 0
	ucttest.Until(t, "messages", func() bool { heard += len(p.heard()); return held && heard > 0 }, h)
	check(t, p.ctx.Close())
	r.net.SetHook(nil)
	r.net.Release()
	return p, other
}

// TestPeerLeaves: a peer that goes, and with it nothing that anybody has sent, is no failure:
// flushes succeed, and nothing is held. Who uses the endpoint after all is told then.
func TestPeerLeaves(t *testing.T) {
	use := map[string]func(ep uct.Endpoint) error{
		"message": func(ep uct.Endpoint) error { return ep.AMShort(1, 2, nil, 0, nil) },
		"put":     func(ep uct.Endpoint) error { return ep.(uct.RMA).PutShort([]byte("x"), 8, &uct.Rkey{}) },
		"check":   func(ep uct.Endpoint) error { return ep.(uct.Checker).Check(nil) },
		"request": func(ep uct.Endpoint) error {
			p := ucttest.NewPending(func() error { return nil })
			if err := ep.PendingAdd(&p.Pending); err != ucs.ErrBusy {
				t.Errorf("adding a request: %v", err)
			}
			return ep.Fence()
		},
		"close": nil,
	}
	for _, by := range []string{"grant", "tail"} {
		for name, do := range use {
			t.Run(by+", then "+name, func(t *testing.T) {
				p, other := leaves(t, by)
				h := p.host
				ucttest.Until(t, "the end", func() bool { return rc.Silent(p.ep) }, h)
				ucttest.Settle(h)
				if len(h.Failures) != 0 {
					t.Fatalf("%+v", h.Failures)
				}
				if free, total := rc.Credits(h.Iface); free != total {
					t.Errorf("%d credits of %d", free, total)
				}
				for range 2 {
					if err := p.ep.Flush(uct.FlushLocal, nil); err != nil {
						t.Errorf("flush: %v", err)
					}
				}
				check(t, other.ep.AMShort(1, 2, nil, 0, nil))
				if do == nil {
					p.ep.Close()
					ucttest.Settle(h)
					if len(h.Failures) != 0 || rc.Limbo(h.Iface) != 0 {
						t.Errorf("%+v, %d in limbo", h.Failures, rc.Limbo(h.Iface))
					}
					return
				}
				if err := do(p.ep); !errors.Is(err, ucs.ErrEndpointTimeout) {
					t.Errorf("%v", err)
				}
				over(t, p, nil, nil, ucs.ErrEndpointTimeout)
			})
		}
	}
}

// TestPeerLeavesAsking: what a peer has asked for before it went, and is read behind that, is not
// owed to it.
func TestPeerLeavesAsking(t *testing.T) {
	r, p, other := duo(t, "RC_VERBS_RX_MAX_POLL", "1")
	h := p.host
	h.Collect(t, 1)
	copy(p.mem, []byte{0x41, 1, 2, 3, 4, 5, 6, 7, 8}) // asks for a grant at once
	var wrs []verbs.SendWR
	for range 10 {
		wrs = append(wrs, verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{p.mr.SGE(0, 9)}})
	}
	_, err := p.qp.PostSend(wrs)
	check(t, err)
	r.net.Progress()
	check(t, p.ctx.Close())
	ucttest.Until(t, "the end", func() bool { return rc.Silent(p.ep) }, h)
	ucttest.Settle(h)
	if n := rc.Owing(h.Iface); n != 0 || len(h.Failures) != 0 {
		t.Errorf("%d owe a grant, %+v", n, h.Failures)
	}
	check(t, other.ep.AMShort(1, 2, nil, 0, nil))
}

// TestPeerLeavesAsked: who asks whether the peer is there while such a request is under way is
// told by it.
func TestPeerLeavesAsked(t *testing.T) {
	for _, by := range []string{"grant", "tail"} {
		t.Run(by, func(t *testing.T) {
			p, other := leaves(t, by)
			c := ucttest.NewCompletion(1)
			if err := p.ep.(uct.Checker).Check(&c.Completion); err != ucs.InProgress {
				t.Fatal(err)
			}
			over(t, p, other, []*ucttest.Completion{c}, ucs.ErrEndpointTimeout)
		})
		t.Run(by+", and nobody waits", func(t *testing.T) {
			p, other := leaves(t, by)
			check(t, p.ep.(uct.Checker).Check(nil))
			over(t, p, other, nil, ucs.ErrEndpointTimeout)
		})
	}
}

// TestPeerLeavesWithMore: what is behind such a request is lost, and that is told.
func TestPeerLeavesWithMore(t *testing.T) {
	for _, by := range []string{"grant", "tail"} {
		t.Run(by, func(t *testing.T) {
			p, other := leaves(t, by)
			check(t, p.ep.AMShort(1, 2, nil, 0, nil))
			over(t, p, other, nil, ucs.ErrEndpointTimeout)
		})
	}
	// Also if it has not been posted: it waits for a grant.
	p, other := leaves(t, "tail", "RC_FC_WND_SIZE", "3")
	if err := p.ep.AMShort(1, 2, nil, 0, nil); err != ucs.ErrNoResource {
		t.Fatal(err)
	}
	w := ucttest.NewPending(func() error { return ucs.ErrNoResource })
	check(t, p.ep.PendingAdd(&w.Pending))
	over(t, p, other, nil, ucs.ErrEndpointTimeout)
}
