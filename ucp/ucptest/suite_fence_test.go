//go:build linux

package ucptest

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// testFence checks that operations after a fence take effect after those before it, whatever their
// protocols.
func testFence(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	r.inTheCall(nil, a.Fence())
	const n = 20_000
	mem, flag := make([]byte, n), make([]byte, 8)
	w := r.unpack(ep, b.expose(mem, 0))
	f := r.unpack(ep, b.expose(flag, 0))
	one := binary.NativeEndian.AppendUint64(nil, 1)
	for round := range 5 {
		src := bytes.Repeat([]byte{byte(round + 1)}, n)
		put, err := ep.Put(src, w.addr, w.key, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Fence(); err != nil {
			t.Fatal(err)
		}
		r.inTheCall(ep.Atomic(ucp.AtomicAdd, one, f.addr, f.key, nil))
		if err := a.Fence(); err != nil {
			t.Fatal(err)
		}
		back := make([]byte, 8)
		get, err := ep.Get(back, f.addr, f.key, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.until("the flag", func() bool {
			// If the flag is set, all data has been written.
			if binary.NativeEndian.Uint64(flag) != uint64(round+1) {
				return false
			}
			if !bytes.Equal(mem, src) {
				t.Fatal("the flag has overtaken the data")
			}
			return true
		})
		r.must(put, nil)
		r.must(get, nil)
		if v := binary.NativeEndian.Uint64(back); v != uint64(round+1) {
			t.Errorf("a get behind the fence read %d, want %d", v, round+1)
		}
	}
	r.must(a.Flush(nil))
}

// testFenceBehindPieces checks that the pending pieces of a put are written before a later put
// after a fence, even if both wait, for the peer's id or for the transport.
func testFenceBehindPieces(t *testing.T, tr transport) {
	for _, wait := range []string{"nothing", "the peer's id", "the transport"} {
		r := newRig(t, tr.with(setting{"ZCOPY_THRESH", "inf"}))
		a, b := r.oneSidedPair()
		ep := a.connect(b)
		const n = 3 * pieceSize
		mem, flag := make([]byte, n), make([]byte, 8)
		w, f := r.unpack(ep, b.expose(mem, 0)), r.unpack(ep, b.expose(flag, 0))
		src := bytes.Repeat([]byte{1}, n)
		var open []*ucp.Request
		add := func(req *ucp.Request, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, req)
		}
		if wait != "the peer's id" {
			r.warm(ep, b)
		}
		for wait == "the transport" && a.Stats().Pending == 0 {
			add(ep.Put(src[:8000], w.addr, w.key, nil))
			if len(open) > 5000 {
				break // the transport accepts everything
			}
		}
		add(ep.Put(src, w.addr, w.key, nil))
		if err := a.Fence(); err != nil {
			t.Fatal(err)
		}
		add(ep.Put([]byte{1}, f.addr, f.key, nil))
		r.until("the put behind the fence", func() bool {
			if flag[0] == 0 {
				return false
			}
			if !bytes.Equal(mem, src) {
				t.Fatalf("waiting for %s: the put behind the fence has overtaken", wait)
			}
			return true
		})
		for _, req := range open {
			r.must(req, nil)
		}
		r.must(ep.Flush(nil))
	}
}
