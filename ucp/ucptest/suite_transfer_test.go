//go:build linux

package ucptest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var transferCases = []testCase{
	{"sizes and datatypes", everySwitch, testTransfer},
	{"datatypes at both ends", everySwitch, testMixedDatatypes},
	{"both directions at once", everySwitch, testBothDirections},
	{"a completed receive has its data", everySwitch, testDataInPlace},
}

// sizes are those of the interoperability matrix, and sizes next to limits of the transports.
var sizes = []int{0, 1, 8, 200, 1024, 4096, 8183, 8184, 8192, 16384, 65535, 65536, 65537, 1 << 20}

// layout is a layout of the memory of a message.
type layout struct {
	name string
	make func(mem []byte) ucp.Buffer
}

var layouts = []layout{
	{"contig", ucp.Bytes},
	{"iov", pieces},
	{"generic", func(mem []byte) ucp.Buffer { return ucp.Generic(newSlices().dt, mem, len(mem)) }},
}

// pieces cuts memory into parts of different lengths, some of them empty.
func pieces(mem []byte) ucp.Buffer {
	list := [][]byte{nil}
	for k := 1; len(mem) > 0; k++ {
		n := min(len(mem), k*k*k)
		list = append(list, mem[:n:n], mem[:0:0])
		mem = mem[n:]
	}
	return ucp.IOV(append(list, nil)...)
}

// flat is contiguous memory, passed as the buffer argument.
func flat(mem []byte) ucp.Buffer { return ucp.Buffer{} }

// testDataInPlace checks the data when the receive is reported complete, not later: a message that
// reports a write must not overtake the data.
func testDataInPlace(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{100, 9000, 70_000, 300_000, 1 << 20} {
		src, dst := ucttest.Pattern(n, uint64(n)), make([]byte, n)
		told := 0
		rreq := r.started(b.TagRecv(1, ucp.FullMask, dst, &ucp.RequestParams{
			OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) {
				told++
				if !bytes.Equal(dst, src) {
					t.Errorf("%d bytes: the data is not there yet", n)
				}
			},
		}))
		r.must(ep.TagSend(1, src, nil))
		r.must(rreq, nil)
		if told != 1 {
			t.Errorf("%d bytes: told %d times", n, told)
		}
	}
}

// TestRendezvousReads checks that large messages are read from the sender's memory if a lane can do
// so and the setting permits it.
func TestRendezvousReads(t *testing.T) {
	for scheme, want := range map[string]uint64{"auto": 1, "get_zcopy": 1, "put_zcopy": 0, "am": 0} {
		t.Run(scheme, func(t *testing.T) {
			r := newRig(t, byName(t, "posix and cma").with(setting{"RNDV_SCHEME", scheme}))
			a, b := r.pair()
			ep := a.connect(b)
			src, dst := ucttest.Pattern(1<<20, 3), make([]byte, 1<<20)
			sreq, err := ep.TagSend(1, src, &ucp.RequestParams{Flags: ucp.OpFastComplete})
			r.must(b.TagRecv(1, ucp.FullMask, dst, nil))
			r.must(sreq, err)
			ucttest.SameBytes(t, "message", dst, src)
			if s := b.Stats(); s.RndvGet != want {
				t.Errorf("%d reads, want %d", s.RndvGet, want)
			}
			put := uint64(0)
			if scheme == "put_zcopy" {
				put = 1
			}
			if s := a.Stats(); s.RndvPut != put || s.RndvPut+s.RndvAM != 1-want || s.RndvSends != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// testTransfer sends messages of every size and layout, plain and synchronous, to receives posted
// before and after their arrival.
func testTransfer(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	tag := ucp.Tag(1000)
	for _, n := range sizes {
		for _, l := range append(layouts, layout{"bytes", flat}) {
			for _, sync := range []bool{false, true} {
				for _, expected := range []bool{false, true} {
					tag++
					what := fmt.Sprintf("%d bytes, %s, sync %v, expected %v", n, l.name, sync, expected)
					r.transfer(what, ep, b, tag, n, l, l, sync, expected)
				}
			}
		}
	}
	if s := a.Stats(); s.Malformed != 0 || s.Failed != 0 || s.Failures != 0 {
		t.Errorf("sender's counters: %+v", s)
	}
	if s := b.Stats(); s.Malformed != 0 || s.Failed != 0 || s.UnexpectedBytes != 0 {
		t.Errorf("receiver's counters: %+v", s)
	}
}

// testMixedDatatypes checks that sender and receiver may use different layouts.
func testMixedDatatypes(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	tag := ucp.Tag(0)
	for _, n := range []int{1, 8192, 100_000} {
		for _, from := range layouts {
			for _, to := range layouts {
				for _, expected := range []bool{false, true} {
					tag++
					what := fmt.Sprintf("%d bytes, %s to %s, expected %v", n, from.name, to.name, expected)
					r.transfer(what, ep, b, tag, n, from, to, false, expected)
				}
			}
		}
	}
}

// plain returns the buffer argument of a call: nil if the parameters have a buffer.
func plain(buf []byte, p *ucp.RequestParams) []byte {
	if p.Buffer.IsZero() {
		return buf
	}
	return nil
}

// transfer sends one message and checks everything that can be observed.
func (r *rig) transfer(what string, ep *ucp.Endpoint, to *side, tag ucp.Tag, n int, from, dst layout, sync, expected bool) {
	r.Helper()
	src := ucttest.Pattern(n, uint64(tag))
	buf := make([]byte, n+3) // room to spare: the length is that of the message
	send := ep.TagSend
	if sync {
		send = ep.TagSendSync
	}
	var info ucp.TagRecvInfo
	rp := &ucp.RequestParams{Buffer: dst.make(buf), TagInfo: &info}
	var rreq *ucp.Request
	var rerr error
	if expected {
		rreq = r.started(to.TagRecv(tag, ucp.FullMask, plain(buf, rp), rp))
	}
	sp := &ucp.RequestParams{Buffer: from.make(src)}
	sreq, serr := send(tag, plain(src, sp), sp)
	if sync && (sreq == nil || serr != nil) {
		r.Fatalf("%s: a synchronous send returned %v, %v", what, sreq, serr)
	}
	if !expected {
		r.arrived(to, tag)
		if sync && sreq.Done() {
			r.Fatalf("%s: done before it was matched", what)
		}
		rreq, rerr = to.TagRecv(tag, ucp.FullMask, plain(buf, rp), rp)
		if rerr != nil {
			r.Fatalf("%s: receive: %v", what, rerr)
		}
	}
	if rreq != nil {
		r.until(what+": receive", rreq.Done)
		if info, rerr = rreq.TagRecvInfo(); rerr != nil {
			r.Fatalf("%s: receive: %v", what, rerr)
		}
		rreq.Free()
	}
	if err := r.finish(sreq, serr); err != nil {
		r.Fatalf("%s: send: %v", what, err)
	}
	if want := (ucp.TagRecvInfo{SenderTag: tag, Length: n}); info != want {
		r.Fatalf("%s: info %+v, want %+v", what, info, want)
	}
	ucttest.SameBytes(r, what, buf[:n], src)
	ucttest.SameBytes(r, what+": behind the message", buf[n:], make([]byte, 3))
}

// testBothDirections has many messages of all sizes in flight in both directions over several
// endpoints, without progress in between.
func testBothDirections(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	eps := []*ucp.Endpoint{a.connect(b), b.connect(a), a.connect(b)}
	to := []*side{b, a, b}
	var reqs []*ucp.Request
	var bufs, want [][]byte
	for k, ep := range eps {
		for i, n := range sizes {
			tag := ucp.Tag(k)<<8 | ucp.Tag(i)
			src, dst := ucttest.Pattern(n, uint64(tag)), make([]byte, n)
			reqs = append(reqs, r.started(to[k].TagRecv(tag, ucp.FullMask, dst, nil)))
			req, err := ep.TagSend(tag, src, nil)
			if err != nil {
				t.Fatal(err)
			}
			reqs = append(reqs, req)
			bufs, want = append(bufs, dst), append(want, src)
		}
	}
	for _, req := range reqs {
		r.must(req, nil)
	}
	for i := range bufs {
		ucttest.SameBytes(t, "message", bufs[i], want[i])
	}
}
