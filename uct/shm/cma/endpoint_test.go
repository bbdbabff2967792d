//go:build linux

package cma

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestInline: small operations complete inside the call, large ones in progress.
func TestInline(t *testing.T) {
	ucttest.NoLeaks(t)
	h := open(t)
	ep := self(t, h)
	dst := make([]byte, inlineMax+1)
	src := ucttest.Pattern(len(dst), 1)
	if err := ep.PutZcopy(iovOf(src[:inlineMax]), addressOf(dst), nil, nil); err != nil {
		t.Fatalf("small put: %v", err)
	}
	ucttest.SameBytes(t, "target", dst[:inlineMax], src[:inlineMax])
	if err := h.Worker.Arm(); err != nil {
		t.Errorf("arming with nothing to do: %v", err)
	}
	c := ucttest.NewCompletion(2)
	if err := ep.PutZcopy(iovOf(src), addressOf(dst), nil, &c.Completion); err != ucs.InProgress {
		t.Fatalf("large put: %v", err)
	}
	// Behind a queued operation even a small one waits: it must not overtake.
	got := make([]byte, 8)
	if err := ep.GetZcopy(iovOf(got), addressOf(dst[inlineMax-7:]), nil, &c.Completion); err != ucs.InProgress {
		t.Fatalf("get behind a put: %v", err)
	}
	ucttest.WantStatus(t, "arming with operations queued", h.Worker.Arm(), ucs.ErrBusy)
	ucttest.Until(t, "both", func() bool { return c.Fired == 1 }, h)
	ucttest.SameBytes(t, "what the get read", got, src[inlineMax-7:])
	if c.Err != nil {
		t.Error(c.Err)
	}
}

// TestPieces counts the bytes that a round of progress copies, and checks that endpoints alternate.
func TestPieces(t *testing.T) {
	const seg, quota, size = 8192, 2, 10 * 8192
	h := open(t, "SEG_SIZE=8192", "TX_QUOTA=2")
	src := ucttest.Pattern(size, 9)
	var eps [3]*endpoint
	var dst [3][]byte
	c := ucttest.NewCompletion(len(eps))
	for k := range eps {
		eps[k], dst[k] = self(t, h), make([]byte, size)
		// Three parts, none of which ends where a segment does.
		if err := eps[k].PutZcopy(iovOf(src[:1000], src[1000:20001], src[20001:]), addressOf(dst[k]), nil, &c.Completion); err != ucs.InProgress {
			t.Fatal(err)
		}
	}
	left := func() (total, most, least int) {
		least = size
		for _, e := range eps {
			n := 0
			if o := e.queue.head; o != nil {
				n = o.left
			}
			total, most, least = total+n, max(most, n), min(least, n)
		}
		return total, most, least
	}
	before := size * len(eps)
	for before > 0 {
		h.Worker.Progress()
		now, most, least := left()
		if want := max(before-quota*seg, 0); now != want {
			t.Fatalf("a round left %d bytes, want %d", now, want)
		}
		if most-least > seg {
			t.Fatalf("one endpoint has %d bytes left, another %d", most, least)
		}
		before = now
	}
	if c.Fired != 1 || c.Err != nil {
		t.Errorf("told %d times, error %v", c.Fired, c.Err)
	}
	for k := range dst {
		ucttest.SameBytes(t, "target", dst[k], src)
	}
}

// TestManyEntries passes more entries than one system call takes, some of them empty.
func TestManyEntries(t *testing.T) {
	h := open(t, "MAX_IOV=100")
	ep := self(t, h)
	src := ucttest.Pattern(100*1000, 4)
	var list [][]byte
	for k := 0; k < 100; k++ {
		n := 1000
		if k%7 == 3 {
			n = 0
		}
		list = append(list, src[k*1000:k*1000+n])
	}
	want := bytes.Join(list, nil)
	dst := make([]byte, len(want))
	c := ucttest.NewCompletion(1)
	c.Finish(t, ep.PutZcopy(iovOf(list...), addressOf(dst), nil, &c.Completion), h)
	ucttest.SameBytes(t, "target", dst, want)
	if err := ep.PutZcopy(iovOf(append(list, nil)...), addressOf(dst), nil, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("101 entries: %v", err)
	}
	if err := ep.GetZcopy(iovOf(nil, nil), 0, nil, nil); err != nil {
		t.Errorf("nothing: %v", err)
	}
}

// TestPending fills the interface and checks that requests wait until there is room.
func TestPending(t *testing.T) {
	h := open(t, "TX_MAX_BUFS=1", "SEG_SIZE=65536")
	first, second := self(t, h), self(t, h)
	buf, dst := make([]byte, 256<<10), make([]byte, 256<<10)
	start := func(e *endpoint, c *ucttest.Completion) error {
		return e.PutZcopy(iovOf(buf), addressOf(dst), nil, &c.Completion)
	}
	c := ucttest.NewCompletion(1)
	p := ucttest.NewPending(nil)
	if err := second.PendingAdd(&p.Pending); err != ucs.ErrBusy {
		t.Errorf("adding when sending is possible: %v", err)
	}
	if err := start(first, c); err != ucs.InProgress {
		t.Fatal(err)
	}
	for _, e := range []*endpoint{first, second} {
		if err := start(e, c); err != ucs.ErrNoResource {
			t.Fatalf("more than the limit: %v", err)
		}
	}
	if err := first.Flush(uct.FlushLocal, &c.Completion); err != ucs.ErrNoResource {
		t.Fatalf("flush beyond the limit: %v", err)
	}
	var order []int
	var done [2]*ucttest.Completion
	for k := range done {
		done[k] = ucttest.NewCompletion(1)
		p := ucttest.NewPending(func() error {
			err := start(second, done[k])
			if err == ucs.InProgress {
				order = append(order, k)
				err = nil
			}
			return err
		})
		if err := second.PendingAdd(&p.Pending); err != nil {
			t.Fatal(err)
		}
	}
	ucttest.Until(t, "all operations", func() bool { return done[0].Fired+done[1].Fired+c.Fired == 3 }, h)
	if len(order) != 2 || order[0] != 0 || order[1] != 1 {
		t.Errorf("dispatched in order %v", order)
	}
	ucttest.Until(t, "nothing to do", func() bool { return h.Worker.Arm() == nil }, h)
}

// TestFlush: a flush completes after the operations that were accepted before it.
func TestFlush(t *testing.T) {
	h := open(t, "SEG_SIZE=4096")
	ep := self(t, h)
	buf, dst := make([]byte, 64<<10), make([]byte, 64<<10)
	op, flush := ucttest.NewCompletion(1), ucttest.NewCompletion(1)
	if err := ep.PutZcopy(iovOf(buf), addressOf(dst), nil, &op.Completion); err != ucs.InProgress {
		t.Fatal(err)
	}
	if err := ep.Flush(uct.FlushRemote, &flush.Completion); err != ucs.InProgress {
		t.Fatal(err)
	}
	for flush.Fired == 0 {
		if op.Fired == 0 && ep.queue.head == nil {
			t.Fatal("an operation was lost")
		}
		h.Worker.Progress()
	}
	if op.Fired != 1 || op.Err != nil || flush.Err != nil {
		t.Errorf("operation told %d times, %v; flush %v", op.Fired, op.Err, flush.Err)
	}
}

// TestCancel: a canceling flush, or closing the endpoint, cancels its operations.
func TestCancel(t *testing.T) {
	for name, cancel := range map[string]func(e *endpoint) error{
		"flush": func(e *endpoint) error { return e.Flush(uct.FlushCancel, nil) },
		"close": func(e *endpoint) error { e.Close(); e.Close(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			ucttest.NoLeaks(t)
			h := open(t, "SEG_SIZE=4096")
			ep := self(t, h)
			buf, dst := make([]byte, 64<<10), make([]byte, 64<<10)
			var list [3]*ucttest.Completion
			for k := range list {
				list[k] = ucttest.NewCompletion(1)
				if err := ep.GetZcopy(iovOf(buf), addressOf(dst), nil, &list[k].Completion); err != ucs.InProgress {
					t.Fatal(err)
				}
			}
			h.Worker.Progress()
			if err := cancel(ep); err != nil {
				t.Fatal(err)
			}
			for k, c := range list {
				if c.Fired != 1 || !errors.Is(c.Err, ucs.ErrCanceled) {
					t.Errorf("operation %d: told %d times, %v", k, c.Fired, c.Err)
				}
			}
			if err := ep.PutZcopy(iovOf(buf[:8]), addressOf(dst), nil, nil); err == nil || err == ucs.InProgress || err == ucs.ErrNoResource {
				t.Errorf("a put afterwards: %v", err)
			}
			ucttest.Until(t, "nothing to do", func() bool { return h.Worker.Arm() == nil }, h)
			if len(h.Failures) > 0 {
				t.Errorf("reported as a failure: %v", h.Failures)
			}
		})
	}
}

// TestCloseInCompletion closes an endpoint with queued operations inside the completion of its
// first one.
func TestCloseInCompletion(t *testing.T) {
	h := open(t)
	ep := self(t, h)
	buf, dst := make([]byte, 64<<10), make([]byte, 64<<10)
	second := ucttest.NewCompletion(1)
	first := &uct.Completion{Owner: closer{ep}, Count: 1}
	for _, c := range []*uct.Completion{first, &second.Completion} {
		if err := ep.PutZcopy(iovOf(buf), addressOf(dst), nil, c); err != ucs.InProgress {
			t.Fatal(err)
		}
	}
	ucttest.Until(t, "the second", func() bool { return second.Fired > 0 }, h)
	if !errors.Is(second.Err, ucs.ErrCanceled) {
		t.Errorf("the second operation: %v", second.Err)
	}
}

type closer struct{ ep uct.Endpoint }

func (c closer) Completed(*uct.Completion) { c.ep.Close() }

// TestAccessErrors accesses memory with an unmapped page. Bytes before that page are copied;
// nothing behind it changes.
func TestAccessErrors(t *testing.T) {
	const page = 4096
	for _, size := range []int{2 * page, 40 * page} { // inside the call, in progress
		h := open(t, "SEG_SIZE=20000")
		mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(mem)
		hole := size / 2
		if err := unix.Mprotect(mem[hole:hole+page], unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
		src := ucttest.Pattern(size, 8)
		ep, other := self(t, h), self(t, h)
		c := ucttest.NewCompletion(1)
		if err := ep.PutZcopy(iovOf(src), addressOf(mem), nil, &c.Completion); err != ucs.InProgress {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if len(h.Failures) > 0 {
			t.Error("the failure was reported inside the call")
		}
		ucttest.Until(t, "the failure", func() bool { return h.Failed(ep) != nil }, h)
		ucttest.Settle(h)
		if len(h.Failures) != 1 || c.Fired != 1 || !errors.Is(c.Err, ucs.ErrInvalidAddr) || !errors.Is(c.Err, unix.EFAULT) {
			t.Errorf("%d failures, told %d times: %v", len(h.Failures), c.Fired, c.Err)
		}
		if !errors.Is(h.Failed(ep), ucs.ErrInvalidAddr) {
			t.Errorf("endpoint failed with %v", h.Failed(ep))
		}
		ucttest.SameBytes(t, "memory before the hole", mem[:hole], src[:hole])
		ucttest.SameBytes(t, "memory behind it", mem[hole+page:], make([]byte, size-hole-page))
		for name, err := range map[string]error{
			"put":   ep.PutZcopy(iovOf(src[:8]), addressOf(mem), nil, nil),
			"flush": ep.Flush(uct.FlushLocal, nil),
			"check": ep.Check(nil),
		} {
			if !errors.Is(err, ucs.ErrInvalidAddr) {
				t.Errorf("%s on the failed endpoint: %v", name, err)
			}
		}
		if err := other.PutZcopy(iovOf(src[:8]), addressOf(mem), nil, nil); err != nil {
			t.Errorf("another endpoint: %v", err)
		}
	}
}

// TestHostileRemoteAddresses accesses remote addresses where nothing is mapped.
func TestHostileRemoteAddresses(t *testing.T) {
	h := open(t)
	for _, raddr := range []uint64{0, 1, 4095, 1 << 47, 1<<63 - 1, 1 << 63, ^uint64(0) - 64, ^uint64(0) - 7, ^uint64(0)} {
		for _, n := range []int{1, 64, 100 << 10} {
			buf := ucttest.Pattern(n, raddr)
			ep := self(t, h)
			c := ucttest.NewCompletion(1)
			err := ep.GetZcopy(iovOf(buf), raddr, nil, &c.Completion)
			if err == ucs.InProgress {
				ucttest.Until(t, "the end", func() bool { return c.Fired > 0 }, h)
				err = c.Err
			}
			if !errors.Is(err, ucs.ErrInvalidAddr) {
				t.Errorf("%d bytes at %#x: %v", n, raddr, err)
			}
			ucttest.SameBytes(t, "the local buffer", buf, ucttest.Pattern(n, raddr))
		}
	}
}

// TestPeerKilled kills a peer with operations in progress. The endpoint to the other peer keeps
// working.
func TestPeerKilled(t *testing.T) {
	ucttest.NoLeaks(t)
	h := open(t)
	target, survivor := newProcess(t, "usual", 0), newProcess(t, "usual", 0)
	ep, other := target.connect(t, h), survivor.connect(t, h)
	buf := make([]byte, childMemory)
	var list [4]*ucttest.Completion
	for k := range list {
		list[k] = ucttest.NewCompletion(1)
		if err := ep.GetZcopy(iovOf(buf), target.mem, nil, &list[k].Completion); err != ucs.InProgress {
			t.Fatal(err)
		}
	}
	h.Worker.Progress()
	ucttest.SameBytes(t, "the first piece", buf[:defaultSegSize], ucttest.Pattern(1<<20, 3)[:defaultSegSize])
	target.kill(t)
	ucttest.Until(t, "the failure", func() bool { return h.Failed(ep) != nil }, h)
	for k, c := range list {
		if c.Fired != 1 || !errors.Is(c.Err, ucs.ErrConnectionReset) {
			t.Errorf("operation %d: told %d times, %v", k, c.Fired, c.Err)
		}
	}
	if f := h.Failures; len(f) != 1 || !errors.Is(f[0].Err, ucs.ErrConnectionReset) || f[0].UserData != target {
		t.Errorf("failures: %v", f)
	}
	if err := ep.Check(nil); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("Check of a failed endpoint: %v", err)
	}
	ep.Close()
	c := ucttest.NewCompletion(1)
	c.Finish(t, other.GetZcopy(iovOf(buf[:1<<20]), survivor.mem, nil, &c.Completion), h)
	ucttest.SameBytes(t, "memory of the survivor", buf[:1<<20], ucttest.Pattern(1<<20, 3))
	if err := other.Check(nil); err != nil {
		t.Errorf("Check of the survivor: %v", err)
	}
	ucttest.Settle(h)
	if len(h.Failures) != 1 {
		t.Errorf("failures: %v", h.Failures)
	}
}

// TestCheckFindsOut: Check detects a peer that was killed while no operation was in progress.
func TestCheckFindsOut(t *testing.T) {
	h := open(t)
	p := newProcess(t, "usual", 0)
	ep := p.connect(t, h)
	p.kill(t)
	if err := ep.Check(nil); err != nil {
		t.Errorf("Check: %v", err)
	}
	if len(h.Failures) > 0 {
		t.Error("the failure was reported inside the call")
	}
	ucttest.Until(t, "the failure", func() bool { return errors.Is(h.Failed(ep), ucs.ErrConnectionReset) }, h)
}

// TestNumberUsedAgain simulates that another process has got the peer's process id.
func TestNumberUsedAgain(t *testing.T) {
	for _, size := range []int{8, 1 << 20} {
		h := open(t)
		ep := self(t, h)
		ep.peer.Start++
		ep.checked -= checkEvery
		dst := make([]byte, size)
		err := ep.PutZcopy(iovOf(ucttest.Pattern(size, 1)), addressOf(dst), nil, nil)
		if size <= inlineMax && !errors.Is(err, ucs.ErrConnectionReset) || size > inlineMax && err != ucs.InProgress {
			t.Errorf("put of %d bytes: %v", size, err)
		}
		ucttest.Until(t, "the failure", func() bool { return errors.Is(h.Failed(ep), ucs.ErrConnectionReset) }, h)
		ucttest.SameBytes(t, "memory of the wrong process", dst, make([]byte, size))
	}
}

// TestNumberUsedAgainUnseen is the same without progress before the access.
func TestNumberUsedAgainUnseen(t *testing.T) {
	h := open(t)
	ep := self(t, h)
	dst := make([]byte, 8)
	put := func() error { return ep.PutZcopy(iovOf(ucttest.Pattern(8, 1)), addressOf(dst), nil, nil) }
	if err := put(); err != nil {
		t.Fatal(err)
	}
	before := h.Worker.Now()
	clear(dst)
	ep.peer.Start++
	for ep.checked = now() - checkEvery + 1; now()-ep.checked < checkEvery; {
	}
	if err := put(); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("put: %v", err)
	}
	if h.Worker.Now() != before {
		t.Error("the worker's clock has moved: the test tests nothing")
	}
	ucttest.SameBytes(t, "memory of the wrong process", dst, make([]byte, 8))
	ucttest.Until(t, "the failure", func() bool { return errors.Is(h.Failed(ep), ucs.ErrConnectionReset) }, h)
}

func TestSettings(t *testing.T) {
	for _, bad := range []string{"MAX_IOV=0", "SEG_SIZE=0", "TX_QUOTA=0", "TX_MAX_BUFS=0"} {
		t.Run(bad, func(t *testing.T) {
			_, err := loadOptions(settingsOf(t, bad))
			n, _, _ := strings.Cut(bad, "=")
			if !errors.Is(err, ucs.ErrInvalidParam) || !strings.Contains(err.Error(), "UCX_CMA_"+n) {
				t.Errorf("got %v", err)
			}
		})
	}
	o, err := loadOptions(settingsOf(t, "BW=auto", "SEG_SIZE=auto", "MAX_NUM_EPS=7"))
	if err != nil || o.bandwidth != defaultBW || o.segSize != defaultSegSize || o.maxNumEPs != 7 {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestAttributes compares with the numbers that C UCX prints (ucx_info -d -t cma of 1.13.1 and
// 1.22.0, and the capability word 0x1c000000448).
func TestAttributes(t *testing.T) {
	h := open(t)
	a := h.Iface.Attr()
	if a.Flags != 0x1c000000448 || a.Events != 0x3 || a.Resource != resource || a.Resource.Type != uct.DeviceShared {
		t.Errorf("flags %#x, events %#x, resource %+v", uint64(a.Flags), uint32(a.Events), a.Resource)
	}
	if a.Perf.BandwidthDedicated != 11145<<20 || a.Perf.Latency.C != 80e-9 || a.Perf.Overhead != 2e-6 {
		t.Errorf("performance %+v", a.Perf)
	}
	if a.Put.MaxIOV != 16 || a.Get.MaxIOV != 16 || a.Put.MaxZcopy != uct.Unlimited || a.Get.MinZcopy != 0 {
		t.Errorf("limits %+v %+v", a.Put, a.Get)
	}
	if md := h.Domain.Attr(); md.Flags != 0 || md.RkeyPackedSize != 0 || md.RegCost != (uct.Linear{C: 9e-9}) {
		t.Errorf("domain %+v", md)
	}
}

// TestEndpointSize bounds the memory of an idle endpoint.
func TestEndpointSize(t *testing.T) {
	if n := unsafe.Sizeof(endpoint{}); n > 256 {
		t.Errorf("an endpoint has %d bytes", n)
	}
}
