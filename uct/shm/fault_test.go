//go:build linux

package shm

import (
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// connected starts another process, connects to it, and makes it connect back.
func connected(t *testing.T, f *ucttest.Fixture, settings ...string) (*ucttest.Host, *goPeer, uct.Endpoint) {
	t.Helper()
	h := f.Open(t)
	p := startPeer(t, f.Component.Name(), settings...)
	ep := h.NewEndpoint(t, uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
	p.do("connect %x %x", h.Iface.DeviceAddress(), h.Iface.Address())
	return h, p, ep
}

// TestTwoProcesses exchanges messages and accesses memory of another process.
func TestTwoProcesses(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		h, p, ep := connected(t, f)
		p.do("progress")
		n := count(t, h, 1)
		for k := range 1000 {
			ucttest.Accept(t, func() error { return ep.AMShort(1, 0, nil, 0, nil) }, h)
			ucttest.Until(t, "the echo", func() bool { return *n == k+1 }, h)
		}
		key, err := h.Domain.UnpackRkey(p.key)
		if err != nil {
			t.Fatal(err)
		}
		data := ucttest.Pattern(1<<20, 1)
		if err := ep.(uct.RMA).PutShort(data, p.mem, key); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 1<<20)
		if err := ep.(uct.RMA).GetBcopy(into(got), len(got), p.mem, key, nil); err != nil {
			t.Fatal(err)
		}
		ucttest.SameBytes(t, "memory of the peer", got, data)
		if err := h.Domain.ReleaseRkey(key); err != nil {
			t.Error(err)
		}
	})
}

// TestPeerKilled kills a peer that has sent messages and receives none, and whose exit the kernel
// does not report. Its messages arrive. The endpoint to it fails when it is checked, or without a
// check when requests wait for it.
func TestPeerKilled(t *testing.T) {
	for _, waiting := range []bool{false, true} {
		both(t, func(t *testing.T, f *ucttest.Fixture) {
			h, p, ep := connected(t, f)
			if h.Iface.(*iface).watcher.Release(1) != 1 {
				t.Error("the process was not watched")
			}
			n := count(t, h, 2)
			p.do("send 100")
			if err := ep.Check(nil); err != nil {
				t.Fatal(err)
			}
			if waiting {
				for ep.AMShort(2, 0, nil, 0, nil) == nil {
				}
				req := ucttest.NewPending(func() error { return ep.AMShort(2, 0, nil, 0, nil) })
				if err := ep.PendingAdd(&req.Pending); err != nil {
					t.Fatal(err)
				}
			}
			p.kill()
			ucttest.Until(t, "its messages", func() bool { return *n == 100 }, h)
			if h.Failed(ep) != nil {
				t.Fatalf("failed before it was checked: %v", h.Failed(ep))
			}
			if waiting {
				for range checkRounds {
					h.Worker.Progress()
				}
			} else if err := ep.Check(nil); err != nil {
				t.Errorf("check: %v", err)
			}
			ucttest.Until(t, "the failure", func() bool { return h.Failed(ep) != nil }, h)
			ucttest.WantStatus(t, "failure", h.Failed(ep), ucs.ErrConnectionReset)
			ucttest.WantStatus(t, "sending after it", ep.AMShort(2, 0, nil, 0, nil), ucs.ErrConnectionReset)
			_, err := h.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
			ucttest.WantStatus(t, "endpoint to a dead peer", err, ucs.ErrUnreachable)
		})
	}
}

// TestClaimedByTheDead kills a peer between claiming an element and filling it. Messages of other
// senders behind that element are delivered in order, the ring is closed, endpoints to it fail, and
// new endpoints work.
func TestClaimedByTheDead(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		logs := logtest.Watch(t)
		h, p, _ := connected(t, f)
		n := count(t, h, 2)
		p.do("send 10")
		p.do("claim")
		p.cmd.Wait()
		i := h.Iface.(*iface)
		other := f.Open(t)
		ep := other.Connect(t, h)
		before := append([]byte(nil), h.Iface.Address()...)
		for k := range 20 {
			if k%2 == 0 {
				if _, err := ep.AMBcopy(2, &ucttest.Packer{Data: make([]byte, 500)}, 0, nil); err != nil {
					t.Fatal(err)
				}
			} else if err := ep.AMShort(2, 0, nil, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		ucttest.Settle(h)
		if *n != 10 {
			t.Fatalf("%d messages, want the 10 before the hole", *n)
		}
		if err := h.Iface.(uct.Progressor).Arm(uct.EventAny); err != ucs.ErrBusy {
			t.Errorf("arming while an element is claimed: %v", err)
		}
		logs.Expect("the peer has probably died")
		i.stuckAfter = time.Millisecond
		ucttest.Until(t, "the ring to be replaced", func() bool { return i.renewals == 1 }, h)
		if *n != 30 {
			t.Errorf("%d messages, want 10 and the 20 behind the hole", *n)
		}
		if same := string(before) == string(h.Iface.Address()); same != (f.Component.Name() == posixName) {
			t.Errorf("address is the same: %v", same)
		}
		ucttest.WantStatus(t, "sending to the old ring", ep.AMShort(2, 0, nil, 0, nil), ucs.ErrConnectionReset)
		ucttest.Until(t, "its failure", func() bool { return other.Failed(ep) != nil }, other)
		talks(t, other, h)
		ucttest.Until(t, "being armed again", func() bool { return h.Worker.Arm() == nil }, h)
		// An endpoint made with the old address is refused or works.
		late, err := other.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: h.Iface.DeviceAddress(), IfaceAddr: before})
		if f.Component.Name() == sysvName {
			ucttest.WantStatus(t, "endpoint to the ring that was closed", err, ucs.ErrUnreachable)
		} else if err != nil {
			t.Error(err)
		} else {
			late.Close()
		}
	})
}

// TestSlowSender checks that a sender that is merely slow loses nothing.
func TestSlowSender(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a, b := f.Pair(t)
		n := count(t, b, 2)
		e := a.Connect(t, b).(*endpoint)
		h, err := e.claim()
		if err != nil {
			t.Fatal(err)
		}
		for range 20 * watchEvery {
			b.Worker.Progress()
		}
		el := e.element(h)
		binaryPut(el)
		e.publish(el, h, flagInline, 2, 8)
		ucttest.Until(t, "the message", func() bool { return *n == 1 }, b)
		if b.Iface.(*iface).renewals != 0 {
			t.Error("the ring was closed")
		}
	})
}

func binaryPut(el []byte) { copy(el[elemPayload:], "12345678") }

// TestTruncated truncates the memory of another process, or of this one. Only files with names can
// be truncated.
func TestTruncated(t *testing.T) {
	f := &ucttest.Fixture{Component: component{posixName}, Config: setting(t, map[string]string{"POSIX_USE_PROC_LINK": "n"})}
	op := map[string]func(ep uct.Endpoint, key *uct.Rkey, addr uint64) error{
		"short":     func(ep uct.Endpoint, _ *uct.Rkey, _ uint64) error { return ep.AMShort(2, 0, nil, 0, nil) },
		"short iov": func(ep uct.Endpoint, _ *uct.Rkey, _ uint64) error { return ep.AMShortIOV(2, nil, 0, nil) },
		"bcopy": func(ep uct.Endpoint, _ *uct.Rkey, _ uint64) error {
			_, err := ep.AMBcopy(2, &ucttest.Packer{Data: make([]byte, 100)}, 0, nil)
			return err
		},
		"put": func(ep uct.Endpoint, key *uct.Rkey, addr uint64) error {
			return ep.(uct.RMA).PutShort(make([]byte, 1<<20), addr, key)
		},
		"put bcopy": func(ep uct.Endpoint, key *uct.Rkey, addr uint64) error {
			_, err := ep.(uct.RMA).PutBcopy(&ucttest.Packer{Data: make([]byte, 100)}, 100, addr, key)
			return err
		},
		"get": func(ep uct.Endpoint, key *uct.Rkey, addr uint64) error {
			return ep.(uct.RMA).GetBcopy(into(make([]byte, 100)), 100, addr, key, nil)
		},
		"fetch 32": func(ep uct.Endpoint, key *uct.Rkey, addr uint64) error {
			return ep.(uct.Atomic).Atomic32Fetch(uct.AtomicAdd, 1, new(uint32), addr, key, nil)
		},
		"fetch 64": func(ep uct.Endpoint, key *uct.Rkey, addr uint64) error {
			return ep.(uct.Atomic).Atomic64Fetch(uct.AtomicSwap, 1, new(uint64), addr, key, nil)
		},
		"add 64 to memory of C UCX": func(ep uct.Endpoint, key *uct.Rkey, addr uint64) error {
			k := key.Handle.(*remoteKey)
			k.life, k.open = nil, &alwaysOpen
			return ep.(uct.Atomic).Atomic64Fetch(uct.AtomicAdd, 1, new(uint64), addr, key, nil)
		},
		"cswap 32": func(ep uct.Endpoint, key *uct.Rkey, addr uint64) error {
			return ep.(uct.Atomic).AtomicCSwap32(1, 2, addr, key, new(uint32), nil)
		},
		"cswap 64": func(ep uct.Endpoint, key *uct.Rkey, addr uint64) error {
			return ep.(uct.Atomic).AtomicCSwap64(1, 2, addr, key, new(uint64), nil)
		},
		"check": func(ep uct.Endpoint, _ *uct.Rkey, _ uint64) error {
			ep.Check(nil)
			return ep.AMShort(2, 0, nil, 0, nil)
		},
	}
	for name, run := range op {
		t.Run(name, func(t *testing.T) {
			noSegments(t)
			ucttest.NoLeaks(t)
			h, p, ep := connected(t, f, "POSIX_USE_PROC_LINK=n")
			key, err := h.Domain.UnpackRkey(p.key)
			if err != nil {
				t.Fatal(err)
			}
			if err := run(ep, key, p.mem); err != nil {
				t.Fatalf("before: %v", err)
			}
			p.do("truncate")
			old := debug.SetPanicOnFault(false)
			ucttest.WantStatus(t, name, run(ep, key, p.mem), ucs.ErrConnectionReset)
			if debug.SetPanicOnFault(old) {
				t.Error("faults are panics after the call")
			}
			ucttest.Until(t, "the failure", func() bool { return h.Failed(ep) != nil }, h)
			_, err = h.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
			ucttest.WantStatus(t, "endpoint to nothing", err, ucs.ErrUnreachable)
			if err := h.Domain.ReleaseRkey(key); err != nil {
				t.Error(err)
			}
			a := f.Open(t)
			talks(t, a, h)
		})
	}
	t.Run("own ring", func(t *testing.T) {
		noSegments(t)
		ucttest.NoLeaks(t)
		logs := logtest.Watch(t)
		logs.Expect("truncated the shared memory")
		a, b := f.Pair(t)
		ep := a.Connect(t, b)
		i := b.Iface.(*iface)
		for _, s := range append(i.pool.chunks, i.rx.seg) {
			if err := unix.Ftruncate(s.fd, 0); err != nil {
				t.Fatal(err)
			}
		}
		ucttest.Until(t, "a new ring", func() bool { return i.renewals == 1 }, b)
		ucttest.WantStatus(t, "sending", ep.AMShort(2, 0, nil, 0, nil), ucs.ErrConnectionReset)
		talks(t, a, b)
	})
	t.Run("buffers only", func(t *testing.T) {
		noSegments(t)
		ucttest.NoLeaks(t)
		logs := logtest.Watch(t)
		logs.Expect("truncated the shared memory")
		a, b := f.Pair(t)
		ep := a.Connect(t, b)
		n := 0
		b.Handle(t, 2, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error { n += int(data[0]); return nil })
		if _, err := ep.AMBcopy(2, &ucttest.Packer{Data: []byte{1}}, 0, nil); err != nil {
			t.Fatal(err)
		}
		i := b.Iface.(*iface)
		if err := unix.Ftruncate(i.pool.chunks[0].fd, 0); err != nil {
			t.Fatal(err)
		}
		ucttest.Until(t, "a new ring", func() bool { return i.renewals == 1 }, b)
		talks(t, a, b)
	})
}

// TestCutWhileHandled truncates the memory of a message while a handler reads it: the handler gets
// the whole message, runs to its end once, and is given no descriptor to keep.
func TestCutWhileHandled(t *testing.T) {
	noSegments(t)
	ucttest.NoLeaks(t)
	logs := logtest.Watch(t)
	logs.Allow("truncated the shared memory")
	f := &ucttest.Fixture{Component: component{posixName}, Config: setting(t, map[string]string{"POSIX_USE_PROC_LINK": "n"})}
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	i := b.Iface.(*iface)
	want := ucttest.Pattern(5000, 1)
	done := 0
	b.Handle(t, 2, func(_ *uct.Source, data []byte, desc *uct.AMDesc) error {
		for _, s := range i.pool.chunks {
			if err := unix.Ftruncate(s.fd, 0); err != nil {
				t.Error(err)
			}
		}
		ucttest.SameBytes(t, "message", data, want)
		if desc != nil {
			t.Error("a handler may keep memory that can be cut short")
		}
		done++
		return nil
	})
	if _, err := ep.AMBcopy(2, &ucttest.Packer{Data: want}, 0, nil); err != nil {
		t.Fatal(err)
	}
	ucttest.Progress(b)
	if done != 1 {
		t.Errorf("the handler came to its end %d times", done)
	}
}

// TestCutWhileFilled truncates a ring before a sender fills an element.
func TestCutWhileFilled(t *testing.T) {
	noSegments(t)
	ucttest.NoLeaks(t)
	f := &ucttest.Fixture{Component: component{posixName}, Config: setting(t, map[string]string{"POSIX_USE_PROC_LINK": "n"})}
	h := f.Open(t)
	i := h.Iface.(*iface)
	slots, err := i.slots()
	if err != nil {
		t.Fatal(err)
	}
	path := i.rx.seg.path
	_, err = i.domain.m.replace(i.rx.seg, i.ringOptions(), func(s *segment) error {
		if err := unix.Ftruncate(s.fd, 0); err != nil {
			t.Error(err)
		}
		old := debug.SetPanicOnFault(false)
		err := i.fillRing(s, slots)
		if debug.SetPanicOnFault(old) {
			t.Error("faults are panics after the call")
		}
		return err
	})
	ucttest.WantStatus(t, "filling what is not there", err, ucs.ErrShmemSegment)
	if i.rx.seg.path != path || i.rx.seg.fd < 0 {
		t.Errorf("the old ring has lost its file")
	}
	talks(t, f.Open(t), h)
}

// TestOtherPanics checks that a fence does not catch panics of a packer, nor faults outside the
// memory that it protects.
func TestOtherPanics(t *testing.T) {
	f := &ucttest.Fixture{Component: component{posixName}, Config: setting(t, map[string]string{"POSIX_USE_PROC_LINK": "n"})}
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	panics := func(name string, fn func()) (r any) {
		t.Helper()
		defer func() {
			if r = recover(); r == nil {
				t.Errorf("%s: no panic", name)
			}
		}()
		fn()
		return nil
	}
	if r := panics("packer", func() { ep.AMBcopy(2, bomb(func() { panic("mine") }), 0, nil) }); r != "mine" {
		t.Errorf("panic became %v", r)
	}
	mem, err := mmapForFault(t)
	if err != nil {
		t.Fatal(err)
	}
	panics("fault elsewhere", func() {
		ep.AMBcopy(2, bomb(func() { mem[0] = 1 }), 0, nil)
	})
	if ep.(*endpoint).failure != nil {
		t.Errorf("the endpoint failed: %v", ep.(*endpoint).failure)
	}
}

type bomb func()

func (b bomb) Pack([]byte) int { b(); return 0 }

// mmapForFault maps a page of an empty file, so that access to it faults.
func mmapForFault(t *testing.T) ([]byte, error) {
	fd, err := unix.MemfdCreate("nothing", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	mem, err := mmap(fd, pageSize, 0, false)
	unix.Close(fd)
	if err == nil {
		t.Cleanup(func() { munmap(mem) })
	}
	return mem, err
}

// TestSealed checks that no process can truncate memory of this one that has no name.
func TestSealed(t *testing.T) {
	f := &ucttest.Fixture{Component: component{posixName}}
	h := f.Open(t)
	i := h.Iface.(*iface)
	for _, s := range append(i.pool.chunks, i.rx.seg) {
		if err := unix.Ftruncate(s.fd, 0); err != unix.EPERM {
			t.Errorf("truncating: %v", err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(s.fd, &st); err != nil || st.Mode&0o777 != 0o600 {
			t.Errorf("mode %#o, %v", st.Mode, err)
		}
	}
	o, err := i.domain.m.open(reference{id: i.rx.seg.id}, 0)
	if err != nil || o.shrink || o.size != 33023 {
		t.Errorf("opened: %+v, %v", o, err)
	}
	i.domain.m.close(o)
}

// TestArmWhileBlocked: a worker with a request that has just begun to wait for room cannot be
// armed. Later it can, and the sleep ends by itself.
func TestArmWhileBlocked(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a, b := f.Pair(t)
		ep := a.Connect(t, b)
		foreign(ep)
		n := count(t, b, 2)
		for ep.AMShort(2, 0, nil, 0, nil) == nil {
		}
		sent := int(atomic.LoadUint64(b.Iface.(*iface).rx.head) &^ armed)
		ucttest.Until(t, "being armed", func() bool { return a.Worker.Arm() == nil }, a)
		req := ucttest.NewPending(func() error { return ep.AMShort(2, 0, nil, 0, nil) })
		if err := ep.PendingAdd(&req.Pending); err != nil {
			t.Fatal(err)
		}
		ucttest.Progress(a)
		ucttest.WantStatus(t, "arming with a request that waits", a.Worker.Arm(), ucs.ErrBusy)
		i := a.Iface.(*iface)
		i.blocked.since -= pollTime
		if err := a.Worker.Arm(); err != nil {
			t.Errorf("arming with a request that has waited: %v", err)
		}
		awakes(t, a)
		ucttest.Until(t, "all messages", func() bool { return *n == sent+1 }, a, b)
		ucttest.Until(t, "being armed", func() bool { return a.Worker.Arm() == nil }, a)
	})
}

// TestFenceStays: a fault in the application's own memory panics in the application. If the
// application recovers, the next message to a ring that can be truncated is fenced as before.
func TestFenceStays(t *testing.T) {
	noSegments(t)
	f := &ucttest.Fixture{Component: component{posixName}, Config: setting(t, map[string]string{"POSIX_USE_PROC_LINK": "n"})}
	_, p, ep := connected(t, f, "POSIX_USE_PROC_LINK=n")
	e := ep.(*endpoint)
	if !e.fenced {
		t.Fatal("the ring cannot be cut short")
	}
	gone, err := unix.Mmap(-1, 0, pageSize, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(gone)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("memory that is not there was sent")
			}
		}()
		ep.AMShort(2, 0, gone[:20], 0, nil)
	}()
	if !e.fenced || e.limit != 0 {
		t.Error("the fence is gone")
	}
	p.do("truncate")
	ucttest.WantStatus(t, "short", ep.AMShort(2, 0, nil, 0, nil), ucs.ErrConnectionReset)
}
