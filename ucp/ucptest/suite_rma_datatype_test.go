//go:build linux

package ucptest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// testScatteredAccess checks operations whose local memory is a list of buffers, some of them
// empty.
func testScatteredAccess(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	for _, n := range []int{10, 3000, 20_000, 300_000} {
		mem := make([]byte, n)
		w := r.unpack(ep, b.expose(mem, 0))
		src, dst := ucttest.Pattern(n, 1), make([]byte, n)
		for _, count := range []int{4, 20} { // few enough to be gathered, and too many
			pieces := func(b []byte) ucp.Buffer {
				list := [][]byte{nil}
				for k := range count {
					list = append(list, b[k*n/count:(k+1)*n/count])
				}
				return ucp.IOV(list...)
			}
			clear(mem)
			clear(dst)
			r.must(ep.Put(nil, w.addr, w.key, &ucp.RequestParams{Buffer: pieces(src)}))
			r.must(ep.Flush(nil))
			ucttest.SameBytes(t, "put", mem, src)
			r.must(ep.Get(nil, w.addr, w.key, &ucp.RequestParams{Buffer: pieces(dst)}))
			ucttest.SameBytes(t, "get", dst, src)
		}
	}
}

// testGenericAccess checks that a put can pack any datatype, as C does if a lane copies, and that a
// get unpacks none, as in every release of C (UCP_PROTO_DT_MASK_DEFAULT in
// src/ucp/rma/put_offload.c, dt_mask of the protocols in get_offload.c and get_am.c).
func testGenericAccess(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	for _, n := range []int{1, 200, 8173, 70_000} {
		for _, step := range []int{0, 7} {
			mem := make([]byte, n)
			w := r.unpack(ep, b.expose(mem, 0))
			d, src := newSlices(), ucttest.Pattern(n, uint64(n))
			d.step = step
			r.must(ep.Put(nil, w.addr, w.key, &ucp.RequestParams{Buffer: ucp.Generic(d.dt, src, n)}))
			r.must(ep.Flush(nil))
			ucttest.SameBytes(t, "put", mem, src)
			if d.started != 1 || d.finished != 1 {
				t.Errorf("%d bytes: %d states started, %d finished", n, d.started, d.finished)
			}
			d = newSlices()
			if req, err := ep.Get(nil, w.addr, w.key, &ucp.RequestParams{Buffer: ucp.Generic(d.dt, src, n)}); req != nil || !errors.Is(err, ucs.ErrUnsupported) {
				t.Errorf("get: %v, %v", req, err)
			}
			if d.started != d.finished {
				t.Errorf("get: %d states started, %d finished", d.started, d.finished)
			}
		}
	}
	empty := newSlices()
	w := r.unpack(ep, b.expose(make([]byte, 8), 0))
	r.must(ep.Put(nil, w.addr, w.key, &ucp.RequestParams{Buffer: ucp.Generic(empty.dt, []byte{}, 0)}))
	if empty.started != 1 || empty.finished != 1 {
		t.Errorf("no bytes: %d states started, %d finished", empty.started, empty.finished)
	}
}

// testGenericAccessStops checks that a datatype that stops before the end fails the put, and
// nothing else.
func testGenericAccessStops(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	for _, n := range []int{100, 20_000} {
		for _, stop := range []int{1, n / 2} {
			mem := make([]byte, n)
			w := r.unpack(ep, b.expose(mem, 0))
			d := newSlices()
			d.packStop, d.step = stop, max(n/4, 1)
			err := r.finish(ep.Put(nil, w.addr, w.key, &ucp.RequestParams{Buffer: ucp.Generic(d.dt, make([]byte, n), n)}))
			if !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("%d bytes, stopped at %d: %v", n, stop, err)
			}
			if d.started != 1 || d.finished != 1 {
				t.Errorf("%d states started, %d finished", d.started, d.finished)
			}
			r.must(ep.Flush(nil))
			src := ucttest.Pattern(n, 2)
			r.must(ep.Put(src, w.addr, w.key, nil))
			r.must(ep.Flush(nil))
			ucttest.SameBytes(t, "put", mem, src)
		}
	}
}
