//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// testDenied checks that memory that is not registered, or not for the kind of access, is neither
// read nor written, and that the operation or its flush fails.
func testDenied(t *testing.T, tr transport) {
	for _, c := range []struct {
		name string
		prot ucp.MemProt
		off  int
		n    int
		get  bool
		amo  bool
	}{
		{"put behind the end", 0, 4000, 200, false, false},
		{"large put behind the end", 0, 100, 100_000, false, false},
		{"put before the start", 0, -8, 16, false, false},
		{"get behind the end", 0, 4090, 10, true, false},
		{"large get", 0, 0, 1 << 20, true, false},
		{"put to read-only memory", ucp.ProtRemoteRead, 0, 8, false, false},
		{"large put to read-only memory", ucp.ProtRemoteRead, 0, 4000, false, false},
		{"get from write-only memory", ucp.ProtRemoteWrite, 0, 8, true, false},
		{"atomic on read-only memory", ucp.ProtRemoteRead, 8, 8, false, true},
		{"atomic behind the end", 0, 4096, 8, false, true},
		{"put to private memory", ucp.ProtLocalRead | ucp.ProtLocalWrite, 0, 8, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, tr)
			r.log.Allow("")
			a, b := r.oneSidedPair()
			var f failure
			ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: f.onError})
			arena := bytes.Repeat([]byte{0x5A}, 3*4096)
			w := r.unpack(ep, b.expose(arena[4096:2*4096:2*4096], c.prot))
			local := bytes.Repeat([]byte{0xC3}, c.n)
			if c.amo {
				local = make([]byte, 8)
				local[0] = 1
			}
			kept := bytes.Clone(local)
			addr := w.addr + uint64(c.off)
			var req *ucp.Request
			var err error
			switch {
			case c.amo:
				reply := make([]byte, 8)
				req, err = ep.Atomic(ucp.AtomicAdd, local, addr, w.key, &ucp.RequestParams{ReplyBuffer: reply})
			case c.get:
				req, err = ep.Get(local, addr, w.key, nil)
			default:
				req, err = ep.Put(local, addr, w.key, nil)
			}
			if err == nil {
				err = r.finish(req, nil)
			}
			if err == nil {
				err = r.finish(ep.Flush(nil))
			}
			if err == nil {
				t.Errorf("success (%v)", w.key)
			}
			if !bytes.Equal(arena, bytes.Repeat([]byte{0x5A}, len(arena))) {
				t.Error("memory was changed")
			}
			if !bytes.Equal(local, kept) {
				t.Error("something was read")
			}
			if f.calls > 1 {
				t.Errorf("the error handler ran %d times", f.calls)
			}
		})
	}
}

// testDeniedToOneself checks that a direct access to the worker's own memory that is not permitted
// fails in the call, and that the endpoint goes on.
func testDeniedToOneself(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, _ := r.oneSidedPair()
	ep := a.connect(a)
	mem := make([]byte, 100)
	w := r.unpack(ep, a.expose(mem[:50], 0))
	if req, err := ep.Put(make([]byte, 51), w.addr, w.key, nil); req != nil || !errors.Is(err, ucs.ErrInvalidAddr) {
		t.Errorf("put: %v, %v", req, err)
	}
	if req, err := ep.Get(make([]byte, 51), w.addr, w.key, nil); req != nil || !errors.Is(err, ucs.ErrInvalidAddr) {
		t.Errorf("get: %v, %v", req, err)
	}
	r.must(ep.Put(make([]byte, 50), w.addr, w.key, nil))
	r.must(ep.Flush(nil))
}

// testAccessParameters checks that invalid parameters are refused without effect.
func testAccessParameters(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep, other := a.connect(b), a.connect(b)
	mem := make([]byte, 100)
	m := b.expose(mem, 0)
	w := r.unpack(ep, m)
	buf := make([]byte, 10)
	local := a.expose(make([]byte, 20), 0)
	closed := r.unpack(ep, m)
	if err := closed.key.Close(); err != nil {
		t.Error(err)
	}
	if err := closed.key.Close(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		ep   *ucp.Endpoint
		key  *ucp.Rkey
		addr uint64
		p    *ucp.RequestParams
		want ucs.Status
	}{
		"no key":               {ep, nil, w.addr, nil, ucs.ErrInvalidParam},
		"key of another":       {other, w.key, w.addr, nil, ucs.ErrInvalidParam},
		"closed key":           {ep, closed.key, w.addr, nil, ucs.ErrInvalidParam},
		"wrapping address":     {ep, w.key, ^uint64(0) - 3, nil, ucs.ErrInvalidAddr},
		"other memory":         {ep, w.key, w.addr, &ucp.RequestParams{Memory: local}, ucs.ErrInvalidParam},
		"contradictory flags":  {ep, w.key, w.addr, &ucp.RequestParams{Flags: ucp.OpFastComplete | ucp.OpMultiSend}, ucs.ErrInvalidParam},
		"bad elements":         {ep, w.key, w.addr, &ucp.RequestParams{Buffer: ucp.Elements(buf, 3)}, ucs.ErrInvalidParam},
		"memory that is a GPU": {ep, w.key, w.addr, &ucp.RequestParams{MemoryType: ucs.MemoryCUDA}, ucs.ErrUnsupported},
	} {
		buf := buf
		if c.p != nil {
			buf = plain(buf, c.p)
		}
		if req, err := c.ep.Put(buf, c.addr, c.key, c.p); req != nil || !errors.Is(err, c.want) {
			t.Errorf("put, %s: %v, %v", name, req, err)
		}
		if req, err := c.ep.Get(buf, c.addr, c.key, c.p); req != nil || !errors.Is(err, c.want) {
			t.Errorf("get, %s: %v, %v", name, req, err)
		}
	}
	r.must(ep.Put(local.Bytes()[5:15], w.addr, w.key, &ucp.RequestParams{Memory: local}))
	r.must(ep.Get(local.Bytes()[5:15], w.addr, w.key, &ucp.RequestParams{Memory: local}))

	plain := r.open() // without the features
	pep := plain.connect(plain.sideOr(b))
	if _, err := pep.UnpackRkey(make([]byte, 9)); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("unpacking without the feature: %v", err)
	}
	r.must(ep.CloseAsync(nil))
	if req, err := ep.Put(buf, w.addr, w.key, nil); req != nil || !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("put to a closed endpoint: %v, %v", req, err)
	}
	if _, err := ep.UnpackRkey(make([]byte, 9)); !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("unpacking on a closed endpoint: %v", err)
	}
}

// sideOr returns the other side, or s on a loopback transport.
func (s *side) sideOr(other *side) *side {
	if s.rig.loopback {
		return s
	}
	return other
}
