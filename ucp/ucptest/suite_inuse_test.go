//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// testUnmapWhileUsed checks that memory passed to an operation stays registered until the operation
// is complete.
func testUnmapWhileUsed(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	for _, n := range []int{100, 20_000, 1 << 20} {
		m, err := a.ctx.Register(ucttest.Pattern(n, 1), 0)
		if err != nil {
			t.Fatal(err)
		}
		req := r.started(ep.TagSendSync(1, m.Bytes(), &ucp.RequestParams{Memory: m}))
		for range 10 {
			if err := m.Close(); !errors.Is(err, ucs.ErrBusy) {
				t.Fatalf("%d bytes: closing the memory of a message in flight: %v", n, err)
			}
			r.progress()
		}
		buf := make([]byte, n)
		r.must(b.TagRecv(1, ucp.FullMask, buf, nil))
		r.must(req, nil)
		ucttest.SameBytes(t, "the message", buf, m.Bytes())
		if err := m.Close(); err != nil {
			t.Errorf("%d bytes: closing it afterwards: %v", n, err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("%d bytes: a second time: %v", n, err)
		}
		if _, err := ep.TagSend(1, m.Bytes(), &ucp.RequestParams{Memory: m}); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%d bytes: a message with closed memory: %v", n, err)
		}
	}
}

// TestUnmapWhileWritten checks that Memory.Close does not interrupt a put of a peer that is
// arriving, nor its connection.
func TestUnmapWhileWritten(t *testing.T) {
	r := newRig(t, byName(t, "tcp with small buffers"))
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	const n = 8 << 20
	dst := make([]byte, n)
	m, err := b.ctx.Register(dst, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := r.unpack(ep, m)
	src := bytes.Repeat([]byte{0xA5}, n)
	put := r.started(ep.Put(src, w.addr, w.key, nil))
	r.until("the beginning of the put", func() bool { return dst[0] != 0 })
	if dst[n-1] != 0 {
		t.Fatal("the put is there at once: the test tests nothing")
	}
	if err := m.Close(); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("closing memory in the middle of a put: %v", err)
	}
	r.must(put, nil)
	r.must(ep.Flush(nil))
	ucttest.SameBytes(t, "the put", dst, src)
	if err := m.Close(); err != nil {
		t.Errorf("closing it afterwards: %v", err)
	}

	// If the peer ends in the middle of a put, the memory is no longer in use.
	dst = make([]byte, n)
	if m, err = b.ctx.Register(dst, 0); err != nil {
		t.Fatal(err)
	}
	w = r.unpack(ep, m)
	put = r.started(ep.Put(src, w.addr, w.key, nil))
	r.until("the beginning of the put", func() bool { return dst[0] != 0 })
	if err := ep.Close(); err != nil {
		t.Fatal(err)
	}
	put.Free()
	r.until("the end of the connection", func() bool { return m.Close() == nil })
}
