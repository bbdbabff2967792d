//go:build linux

package tcp

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// expose registers memory of a host until the end of the test.
func (h *host) expose(buf []byte) (addr uint64) {
	h.t.Helper()
	mem, err := h.md.Register(buf, uct.AccessRemotePut)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := h.md.Deregister(mem); err != nil {
			h.t.Error(err)
		}
	})
	return addressOf(buf)
}

func TestPutSizes(t *testing.T) {
	a, b, ep := pair(t)
	target := make([]byte, 3<<20)
	base := b.expose(target)
	for _, n := range []int{0, 1, 100, 4096, 65536, 131072, 200000, 3 << 20} {
		data := bytes.Repeat([]byte{byte(n%251 + 1)}, n)
		third := n / 3
		d := newDone()
		iov := []uct.IOV{{Data: data[:third]}, {Data: data[third:third]}, {Data: data[third:]}}
		if err := ep.PutZcopy(iov, base, nil, &d.comp); err != ucs.InProgress {
			t.Fatal(err)
		}
		until(t, "put", func() bool { return d.n == 1 }, a, b)
		if d.comp.Err != nil || !bytes.Equal(target[:n], data) {
			t.Errorf("put of %d bytes: %v", n, d.comp.Err)
		}
	}
	if err := ep.PutZcopy(make([]uct.IOV, 7), base, nil, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("put of too many entries: %v", err)
	}
}

// TestPutOrder: puts and messages of one endpoint stay in order.
func TestPutOrder(t *testing.T) {
	a, b, ep := pair(t)
	target := make([]byte, 300000)
	base := b.expose(target)
	src := make([]byte, len(target))
	seen := 0
	b.iface.SetAMHandler(1, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
		seen++
		if target[0] != byte(seen) || target[len(target)-1] != byte(seen) {
			t.Errorf("message %d before its put", seen)
		}
		return nil
	})
	d := newDone()
	for i := byte(1); i <= 5; i++ {
		buf := bytes.Repeat([]byte{i}, len(src))
		until(t, "put", func() bool {
			return ep.PutZcopy([]uct.IOV{{Data: buf}}, base, nil, nil) == ucs.InProgress
		}, a, b)
		until(t, "message", func() bool {
			err := ep.AMShort(1, 0, nil, 0, nil)
			return err == nil || err == ucs.InProgress
		}, a, b)
		// The memory must not change before it was sent.
		until(t, "flush", func() bool { return ep.Flush(uct.FlushRemote, &d.comp) == ucs.InProgress }, a, b)
		until(t, "flush", func() bool { return d.n == int(i) }, a, b)
		d.comp.Count = 1
	}
	if seen != 5 {
		t.Errorf("%d messages", seen)
	}
}

// TestPutNumbers: an acknowledgement completes all puts up to its number, also when numbers wrap.
func TestPutNumbers(t *testing.T) {
	h := newHost(t, "")
	ep, p := outgoing(t, h)
	ep.conn.putSN, ep.conn.ackSN = 1<<32-3, 1<<32-3
	var dones []*done
	for range 5 {
		d := newDone()
		if err := ep.PutZcopy([]uct.IOV{{Data: []byte("x")}}, 7, nil, &d.comp); err != ucs.InProgress {
			t.Fatal(err)
		}
		dones = append(dones, d)
	}
	for _, sn := range []uint32{1<<32 - 2, 1<<32 - 1, 0, 1, 2} {
		p.want(putReq(7, 1, sn), []byte("x"))
	}
	count := func() (n int) {
		for _, d := range dones {
			n += d.n
		}
		return n
	}
	for _, c := range []struct {
		sn   uint32
		want int
	}{{1<<32 - 2, 1}, {0, 3}, {0, 3}, {1<<32 - 1, 3}, {2, 5}} {
		p.send(appendPutAck(nil, c.sn))
		for range 5 {
			h.w.Progress()
		}
		if got := count(); got != c.want {
			t.Errorf("acknowledgement of %d: %d puts are done, want %d", c.sn, got, c.want)
		}
	}
}

// TestDeregisterUnderPut: memory that is deregistered during a put is not written any more.
func TestDeregisterUnderPut(t *testing.T) {
	h := newHost(t, "")
	target := make([]byte, 1000)
	mem, err := h.md.Register(target, uct.AccessRemotePut)
	if err != nil {
		t.Fatal(err)
	}
	p := dial(t, h)
	p.send(flight(addr("127.0.0.1:5"), 0))
	p.want(ack)
	p.send(putReq(addressOf(target), 1000, 0), bytes.Repeat([]byte{1}, 400))
	until(t, "the first part", func() bool { return target[399] == 1 }, h)
	if err := h.md.Deregister(mem); err != nil {
		t.Fatal(err)
	}
	// The same memory registered again: the earlier put must not write to it.
	again := h.expose(target)
	p.send(bytes.Repeat([]byte{1}, 600))
	p.wantClosed()
	if bytes.Contains(target[400:], []byte{1}) {
		t.Error("written after it was deregistered")
	}
	other := dial(t, h)
	other.send(flight(addr("127.0.0.1:6"), 0))
	other.want(ack)
	other.send(putReq(again+1, 2, 0), []byte("ok"))
	other.want(appendPutAck(nil, 0))
}

// TestDeregisterOther: a put to memory with two registrations continues when one of them ends.
// Receives from two peers may share a buffer, or be parts of memory that is exposed for longer.
func TestDeregisterOther(t *testing.T) {
	h := newHost(t, "")
	target := make([]byte, 1000)
	h.expose(target)
	inner, err := h.md.Register(target[100:900], uct.AccessRemotePut)
	if err != nil {
		t.Fatal(err)
	}
	p := dial(t, h)
	p.send(flight(addr("127.0.0.1:5"), 0))
	p.want(ack)
	p.send(putReq(addressOf(target[200:]), 500, 0), bytes.Repeat([]byte{1}, 100))
	until(t, "the first part", func() bool { return target[299] == 1 }, h)
	if err := h.md.Deregister(inner); err != nil {
		t.Fatal(err)
	}
	p.send(bytes.Repeat([]byte{2}, 400))
	p.want(appendPutAck(nil, 0))
	if !bytes.Equal(target[300:700], bytes.Repeat([]byte{2}, 400)) || target[299] != 1 || target[700] != 0 {
		t.Error("the rest went elsewhere")
	}
}

func TestNotExposed(t *testing.T) {
	h := newHost(t, "")
	local := make([]byte, 100)
	mem, err := h.md.Register(local, uct.AccessAll&^uct.AccessRemotePut)
	if err != nil {
		t.Fatal(err)
	}
	p := dial(t, h)
	p.send(flight(addr("127.0.0.1:5"), 0))
	p.want(ack)
	p.send(putReq(addressOf(local), 1, 0), []byte("x"))
	p.wantClosed()
	if err := h.md.Close(); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("closing a domain in use: %v", err)
	}
	if err := h.md.Deregister(mem); err != nil {
		t.Error(err)
	}
	if err := h.md.Deregister(mem); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("deregistering twice: %v", err)
	}
	if err := h.md.Close(); err != nil {
		t.Error(err)
	}
}

func TestPutDisabled(t *testing.T) {
	a, b, ep := pair(t, "PUT_ENABLE=n")
	if f := a.iface.Attr().Flags; f.Has(uct.IfacePutZcopy) || !f.Has(uct.IfaceAMZcopy) {
		t.Errorf("flags %v", f)
	}
	if err := ep.PutZcopy(nil, 0, nil, nil); err != ucs.ErrUnsupported {
		t.Errorf("put: %v", err)
	}
	// Flushing still works: every peer acknowledges an empty put.
	ep.AMShort(1, 0, nil, 0, nil)
	d := newDone()
	ep.Flush(uct.FlushRemote, &d.comp)
	until(t, "flush", func() bool { return d.n == 1 }, a, b)
}

// TestExposedTable: the table finds a region that contains all requested bytes, however regions
// overlap.
func TestExposedTable(t *testing.T) {
	all := make([]byte, 1000)
	base := addressOf(all)
	var table exposedTable
	whole := table.add(all, true, nil)
	left := table.add(all[:500], true, nil)
	right := table.add(all[500:], true, nil)
	same := table.add(all[:500], true, nil)
	table.add(nil, true, nil)
	find := func(at, n int) *region {
		r, off, _ := table.find(nil, base+uint64(at), uint64(n), anyGen)
		if r != nil && &r.buf[off] != &all[at] {
			t.Errorf("%d bytes at %d: offset %d", n, at, off)
		}
		return r
	}
	if find(0, 1000) != whole || find(400, 200) != whole || find(999, 1) == nil || find(0, 1) == nil {
		t.Error("covered bytes are not found")
	}
	if find(0, 1001) != nil || find(999, 2) != nil {
		t.Error("bytes beyond the end are found")
	}
	table.remove(whole)
	if find(400, 200) != nil || find(400, 100) == nil || find(500, 500) != right {
		t.Error("wrong without the whole")
	}
	table.remove(left)
	if find(0, 500) != same {
		t.Error("two registrations of the same bytes are one")
	}
	table.remove(same)
	table.remove(right)
	if find(0, 1) != nil || len(table.regions) != 0 || len(table.reach) != 0 || table.live != 1 {
		t.Error("something is left")
	}
}

// TestRegisterWhileReceiving: registering memory on any goroutine does not disturb puts in
// progress.
func TestRegisterWhileReceiving(t *testing.T) {
	a, b, ep := pair(t)
	target := make([]byte, 1<<16)
	base := b.expose(target)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for range 2000 {
			m, err := b.md.Register(make([]byte, 64), uct.AccessRemotePut)
			if err == nil {
				err = b.md.Deregister(m)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	src := []byte(strings.Repeat("y", len(target)))
	for range 200 {
		d := newDone()
		ep.PutZcopy([]uct.IOV{{Data: src}}, base, nil, &d.comp)
		until(t, "put", func() bool { return d.n == 1 }, a, b)
	}
	wg.Wait()
}

func TestKeys(t *testing.T) {
	h := newHost(t, "")
	if k, err := h.md.UnpackRkey(nil); err != nil || k == nil {
		t.Errorf("empty key: %v, %v", k, err)
	}
	if _, err := h.md.UnpackRkey([]byte{1}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("key of a byte: %v", err)
	}
	if b, err := h.md.AppendKey([]byte("x"), nil); string(b) != "x" || err != nil {
		t.Errorf("packed %q, %v", b, err)
	}
}

// TestForgottenRegistration: a domain that is garbage collected with registrations left must not
// end the program, as a leaked runtime.Pinner does.
func TestForgottenRegistration(t *testing.T) {
	unpinned := make(chan bool)
	func() {
		m := newDomain(mdOptions{})
		m.Register(make([]byte, 100), uct.AccessRemotePut)
		m.Register(make([]byte, 100), 0)
		runtime.SetFinalizer(m, nil)
		runtime.SetFinalizer(m, func(m *domain) {
			m.exposed.abandon()
			close(unpinned)
		})
	}()
	for {
		runtime.GC()
		select {
		case <-unpinned:
			runtime.GC()
			runtime.GC()
			return
		default:
		}
	}
}
