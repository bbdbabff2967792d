//go:build linux

package shm

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// scribbles is how many values a test writes.
const scribbles = 50

// idlers are the calls that a receiver makes when there are no messages.
var idlers = map[string]func(h *ucttest.Host){
	"awake": func(h *ucttest.Host) {
		for range 2 * watchEvery {
			h.Worker.Progress()
		}
	},
	"going to sleep": func(h *ucttest.Host) { h.Iface.(uct.Progressor).Arm(uct.EventAny) },
}

// TestScribbledTail: a process writes to the tail of a ring, which only the receiver may write.
// Existing and new endpoints get through again, whether the receiver progresses or goes to sleep.
func TestScribbledTail(t *testing.T) {
	for name, idle := range idlers {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, f *ucttest.Fixture) {
				a, b := f.Pair(t)
				got := 0
				b.Handle(t, 3, func(*uct.Source, []byte, *uct.AMDesc) error { got++; return nil })
				old := a.Connect(t, b)
				random := rand.New(rand.NewPCG(1, 2))
				for k := range scribbles {
					// The ring looks full, or more elements look claimed than there are.
					r := &b.Iface.(*iface).rx
					bad := r.read - uint64(r.n)
					if k%2 == 1 {
						bad = r.read - 1<<40 - random.Uint64N(1<<60)
					}
					atomic.StoreUint64(r.tail, bad)
					young := a.Connect(t, b)
					ucttest.WantStatus(t, "sending to a ring that looks full", young.AMShort(3, 0, nil, 0, nil), ucs.ErrNoResource)
					idle(b)
					for _, ep := range []uct.Endpoint{young, old} {
						if err := ep.AMShort(3, 0, nil, 0, nil); err != nil {
							t.Fatalf("scribble %d, tail %#x: %v", k, bad, err)
						}
					}
					young.Close()
					for want := 2 * (k + 1); got < want; {
						b.Worker.Progress()
					}
				}
				if b.Iface.(*iface).renewals != 0 {
					t.Error("the ring was replaced")
				}
			})
		})
	}
}

// TestScribbledTailAndNotes: a sender that sleeps because a ring looks full is woken when the
// receiver has corrected the tail.
func TestScribbledTailAndNotes(t *testing.T) {
	for name, idle := range idlers {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, f *ucttest.Fixture) {
				b := f.Open(t)
				n := count(t, b, 2)
				r := &b.Iface.(*iface).rx
				atomic.StoreUint64(r.tail, r.read-uint64(r.n))
				list, _ := blockedOn(t, f, b, 1)
				idle(b)
				if n := datagrams(list[0]); n != 1 {
					t.Errorf("woken %d times", n)
				}
				ucttest.Until(t, "what has waited", func() bool { return *n == 1 }, list[0], b)
			})
		})
	}
}

// TestTailOfNobody: the tail stays correct while only the receiver writes it, however many messages
// have come.
func TestTailOfNobody(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a, b := f.Pair(t)
		got := 0
		b.Handle(t, 3, func(*uct.Source, []byte, *uct.AMDesc) error { got++; return nil })
		ep := a.Connect(t, b)
		i := b.Iface.(*iface)
		for n := range 3 * i.rx.n {
			if err := ep.AMShort(3, 0, nil, 0, nil); err != nil {
				t.Fatal(err)
			}
			for got <= n {
				b.Worker.Progress()
			}
			if i.watch(); i.scribbled {
				t.Fatalf("behind message %d the tail seems written by somebody else", n)
			}
		}
	})
}

// TestScribbledHead: a head that no sender writes closes the ring, and new senders use another one.
func TestScribbledHead(t *testing.T) {
	for name, bad := range map[string]func(r *ring) uint64{
		"before what was read": func(r *ring) uint64 { return r.read - 1 },
		"beyond the ring":      func(r *ring) uint64 { return r.read + uint64(r.n) + 1 },
		"anything":             func(r *ring) uint64 { return r.read + 1<<41 },
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, f *ucttest.Fixture) {
				a, b := f.Pair(t)
				got := 0
				b.Handle(t, 3, func(*uct.Source, []byte, *uct.AMDesc) error { got++; return nil })
				old := a.Connect(t, b)
				if err := old.AMShort(3, 0, nil, 0, nil); err != nil {
					t.Fatal(err)
				}
				for got < 1 {
					b.Worker.Progress()
				}
				i := b.Iface.(*iface)
				atomic.StoreUint64(i.rx.head, bad(&i.rx))
				for k := 0; i.renewals == 0 && k < 4*watchEvery; k++ {
					b.Worker.Progress()
				}
				if i.renewals != 1 {
					t.Fatalf("the ring was replaced %d times", i.renewals)
				}
				young := a.Connect(t, b)
				if err := young.AMShort(3, 0, nil, 0, nil); err != nil {
					t.Fatal(err)
				}
				for got < 2 {
					b.Worker.Progress()
				}
			})
		})
	}
}
