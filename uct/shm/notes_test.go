//go:build linux

package shm

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// datagrams takes and counts the datagrams in the wakeup socket of a worker.
func datagrams(h *ucttest.Host) (n int) {
	for {
		if _, e := sys.Recv(h.Iface.(*iface).sock.fd, make([]byte, 1)); e != 0 {
			return n
		}
		n++
	}
}

// sleep checks that a blocked sender can be armed.
func sleep(t *testing.T, h *ucttest.Host) {
	t.Helper()
	waited(h, pollTime)
	if err := h.Worker.Arm(); err != nil {
		t.Fatal(err)
	}
}

// blockedOn makes n senders that are blocked on the ring of b and sleep.
func blockedOn(t *testing.T, f *ucttest.Fixture, b *ucttest.Host, n int) (list []*ucttest.Host, eps []uct.Endpoint) {
	t.Helper()
	for range n {
		h := f.Open(t)
		ep := h.Connect(t, b)
		block(t, h, ep)
		sleep(t, h)
		list, eps = append(list, h), append(eps, ep)
	}
	return list, eps
}

// TestNotes: a blocked sender sleeps until its peer frees room in the ring, and is woken once for
// that, however often it has slept.
func TestNotes(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		b := f.Open(t)
		n := count(t, b, 2)
		list, eps := blockedOn(t, f, b, 1)
		a := list[0]
		for range 3 {
			a.Worker.Progress()
			sleep(t, a)
		}
		i := b.Iface.(*iface)
		for i.rx.read+uint64(i.o.maxPoll) <= i.rx.release { // too few messages to free room
			b.Worker.Progress()
		}
		if n := datagrams(a); i.rx.read == 0 || n != 0 {
			t.Errorf("woken %d times", n)
		}
		for *n < i.rx.n {
			b.Worker.Progress()
		}
		awakes(t, a)
		if n := datagrams(a); n != 1 {
			t.Errorf("woken %d times", n)
		}
		ucttest.Until(t, "what has waited", func() bool { return *n == i.rx.n+1 }, a, b)
		// A sender that does not wait is not woken.
		a.Worker.Progress() // until nothing happens, as before every Arm
		for want := *n; *n < 3*i.rx.n; want++ {
			if err := a.Worker.Arm(); err != nil {
				t.Fatal(err)
			}
			if err := eps[0].AMShort(2, 0, nil, 0, nil); err != nil {
				t.Fatal(err)
			}
			for *n == want {
				b.Worker.Progress()
			}
		}
		if n := datagrams(a); n != 0 {
			t.Errorf("woken %d times for nothing", n)
		}
	})
}

// TestManyNotes: of many blocked senders each one with a note gets one datagram, and those for
// whose notes there is no slot check the ring by themselves.
func TestManyNotes(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		b := f.Open(t)
		n := count(t, b, 2)
		list, _ := blockedOn(t, f, b, numNotes+2)
		for full := *n + b.Iface.(*iface).rx.n; *n < full; {
			b.Worker.Progress()
		}
		for k, h := range list {
			awakes(t, h)
			if got, want := datagrams(h), min(1, max(numNotes-k, 0)); got != want {
				t.Errorf("sender %d was sent %d datagrams, want %d", k, got, want)
			}
		}
		all := b.Iface.(*iface).rx.n + len(list)
		ucttest.Until(t, "everything", func() bool { return *n == all }, append(list, b)...)
	})
}

// TestNoteAndEnd: a sender that sleeps is woken when the ring is closed.
func TestNoteAndEnd(t *testing.T) {
	for name, end := range map[string]func(b *ucttest.Host) error{
		"closed":   func(b *ucttest.Host) error { return b.Iface.Close() },
		"replaced": func(b *ucttest.Host) error { b.Iface.(*iface).retire("test", false); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, f *ucttest.Fixture) {
				if name == "replaced" {
					logtest.Watch(t).Expect("ring closed")
				}
				b := f.Open(t)
				list, eps := blockedOn(t, f, b, 1)
				if err := end(b); err != nil {
					t.Fatal(err)
				}
				awakes(t, list[0])
				if n := datagrams(list[0]); n != 1 {
					t.Errorf("woken %d times", n)
				}
				ucttest.Until(t, "the failure", func() bool { return list[0].Failed(eps[0]) != nil }, list[0])
				ucttest.WantStatus(t, "failure", list[0].Failed(eps[0]), ucs.ErrConnectionReset)
			})
		})
	}
}

// TestNotesForC: senders leave no notes in a ring of C UCX, nor in one without slots for notes.
func TestNotesForC(t *testing.T) {
	for name, change := range map[string]func(ring []byte){
		"C UCX":              func(ring []byte) { clear(ring[markOffset:notesOffset]) },
		"no place for notes": func(ring []byte) { clear(ring[notesOffset:elemsOffset]) },
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, f *ucttest.Fixture) {
				b := f.Open(t)
				header := b.Iface.(*iface).rx.seg.mem[tailOffset:elemsOffset]
				change(b.Iface.(*iface).rx.seg.mem)
				before := bytes.Clone(header)
				list, _ := blockedOn(t, f, b, 1)
				awakes(t, list[0])
				if !bytes.Equal(header, before) {
					t.Errorf("a sender wrote % x, before there was % x", header, before)
				}
			})
		})
	}
}

// TestHostileNotes: invalid notes are taken and have no effect.
func TestHostileNotes(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a, b := f.Pair(t)
		ep := a.Connect(t, b)
		i := b.Iface.(*iface)
		for k, bad := range []uint32{0, vacant, 2, note, note | 1<<20, note | 0xffffff, ^uint32(0), bound(i.sock.name)} {
			atomic.StoreUint32(noteAt(i.rx.seg.mem, k), bad)
		}
		n := count(t, b, 2)
		for *n < 3*i.rx.n {
			ucttest.Accept(t, func() error { return ep.AMShort(2, 0, nil, 0, nil) }, a, b)
			b.Worker.Progress()
		}
		for k := range numNotes {
			if got := atomic.LoadUint32(noteAt(i.rx.seg.mem, k)); got&note != 0 {
				t.Errorf("note %d is %#x", k, got)
			}
		}
	})
}

// TestNotesInTurn: a receiver answers senders that use one slot for notes alternately, without
// allocations.
func TestNotesInTurn(t *testing.T) {
	if race.Enabled {
		t.Skip("allocation test: the race detector allocates")
	}
	f := &ucttest.Fixture{Component: component{posixName}}
	i := f.Open(t).Iface.(*iface)
	var senders []*iface
	for range numNotes {
		senders = append(senders, f.Open(t).Iface.(*iface))
	}
	answered := 0
	run := func() {
		for _, s := range senders {
			atomic.StoreUint32(noteAt(i.rx.seg.mem, 0), s.note)
			i.takeNotes()
			answered += sys.Discard(s.sock.fd)
		}
	}
	if n := testing.AllocsPerRun(100, run); n != 0 || answered != 101*numNotes {
		t.Errorf("%v allocations, %d answers", n, answered)
	}
}

// TestBound: only names of sockets that the kernel has chosen become notes.
func TestBound(t *testing.T) {
	for name, want := range map[string]uint32{
		"00000": note, "0002a": note | 0x2a, "fffff": note | 0xfffff,
		"": 0, "2a": 0, "0002A": 0, "00002a": 0, "100000": 0, "+002a": 0, "00_2a": 0, "0x02a": 0,
	} {
		if got := bound(name); got != want {
			t.Errorf("%q: %#x, want %#x", name, got, want)
		}
	}
}

// TestOneWakeup: a sleeping receiver is sent one datagram, however many messages come from however
// many senders.
func TestOneWakeup(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		b := f.Open(t)
		n := count(t, b, 2)
		var eps []uct.Endpoint
		for range 4 {
			eps = append(eps, f.Open(t).Connect(t, b))
		}
		for round := range 3 {
			ucttest.Until(t, "being armed", func() bool { return b.Worker.Arm() == nil }, b)
			for range 10 {
				for _, ep := range eps {
					if err := ep.AMShort(2, 0, nil, 0, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := datagrams(b); got != 1 {
				t.Errorf("%d datagrams for one sleep", got)
			}
			// The receiver cannot sleep again before it has received everything.
			for *n < (round+1)*10*len(eps) {
				ucttest.WantStatus(t, "arming with messages to take", b.Worker.Arm(), ucs.ErrBusy)
				b.Worker.Progress()
			}
		}
	})
}
