//go:build linux

package shm

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestFullAddressSpace attaches huge sparse files: the address space that they take is limited, and
// is returned.
func TestFullAddressSpace(t *testing.T) {
	if race.Enabled || strconv.IntSize == 32 {
		t.Skip("the race detector, or 32 bits, leave no room for mappings of this size")
	}
	d := openDomain(component{posixName}, newPosix(posixDomainSettings{UseProcLink: true, Dir: defaultDir}))
	before := attachedTotal.bytes
	const size = 1 << 43
	huge := func() *attachment {
		t.Helper()
		fd, err := unix.MemfdCreate("huge", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		a, err := d.attached.attach(reference{id: idProcFS | uint64(fd)<<idFieldBits | uint64(os.Getpid())}, 0)
		if err != nil {
			ucttest.WantStatus(t, "one too many", err, ucs.ErrExceedsLimit)
			ucttest.WantStatus(t, "one too many", err, ucs.ErrUnreachable)
		}
		return a
	}
	var list []*attachment
	for len(list) < 1<<47/size {
		a := huge()
		if a == nil {
			break
		}
		list = append(list, a)
	}
	if n := len(list); n == 0 || n > maxAttachedBytes/size {
		t.Errorf("%d segments of %d bytes were attached", n, uint64(size))
	}
	for _, a := range list {
		d.attached.release(a)
	}
	if after := attachedTotal.bytes; after != before {
		t.Errorf("%d bytes counted, %d before", after, before)
	}
	a := huge()
	if a == nil {
		t.Fatal("nothing can be attached any more")
	}
	d.attached.release(a)
}

// flood sends datagrams to the wakeup socket of b until it is full.
func flood(a, b *ucttest.Host) (sent int) {
	to := &unix.SockaddrUnix{Name: "@" + b.Iface.(*iface).sock.name}
	for sent < 1000 && unix.Sendto(a.Iface.(*iface).sock.fd, wakeByte, unix.MSG_DONTWAIT, to) == nil {
		sent++
	}
	return sent
}

// TestFlood queues many datagrams at a wakeup socket: one call takes a bounded number of them, so a
// sender cannot occupy the receiver for ever.
func TestFlood(t *testing.T) {
	f := &ucttest.Fixture{Component: component{posixName}}
	a, b := f.Pair(t)
	sent := flood(a, b)
	b.Iface.(*iface).sock.HandleEvent(event.Read)
	if left := datagrams(b); left != max(sent-sys.AtOnce, 0) {
		t.Errorf("%d datagrams left of %d", left, sent)
	}
	flood(a, b)
	if err := b.Iface.(*iface).Arm(uct.EventAny); err != nil {
		t.Errorf("arming with datagrams in the queue, which keep the event set readable: %v", err)
	}
}

// TestFloodAndEdge: an edge-triggered waiter is woken by a message after a flood of datagrams and a
// datagram that arrives between progress and arming.
func TestFloodAndEdge(t *testing.T) {
	f := &ucttest.Fixture{Component: component{posixName}}
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(set)
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}
	if err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, b.Worker.EventFD(), &ev); err != nil {
		t.Fatal(err)
	}
	told := func(of string) {
		t.Helper()
		if n, err := unix.EpollWait(set, make([]unix.EpollEvent, 1), 0); n != 1 || err != nil {
			t.Fatalf("not told of %s: %v", of, err)
		}
	}
	arm := func() {
		t.Helper()
		if err := b.Worker.Arm(); err != nil {
			t.Fatal(err)
		}
	}
	arm()
	if sent := flood(a, b); sent > sys.AtOnce {
		t.Skipf("a socket's queue is too long: it takes %d datagrams", sent)
	}
	told("the flood")
	ucttest.Progress(b)
	a.Iface.(*iface).sock.wake(b.Iface.(*iface).sock.name)
	told("one more")
	arm()
	if err := ep.AMShort(1, 0, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	told("a message")
}

// TestUnreadWakeups: a peer is woken although other peers have left their datagrams unread until
// the sender's socket buffer was full.
func TestUnreadWakeups(t *testing.T) {
	f := &ucttest.Fixture{Component: component{posixName}}
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	fd := a.Iface.(*iface).sock.fd
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 0); err != nil {
		t.Fatal(err)
	}
	for full := false; !full; {
		stopped := f.Open(t).Iface.(*iface).sock // may be full before the buffer is
		to := &unix.SockaddrUnix{Name: "@" + stopped.name}
		sent := 0
		for unix.Sendto(fd, wakeByte, unix.MSG_DONTWAIT, to) == nil {
			sent++
		}
		full = sent == 0
	}
	if err := b.Worker.Arm(); err != nil {
		t.Fatal(err)
	}
	if err := ep.AMShort(1, 0, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	if n := datagrams(b); n != 1 {
		t.Errorf("woken %d times", n)
	}
}

// movingMapper calls a function while a segment is being opened.
type movingMapper struct {
	mapper
	move func()
}

func (m *movingMapper) open(ref reference, pid int) (object, error) {
	if m.move != nil {
		m.move()
	}
	return m.mapper.open(ref, pid)
}

// TestTornDescriptor: a sender reads the descriptor of an element while the ring's owner replaces
// it, as another sender has used the element. What it reads is invalid, but the endpoint must not
// fail.
func TestTornDescriptor(t *testing.T) {
	for _, c := range []struct {
		name string
		torn func(d *descriptor)
	}{
		{"segment", func(d *descriptor) { d.seg ^= 1 << 40 }},
		{"offset", func(d *descriptor) { d.offset = ^uint32(0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &ucttest.Fixture{Component: component{posixName}}
			a, b := f.Pair(t)
			n := count(t, b, 2)
			e := a.Connect(t, b).(*endpoint)
			// The endpoint has not attached these buffers yet.
			for _, s := range e.segs {
				a.Domain.(*domain).attached.release(s.attachment)
			}
			e.segs = nil
			other := b.Connect(t, b)
			r := &b.Iface.(*iface).rx
			good := readDescriptor(r.elems)
			torn := good
			c.torn(&torn)
			torn.put(r.elems)
			m := &movingMapper{mapper: a.Domain.(*domain).m}
			m.move = func() {
				m.move = nil
				if err := other.AMShort(2, 0, nil, 0, nil); err != nil {
					t.Error(err)
				}
				good.put(r.elems)
			}
			a.Domain.(*domain).attached.m = m
			if _, err := e.AMBcopy(2, &ucttest.Packer{Data: make([]byte, 8)}, 0, nil); err != nil {
				t.Errorf("sending: %v", err)
			}
			ucttest.Until(t, "both messages", func() bool { return *n == 2 }, b)
			if e.failure != nil {
				t.Errorf("the endpoint failed: %v", e.failure)
			}
		})
	}
}

// TestCloseInCallback: inside progress an endpoint can be closed, its interface cannot.
func TestCloseInCallback(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a, b := f.Pair(t)
		ep := a.Connect(t, b)
		n := count(t, b, 2)
		for ep.AMShort(2, 0, nil, 0, nil) == nil {
		}
		called := false
		req := ucttest.NewPending(func() error {
			called = true
			ep.Close()
			ucttest.WantStatus(t, "closing inside progress", a.Iface.Close(), ucs.ErrBusy)
			return nil
		})
		if err := ep.PendingAdd(&req.Pending); err != nil {
			t.Fatal(err)
		}
		ucttest.Until(t, "the request", func() bool { return called }, b, a)
		ucttest.Until(t, "messages", func() bool { return *n > 0 }, b, a)
	})
}

// TestDeliveredByProgress: messages behind an element that stays empty are delivered by progress,
// never inside Arm.
func TestDeliveredByProgress(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		logs := logtest.Watch(t)
		logs.Expect("the peer has probably died")
		a, b := f.Pair(t)
		e := a.Connect(t, b).(*endpoint)
		n := count(t, b, 2)
		if _, err := e.claim(); err != nil {
			t.Fatal(err)
		}
		if err := e.AMShort(2, 0, nil, 0, nil); err != nil {
			t.Fatal(err)
		}
		i := b.Iface.(*iface)
		i.stuckAfter = 0
		ucttest.Until(t, "the ring to be replaced", func() bool {
			before := *n
			if err := b.Iface.(uct.Progressor).Arm(uct.EventAny); err != nil && err != ucs.ErrBusy {
				t.Fatal(err)
			}
			if *n != before {
				t.Fatal("a handler ran inside Arm")
			}
			return i.renewals == 1
		}, b)
		if *n != 1 {
			t.Errorf("%d messages", *n)
		}
	})
}

// TestNewRingNotStuck: the time for which an element of the old ring stayed empty does not count
// for the new ring.
func TestNewRingNotStuck(t *testing.T) {
	logs := logtest.Watch(t)
	logs.Expect("invalid data in the ring")
	f := &ucttest.Fixture{Component: component{posixName}}
	a, b := f.Pair(t)
	e := a.Connect(t, b).(*endpoint)
	if _, err := e.claim(); err != nil {
		t.Fatal(err)
	}
	i := b.Iface.(*iface)
	i.watch()
	if !i.stall.watching {
		t.Fatal("an empty element is not watched")
	}
	i.stall.since -= 2 * stuckAfter
	atomic.StoreUint64(i.rx.head, 1<<20)
	i.watch()
	if i.renewals != 1 {
		t.Fatal("the ring was not replaced")
	}
	e = a.Connect(t, b).(*endpoint)
	if _, err := e.claim(); err != nil {
		t.Fatal(err)
	}
	if i.watch(); i.renewals != 1 {
		t.Error("the new ring was taken for one that is stuck")
	}
	ucttest.Until(t, "the failure of the first endpoint", func() bool { return true }, a)
}

// TestForeignDirectory: a peer cannot make this process open files in directories other than its
// own, which may be on file systems of the peer.
func TestForeignDirectory(t *testing.T) {
	dir := shmDir(t)
	for _, m := range []*posix{
		newPosix(posixDomainSettings{UseProcLink: true, Dir: defaultDir}),
		newPosix(posixDomainSettings{Dir: dir}),
	} {
		other := shmDir(t)
		for _, at := range []string{other, ""} {
			name := fileName(idOurs | 5)
			if at != "" {
				name = at + "/" + name
			} else {
				t.Cleanup(func() { os.Remove(name) })
			}
			if err := os.WriteFile(name, []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
			o, err := m.open(reference{id: idOurs | 5, dir: at}, 0)
			if err == nil {
				m.close(o)
			}
			ucttest.WantStatus(t, "opening a file in "+at, err, ucs.ErrUnreachable)
			if err != nil && !strings.Contains(err.Error(), "UCX_POSIX_DIR") {
				t.Errorf("error says no remedy: %v", err)
			}
		}
	}
}
