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

// leaves closes a scripted peer while an internal request to it is in flight, with which no data is
// lost: a grant that it asked for (by is "grant"), or the write that confirms the last messages
// ("tail").
func leaves(t *testing.T, by string, pairs ...string) (p, other *scriptedPeer) {
	t.Helper()
	r, p, other := duo(t, pairs...)
	h := p.Host
	h.Collect(t, 1)
	held := false
	r.SetHook(func(m *verbstest.Message) (f verbstest.Fate) {
		if by == "grant" && m.Length == 1 && m.Head[0] == 0xe0 || by == "tail" && m.Length == 0 {
			held = true
			f.Hold = verbstest.UntilReleased
		}
		return f
	})
	if by == "grant" {
		_, err := p.ep.AMBcopy(1, &ucttest.Packer{Data: []byte("before")}, 0, nil)
		check(t, err)
		p.tell(0x41, 1, 2, 3, 4, 5, 6, 7, 8) // asks for a grant at once
	} else {
		for range 3 {
			check(t, p.ep.AMShort(1, 2, nil, 0, nil))
		}
	}
	heard := 0
	ucttest.Until(t, "messages", func() bool { heard += len(p.Received()); return held && heard > 0 }, h)
	check(t, p.Ctx.Close())
	r.SetHook(nil)
	r.Release()
	return p, other
}

// TestPeerLeaves checks that it is no failure if a peer goes and no data of either side is lost:
// flushes succeed, and nothing is held. A caller that uses the endpoint afterwards gets the error.
func TestPeerLeaves(t *testing.T) {
	use := map[string]func(ep uct.Endpoint) error{
		"message": func(ep uct.Endpoint) error { return ep.AMShort(1, 2, nil, 0, nil) },
		"put":     func(ep uct.Endpoint) error { return ep.(uct.RMA).PutShort([]byte("x"), 8, &uct.Rkey{}) },
		"check":   func(ep uct.Endpoint) error { return ep.Check(nil) },
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
				h := p.Host
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

// TestPeerLeavesAsking checks that no grant is owed to a peer that has gone, even if its request
// for one is received after that.
func TestPeerLeavesAsking(t *testing.T) {
	r, p, other := duo(t, "RC_VERBS_RX_MAX_POLL", "1")
	h := p.Host
	h.Collect(t, 1)
	copy(p.Mem, []byte{0x41, 1, 2, 3, 4, 5, 6, 7, 8}) // asks for a grant at once
	var wrs []verbs.SendWR
	for range 10 {
		wrs = append(wrs, verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{p.MR.SGE(0, 9)}})
	}
	_, err := p.QP.PostSend(wrs)
	check(t, err)
	r.Progress()
	check(t, p.Ctx.Close())
	ucttest.Until(t, "the end", func() bool { return rc.Silent(p.ep) }, h)
	ucttest.Settle(h)
	if n := rc.Owing(h.Iface); n != 0 || len(h.Failures) != 0 {
		t.Errorf("%d owe a grant, %+v", n, h.Failures)
	}
	check(t, other.ep.AMShort(1, 2, nil, 0, nil))
}

// TestPeerLeavesAsked checks that a Check fails if the internal request in flight before it fails.
func TestPeerLeavesAsked(t *testing.T) {
	for _, by := range []string{"grant", "tail"} {
		t.Run(by, func(t *testing.T) {
			p, other := leaves(t, by)
			c := ucttest.NewCompletion(1)
			if err := p.ep.Check(&c.Completion); err != ucs.InProgress {
				t.Fatal(err)
			}
			over(t, p, other, []*ucttest.Completion{c}, ucs.ErrEndpointTimeout)
		})
		t.Run(by+", and nobody waits", func(t *testing.T) {
			p, other := leaves(t, by)
			check(t, p.ep.Check(nil))
			over(t, p, other, nil, ucs.ErrEndpointTimeout)
		})
	}
}

// TestPeerLeavesWithMore checks that a message after such a request is lost, which is a failure.
func TestPeerLeavesWithMore(t *testing.T) {
	for _, by := range []string{"grant", "tail"} {
		t.Run(by, func(t *testing.T) {
			p, other := leaves(t, by)
			check(t, p.ep.AMShort(1, 2, nil, 0, nil))
			over(t, p, other, nil, ucs.ErrEndpointTimeout)
		})
	}
	// The same for a message that waits for a grant.
	p, other := leaves(t, "tail", "RC_FC_WND_SIZE", "3")
	if err := p.ep.AMShort(1, 2, nil, 0, nil); err != ucs.ErrNoResource {
		t.Fatal(err)
	}
	w := ucttest.NewPending(func() error { return ucs.ErrNoResource })
	check(t, p.ep.PendingAdd(&w.Pending))
	over(t, p, other, nil, ucs.ErrEndpointTimeout)
}
