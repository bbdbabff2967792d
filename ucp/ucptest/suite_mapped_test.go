//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// Messages from memory that MemMap has allocated: the receiver maps the memory and copies once.

// mappedTransports are the transports that map the peer's memory.
var mappedTransports = []transport{
	{name: "posix", settings: []setting{{"TLS", "posix"}}},
	{name: "posix with names", settings: []setting{{"TLS", "posix"}, {"POSIX_USE_PROC_LINK", "n"}}},
	{name: "sysv", settings: []setting{{"TLS", "sysv"}}},
	{name: "posix and sysv", settings: []setting{{"TLS", "posix,sysv"}}},
	{name: "posix and cma", settings: []setting{{"TLS", "posix,cma"}}},
	{name: "small pieces", settings: []setting{{"TLS", "posix"}, {"RKEY_PTR_SEG_SIZE", "1000"}}},
}

// forMapped runs a test over each of them.
func forMapped(t *testing.T, f func(t *testing.T, tr transport)) {
	needtest.Goroutines(t)
	for _, tr := range mappedTransports {
		t.Run(tr.name, func(t *testing.T) { f(t, tr) })
	}
}

// allocate allocates n bytes, which are unmapped when the side is closed.
func (s *side) allocate(n int) *ucp.Memory {
	s.rig.Helper()
	m, err := s.ctx.MemMap(ucp.MemMapParams{Length: n, Flags: ucp.MemMapAllocate})
	if err != nil {
		s.rig.Fatal(err)
	}
	s.unmap = append(s.unmap, m)
	return m
}

// mappedFrom is the length from which messages in such memory are offered: the first that does not
// fit into a buffer, after the tag.
const mappedFrom = 8249

// pieceEnds are lengths next to multiples of the pieces in which such messages are copied.
var pieceEnds = []int{
	0, 1, 100, mappedFrom - 1, mappedFrom, 9000, 64 << 10, 512<<10 - 1, 512 << 10, 512<<10 + 1, 1<<20 - 1, 1 << 20, 1<<20 + 1,
	3*512<<10 + 17, 16 << 20,
}

func TestMapped(t *testing.T) {
	forMapped(t, func(t *testing.T, tr transport) {
		r := newRig(t, tr)
		a, b := r.pair()
		ep := a.connect(b)
		const most = 16 << 20
		mem := a.allocate(most + 100).Bytes()
		dst := make([]byte, most)
		want := uint64(0)
		for i, n := range pieceEnds {
			for _, expected := range []bool{true, false} {
				for _, sync := range []bool{true, false} {
					what := fmt.Sprintf("%d bytes, expected %v, sync %v", n, expected, sync)
					tag := ucp.Tag(i)
					src := mem[i : i+n]
					copy(src, ucttest.Pattern(n, uint64(i)))
					clear(dst[:n])
					send := ep.TagSend
					if sync {
						send = ep.TagSendSync
					}
					var rreq, sreq *ucp.Request
					var rerr, serr error
					if expected {
						rreq, rerr = b.TagRecv(tag, ucp.FullMask, dst[:n], nil)
						sreq, serr = send(tag, src, nil)
					} else {
						sreq, serr = send(tag, src, nil)
						r.arrived(b, tag)
						rreq, rerr = b.TagRecv(tag, ucp.FullMask, dst[:n], nil)
					}
					r.must(rreq, rerr)
					r.must(sreq, serr)
					ucttest.SameBytes(t, what, dst[:n], src)
					if n >= mappedFrom || sync && n >= mappedFrom-16 { // its header is longer
						want++
					}
					if s := b.Stats(); s.RndvPtr != want || s.RndvRecvs != want {
						t.Errorf("%s: %d of %d copied out of mapped memory, want %d", what, s.RndvPtr, s.RndvRecvs, want)
						want = s.RndvPtr
					}
				}
			}
		}
		if s := b.Stats(); s.UnexpectedBytes != 0 || s.Malformed != 0 || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestMappedDatatypes checks such messages into receive buffers of every datatype.
func TestMappedDatatypes(t *testing.T) {
	forMapped(t, func(t *testing.T, tr transport) {
		r := newRig(t, tr)
		a, b := r.pair()
		ep := a.connect(b)
		const n = 1<<20 + 3
		src := a.allocate(n).Bytes()[:n]
		copy(src, ucttest.Pattern(n, 7))
		for _, l := range layouts {
			dst := make([]byte, n+5)
			rreq := r.started(b.TagRecv(1, 0, nil, &ucp.RequestParams{Buffer: l.make(dst)}))
			r.must(ep.TagSend(1, src, nil))
			r.must(rreq, nil)
			ucttest.SameBytes(t, l.name, dst[:n], src)
		}
		if got := b.Stats().RndvPtr; got != uint64(len(layouts)) {
			t.Errorf("%d messages copied out of mapped memory", got)
		}
	})
}

// TestMappedEnds checks that a short buffer, a datatype that fails and a closed endpoint end the
// receive and the send as with other messages.
func TestMappedEnds(t *testing.T) {
	forMapped(t, func(t *testing.T, tr transport) {
		r := newRig(t, tr)
		a, b := r.pair()
		ep := a.connect(b)
		const n = 2 << 20
		src := a.allocate(n).Bytes()[:n]

		rreq := r.started(b.TagRecv(1, 0, make([]byte, n-1), nil))
		r.must(ep.TagSend(1, src, nil))
		if err := r.finish(rreq, nil); !errors.Is(err, ucs.ErrMessageTruncated) {
			t.Errorf("too little room: %v", err)
		}

		bad := newSlices()
		bad.unpackErr = errors.New("no room in the attic")
		rreq = r.started(b.TagRecv(1, 0, nil, &ucp.RequestParams{Buffer: ucp.Generic(bad.dt, make([]byte, n), n)}))
		r.must(ep.TagSend(1, src, nil))
		if err := r.finish(rreq, nil); !errors.Is(err, bad.unpackErr) {
			t.Errorf("a datatype that cannot unpack: %v", err)
		}

		var got outcome
		recv := b.recvInto(1, ucp.FullMask, make([]byte, n), &got)
		b.Cancel(recv)
		got.once(t)
		if !errors.Is(got.err, ucs.ErrCanceled) {
			t.Errorf("canceled: %v", got.err)
		}
		recv.Free()

		// A matched receive cannot be canceled, and goes on after Free.
		sreq := r.started(ep.TagSend(1, src, nil))
		r.arrived(b, 1)
		recv, err := b.TagRecv(1, ucp.FullMask, make([]byte, n), nil)
		if err != nil {
			t.Fatal(err)
		}
		b.Cancel(recv)
		if recv.Done() {
			t.Errorf("a matched receive was ended: %v", recv.Err())
		}
		recv.Free()
		r.must(sreq, nil)

		// The worker is closed in the middle.
		sreq = r.started(ep.TagSend(1, src, nil))
		r.arrived(b, 1)
		got = outcome{}
		if _, err = b.TagRecv(1, ucp.FullMask, make([]byte, n), &ucp.RequestParams{OnTagRecv: got.onRecv}); err != nil {
			t.Fatal(err)
		}
		b.Worker.Close()
		got.once(t)
		if !errors.Is(got.err, ucs.ErrCanceled) {
			t.Errorf("the receiver's worker is closed: %v", got.err)
		}
		sreq.Free()
	})
}

// TestMappedPieces checks that a long message does not delay others, and that a worker that copies
// one does not sleep.
func TestMappedPieces(t *testing.T) {
	r := newRig(t, byName(t, "posix"))
	a, b := r.pair()
	ep := a.connect(b)
	const n = 16 << 20
	src := a.allocate(n).Bytes()[:n]
	rreq := r.started(b.TagRecv(1, ucp.FullMask, make([]byte, n), nil))
	sreq := r.started(ep.TagSend(1, src, nil))
	r.until("the offer", func() bool { return b.Stats().RndvPtr == 1 })
	small := r.started(b.TagRecv(2, ucp.FullMask, make([]byte, 8), nil))
	r.inTheCall(ep.TagSend(2, make([]byte, 8), nil))
	rounds := 0
	for ; !rreq.Done(); rounds++ {
		if err := b.Arm(); !errors.Is(err, ucs.ErrBusy) {
			t.Fatalf("armed in the middle: %v", err)
		}
		b.Progress()
		if !small.Done() {
			t.Fatal("the short message waits for the long one")
		}
	}
	if rounds < n/(512<<10)-2 || rounds > n/(512<<10)+2 {
		t.Errorf("copied in %d rounds", rounds)
	}
	for _, req := range []*ucp.Request{rreq, small, sreq} {
		r.must(req, nil)
	}
}

// TestMappedMany checks that messages that are copied at the same time arrive correctly, and
// complete in order.
func TestMappedMany(t *testing.T) {
	forMapped(t, func(t *testing.T, tr transport) {
		r := newRig(t, tr)
		a, b := r.pair()
		ep := a.connect(b)
		const n, count = 700_000, 20
		mem := a.allocate(n * count).Bytes()
		var sreqs, rreqs [count]*ucp.Request
		var dst [count][]byte
		for i := range count {
			src := mem[i*n : (i+1)*n]
			copy(src, ucttest.Pattern(n, uint64(i)))
			dst[i] = make([]byte, n)
			rreqs[i] = r.started(b.TagRecv(ucp.Tag(i), ucp.FullMask, dst[i], nil))
			sreqs[i] = r.started(ep.TagSend(ucp.Tag(i), src, nil))
		}
		for i := range count {
			r.must(rreqs[i], nil)
			r.must(sreqs[i], nil)
			ucttest.SameBytes(t, "message", dst[i], mem[i*n:(i+1)*n])
		}
	})
}

// TestMappedAgain checks memory that is freed and allocated again, which has the same key and may
// be different memory.
func TestMappedAgain(t *testing.T) {
	forMapped(t, func(t *testing.T, tr transport) {
		r := newRig(t, tr)
		a, b := r.pair()
		ep := a.connect(b)
		const n = 300_000
		keys := make(map[string]int)
		for i := range 100 {
			m, err := a.ctx.MemMap(ucp.MemMapParams{Length: n, Flags: ucp.MemMapAllocate})
			if err != nil {
				t.Fatal(err)
			}
			if key, err := m.PackRkey(); err == nil {
				keys[string(key)]++
			}
			src, dst := m.Bytes()[:n], make([]byte, n)
			copy(src, ucttest.Pattern(n, uint64(i)))
			rreq := r.started(b.TagRecv(1, 0, dst, nil))
			r.must(ep.TagSend(1, src, nil))
			r.must(rreq, nil)
			ucttest.SameBytes(t, "message", dst, src)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.Stats().RndvPtr; got != 100 {
			t.Errorf("%d messages copied out of mapped memory", got)
		}
		t.Logf("%d different keys of 100", len(keys))
	})
}

// TestMappedUnmapped checks that memory that is unmapped while a message from it is in flight stays
// until the message is complete.
func TestMappedUnmapped(t *testing.T) {
	forMapped(t, func(t *testing.T, tr transport) {
		r := newRig(t, tr)
		a, b := r.pair()
		ep := a.connect(b)
		const n = 1 << 20
		m, err := a.ctx.MemMap(ucp.MemMapParams{Length: n, Flags: ucp.MemMapAllocate})
		if err != nil {
			t.Fatal(err)
		}
		want := ucttest.Pattern(n, 5)
		copy(m.Bytes(), want)
		sreq := r.started(ep.TagSend(1, m.Bytes()[:n], nil))
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if err := a.ctx.Close(); !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("closing the context: %v", err)
		}
		dst := make([]byte, n)
		r.must(b.TagRecv(1, 0, dst, nil))
		r.must(sreq, nil)
		if !bytes.Equal(dst, want) {
			t.Error("the message is wrong")
		}
	})
}

// TestMappedSettings checks that settings select other protocols.
func TestMappedSettings(t *testing.T) {
	for _, c := range []struct {
		tls, name, value string
		ptr, get, am     uint64
	}{
		{"posix,cma", "RNDV_SCHEME", "auto", 1, 0, 0},
		{"posix,cma", "RNDV_SCHEME", "rkey_ptr", 1, 0, 0},
		{"posix,cma", "RNDV_SCHEME", "get_zcopy", 0, 1, 0},
		{"posix,cma", "RNDV_SCHEME", "put_zcopy", 0, 0, 0},
		{"posix,cma", "RNDV_SCHEME", "am", 0, 0, 1},
		{"posix", "RNDV_SCHEME", "rkey_ptr", 1, 0, 0},
		{"posix", "RNDV_SCHEME", "get_zcopy", 1, 0, 0},
		{"posix", "RNDV_THRESH", "inf", 0, 0, 0},
		{"posix", "PEER_RELEASE", "1.13", 1, 0, 0}, // a peer of this library has no release
		{"posix", "ALLOC_PRIO", "mmap", 0, 0, 1},
		{"tcp", "NET_DEVICES", "lo", 0, 0, 0},
	} {
		t.Run(c.tls+" "+c.name+"="+c.value, func(t *testing.T) {
			r := newRig(t, transport{settings: []setting{{"TLS", c.tls}, {c.name, c.value}}})
			a, b := r.pair()
			ep := a.connect(b)
			const n = 1 << 20
			src, dst := a.allocate(n).Bytes()[:n], make([]byte, n)
			copy(src, ucttest.Pattern(n, 9))
			rreq := r.started(b.TagRecv(1, 0, dst, nil))
			r.must(ep.TagSend(1, src, nil))
			r.must(rreq, nil)
			ucttest.SameBytes(t, "message", dst, src)
			if s, from := b.Stats(), a.Stats(); s.RndvPtr != c.ptr || s.RndvGet != c.get || from.RndvAM != c.am {
				t.Errorf("%d mapped, %d read, %d by messages, want %d, %d, %d", s.RndvPtr, s.RndvGet, from.RndvAM, c.ptr, c.get, c.am)
			}
		})
	}
}

// TestMappedShort checks that with a threshold of 0 the shortest messages are mapped too.
func TestMappedShort(t *testing.T) {
	r := newRig(t, byName(t, "posix").with(setting{"RNDV_THRESH", "0"}))
	a, b := r.pair()
	ep := a.connect(b)
	src := a.allocate(100).Bytes()
	for n := range 20 {
		dst := make([]byte, n)
		copy(src, ucttest.Pattern(n, uint64(n)))
		rreq := r.started(b.TagRecv(1, 0, dst, nil))
		r.must(ep.TagSend(1, src[:n], nil))
		r.must(rreq, nil)
		ucttest.SameBytes(t, "message", dst, src[:n])
	}
	if got := b.Stats().RndvPtr; got != 19 {
		t.Errorf("%d messages copied out of mapped memory, want all 19 that have bytes", got)
	}
}

// TestMappedProtection checks that peers cannot map memory that was not opened to them for all
// kinds of access.
func TestMappedProtection(t *testing.T) {
	const local = ucp.ProtLocalRead | ucp.ProtLocalWrite
	for _, prot := range []ucp.MemProt{local, local | ucp.ProtRemoteRead, local | ucp.ProtRemoteWrite} {
		r := newRig(t, byName(t, "posix"))
		a, b := r.pair()
		ep := a.connect(b)
		const n = 1 << 20
		m := a.allocateFor(n, prot)
		rreq := r.started(b.TagRecv(1, 0, make([]byte, n), nil))
		r.must(ep.TagSend(1, m.Bytes()[:n], nil))
		r.must(rreq, nil)
		if got := b.Stats().RndvPtr; got != 0 {
			t.Errorf("rights %#x: %d messages copied out of the memory", prot, got)
		}
	}
}

// TestMappedExplained checks that the explanation says from which length messages are mapped, or
// why they are not.
func TestMappedExplained(t *testing.T) {
	r := newRig(t, byName(t, "posix"))
	a, b := r.pair()
	text := a.connect(b).Explain().String()
	for _, want := range []string{
		"tagged message by ucp_tag_send* from allocated host memory",
		"8249..inf: rndv/rkey_ptr on posix/memory",
		"rendezvous data fetch into host memory from host memory that is mapped",
		"0..inf: rndv/attach on posix/memory",
		"not rndv/attach: the RTS has no key of a domain that can map memory",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	tcp := newRig(t, byName(t, "tcp"))
	c, d := tcp.pair()
	if text := c.connect(d).Explain().String(); strings.Contains(text, "allocated") || !strings.Contains(text, "no domain can map the peer's memory") {
		t.Error(text)
	}
}

// TestNoAllocationsMapped checks that a message from mapped memory allocates nothing.
func TestNoAllocationsMapped(t *testing.T) {
	skipUnderRace(t)
	for _, name := range []string{"posix", "sysv", "posix and cma"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, byName(t, name))
			a, b := r.pair()
			ep := a.connect(b)
			const n = 1 << 20
			src, dst := a.allocate(n).Bytes()[:n], make([]byte, n)
			once := func() {
				rreq, err := b.TagRecv(1, ucp.FullMask, dst, nil)
				if err != nil {
					t.Fatal(err)
				}
				sreq, err := ep.TagSend(1, src, nil)
				if err != nil {
					t.Fatal(err)
				}
				for !rreq.Done() || !sreq.Done() {
					r.progress()
				}
				rreq.Free()
				sreq.Free()
			}
			for range 10 {
				once()
			}
			if got := testing.AllocsPerRun(50, once); got != 0 {
				t.Errorf("%v allocations", got)
			}
			if got := b.Stats(); got.RndvPtr != got.RndvRecvs {
				t.Errorf("%d of %d messages copied out of mapped memory", got.RndvPtr, got.RndvRecvs)
			}
		})
	}
}

// TestMappedUnwanted checks that a peer that could map offered messages but asks for their data in
// messages is offered only long ones afterwards.
func TestMappedUnwanted(t *testing.T) {
	r := newRig(t, byName(t, "posix"))
	a := r.open()
	r.settings = append(r.settings, setting{"RNDV_SCHEME", "am"})
	b := r.open()
	ep := a.connect(b)
	src := a.allocate(1 << 20).Bytes()
	for i, c := range []struct{ n, offered int }{{20_000, 1}, {20_000, 1}, {40_000, 1}, {64 << 10, 2}, {20_000, 2}, {1 << 20, 3}} {
		copy(src, ucttest.Pattern(c.n, uint64(i)))
		dst := make([]byte, c.n)
		rreq := r.started(b.TagRecv(1, 0, dst, nil))
		r.must(ep.TagSend(1, src[:c.n], nil))
		r.must(rreq, nil)
		ucttest.SameBytes(t, "message", dst, src[:c.n])
		if s := b.Stats(); s.RndvRecvs != uint64(c.offered) || s.RndvPtr != 0 {
			t.Errorf("message %d: %d were offered, %d copied out of mapped memory, want %d and none", i, s.RndvRecvs, s.RndvPtr, c.offered)
		}
	}
}
