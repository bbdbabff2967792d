//go:build linux

package ucptest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

var amoCases = []testCase{
	{"every operation", fewSwitches, testAtomics},
	{"neighbors", anywhere, testAtomicNeighbors},
	{"concurrent additions", anywhere, testConcurrentAtomics},
	{"completion", anywhere, testAtomicCompletion},
	{"forced completion", anywhere, testForcedAtomics},
	{"parameters", anywhere, testAtomicParameters},
	{"words", fewSwitches, testWords},
	{"parameters of words", anywhere, testWordParameters},
	{"behind a fence", anywhere, testAtomicFence},
	{"closed keys and endpoints", anywhere, testAtomicClosed},
}

func word64(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }
func word32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// testAtomics checks that each operation, of each size, with and without result, does what the
// table in ucp.h says.
func testAtomics(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	mem := make([]byte, 16)
	w := r.unpack(ep, b.expose(mem, 0))
	for _, c := range []struct {
		name       string
		op         ucp.AtomicOp
		y, x, swap uint64
		w32, w64   uint64
	}{
		{"add", ucp.AtomicAdd, 5, 7, 0, 12, 12},
		{"add wraps 32", ucp.AtomicAdd, 0xffffffff, 1, 0, 0, 0x100000000},
		{"add wraps 64", ucp.AtomicAdd, ^uint64(0), 2, 0, 1, 1},
		{"and", ucp.AtomicAnd, 0xff00ff, 0x0ff00f, 0, 0x0f000f, 0x0f000f},
		{"or", ucp.AtomicOr, 0xf0, 0x0f, 0, 0xff, 0xff},
		{"xor", ucp.AtomicXor, 0xff, 0x0f, 0, 0xf0, 0xf0},
		{"swap", ucp.AtomicSwap, 1, 1<<40 | 9, 0, 9, 1<<40 | 9},
		{"compare-swap, equal", ucp.AtomicCompareSwap, 3, 3, 8, 8, 8},
		{"compare-swap, different", ucp.AtomicCompareSwap, 3, 4, 8, 3, 3},
	} {
		for _, size := range []int{4, 8} {
			encode := func(v uint64) []byte {
				if size == 4 {
					return word32(uint32(v))
				}
				return word64(v)
			}
			want := encode(c.w64)
			if size == 4 {
				want = encode(c.w32)
			}
			for _, fetch := range []bool{true, false} {
				if !fetch && c.op >= ucp.AtomicSwap && c.op <= ucp.AtomicCompareSwap {
					continue
				}
				at := mem[8 : 8+size]
				copy(at, encode(c.y))
				operand := encode(c.x)
				var p *ucp.RequestParams
				if fetch {
					p = &ucp.RequestParams{ReplyBuffer: encode(c.swap)}
				}
				r.must(ep.Atomic(c.op, operand, w.addr+8, w.key, p))
				if fetch && !bytes.Equal(p.ReplyBuffer, encode(c.y)) {
					t.Errorf("%s, %d bytes: the result is %x, want %x", c.name, size, p.ReplyBuffer, encode(c.y))
				}
				if !fetch {
					clear(operand) // may be changed, as it was copied
					r.must(ep.Flush(nil))
				}
				if !bytes.Equal(at, want) {
					t.Errorf("%s, %d bytes, fetch %v: %x, want %x", c.name, size, fetch, at, want)
				}
			}
		}
	}
}

// testAtomicNeighbors checks that operations on 4 bytes at an odd multiple of 4 work and do not
// change the adjacent bytes.
func testAtomicNeighbors(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	mem := bytes.Repeat([]byte{0xFF}, 16)
	w := r.unpack(ep, b.expose(mem, 0))
	for range 3 {
		r.must(ep.Atomic(ucp.AtomicAdd, word32(1), w.addr+4, w.key, nil))
	}
	r.must(ep.Flush(nil))
	want := bytes.Repeat([]byte{0xFF}, 16)
	copy(want[4:], word32(2))
	if !bytes.Equal(mem, want) {
		t.Errorf("%x, want %x", mem, want)
	}
}

// testConcurrentAtomics checks that concurrent additions over several endpoints of both sides add
// up, and that the fetched values are all different.
func testConcurrentAtomics(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	c := r.openWith(ucp.ContextParams{Features: oneSided}, ucp.WorkerParams{})
	if r.loopback {
		c = a
	}
	mem := make([]byte, 8)
	m := b.expose(mem, 0)
	var eps []*ucp.Endpoint
	for _, s := range []*side{a, c, a} {
		eps = append(eps, s.connect(b))
	}
	const rounds = 50
	var open []*ucp.Request
	var results [][]byte
	for _, ep := range eps {
		w := r.unpack(ep, m)
		for i := range rounds {
			if i%2 == 0 {
				r.inTheCall(ep.Atomic(ucp.AtomicAdd, word64(1), w.addr, w.key, nil))
				continue
			}
			reply := make([]byte, 8)
			req, err := ep.Atomic(ucp.AtomicAdd, word64(1), w.addr, w.key, &ucp.RequestParams{ReplyBuffer: reply})
			if err != nil {
				t.Fatal(err)
			}
			open, results = append(open, req), append(results, reply)
		}
	}
	for _, req := range open {
		r.must(req, nil)
	}
	for _, ep := range eps {
		r.must(ep.Flush(nil))
	}
	if n := binary.NativeEndian.Uint64(mem); n != uint64(len(eps)*rounds) {
		t.Errorf("the sum is %d, want %d", n, len(eps)*rounds)
	}
	seen := make(map[string]bool)
	for _, v := range results {
		if seen[string(v)] {
			t.Errorf("the value %x was seen twice", v)
		}
		seen[string(v)] = true
	}
}

// testAtomicCompletion checks that an operation without a reply buffer returns nil and runs no
// callback, even if it is in progress, unless OpNoImmediate is given.
func testAtomicCompletion(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	mem := make([]byte, 8)
	w := r.unpack(ep, b.expose(mem, 0))
	never := func(*ucp.Request, error, any) { t.Error("a callback ran") }
	r.inTheCall(ep.Atomic(ucp.AtomicOr, word64(1), w.addr, w.key, &ucp.RequestParams{OnSend: never}))
	own := new(ucp.Request)
	r.inTheCall(ep.Atomic(ucp.AtomicOr, word64(2), w.addr, w.key, &ucp.RequestParams{OnSend: never, Request: own}))
	var o outcome
	r.must(r.started(ep.Atomic(ucp.AtomicOr, word64(4), w.addr, w.key, &ucp.RequestParams{
		OnSend: o.onSend, Flags: ucp.OpNoImmediate, UserData: 7,
	})), nil)
	o.once(t)
	var f outcome
	reply := make([]byte, 8)
	req := r.started(ep.Atomic(ucp.AtomicOr, word64(8), w.addr, w.key, &ucp.RequestParams{
		OnSend: f.onSend, Flags: ucp.OpNoImmediate, ReplyBuffer: reply, Request: own,
	}))
	if req != own {
		t.Error("not the user's request")
	}
	r.until("an atomic operation", own.Done)
	f.once(t)
	if o.data != 7 || o.err != nil || f.err != nil || binary.NativeEndian.Uint64(reply) != 7 {
		t.Errorf("%+v, %+v, result %x", o, f, reply)
	}
	r.must(ep.Flush(nil))
	if v := binary.NativeEndian.Uint64(mem); v != 15 {
		t.Errorf("%d, want 15", v)
	}
}

// testForcedAtomics checks that OpForceImmediate completes an operation in its call or does
// nothing.
func testForcedAtomics(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	mem := make([]byte, 8)
	w := r.unpack(ep, b.expose(mem, 0))
	r.warm(ep, b)
	var done uint64
	for range 20 {
		for _, reply := range [][]byte{nil, make([]byte, 8)} {
			req, err := ep.Atomic(ucp.AtomicAdd, word64(1), w.addr, w.key,
				&ucp.RequestParams{Flags: ucp.OpForceImmediate, ReplyBuffer: reply})
			switch {
			case req != nil || err != nil && !errors.Is(err, ucs.ErrNoResource):
				t.Fatalf("%v, %v", req, err)
			case err == nil:
				done++
			}
		}
	}
	r.must(ep.Flush(nil))
	if v := binary.NativeEndian.Uint64(mem); v != done {
		t.Errorf("%d additions, %d were done in the call", v, done)
	}
	if tr.loopback && done != 40 {
		t.Errorf("%d operations on oneself were done in the call", done)
	}
}

// testAtomicParameters checks that parameters that ucp_atomic_op_nbx refuses are refused.
func testAtomicParameters(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	w := r.unpack(ep, b.expose(make([]byte, 64), 0))
	local := a.expose(make([]byte, 8), 0)
	reply := make([]byte, 8)
	for name, c := range map[string]struct {
		op      ucp.AtomicOp
		operand []byte
		off     uint64
		key     *ucp.Rkey
		p       *ucp.RequestParams
	}{
		"unknown operation":        {6, word64(1), 0, w.key, nil},
		"no operand":               {ucp.AtomicAdd, nil, 0, w.key, nil},
		"operand of 2":             {ucp.AtomicAdd, make([]byte, 2), 0, w.key, nil},
		"operand of 16":            {ucp.AtomicAdd, make([]byte, 16), 0, w.key, nil},
		"misaligned 8":             {ucp.AtomicAdd, word64(1), 4, w.key, nil},
		"misaligned 4":             {ucp.AtomicAdd, word32(1), 2, w.key, nil},
		"no key":                   {ucp.AtomicAdd, word64(1), 0, nil, nil},
		"swap without reply":       {ucp.AtomicSwap, word64(1), 0, w.key, nil},
		"cswap without reply":      {ucp.AtomicCompareSwap, word64(1), 0, w.key, nil},
		"reply of another size":    {ucp.AtomicAdd, word32(1), 0, w.key, &ucp.RequestParams{ReplyBuffer: reply}},
		"registered memory":        {ucp.AtomicAdd, word64(1), 0, w.key, &ucp.RequestParams{Memory: local}},
		"a buffer":                 {ucp.AtomicAdd, word64(1), 0, w.key, &ucp.RequestParams{Buffer: ucp.Bytes(reply)}},
		"contradictory completion": {ucp.AtomicAdd, word64(1), 0, w.key, &ucp.RequestParams{Flags: ucp.OpNoImmediate | ucp.OpForceImmediate}},
	} {
		if req, err := ep.Atomic(c.op, c.operand, w.addr&^7+8+c.off, c.key, c.p); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v, %v", name, req, err)
		}
	}
	// A context with the feature for one size refuses the other size.
	s := r.openWith(ucp.ContextParams{Features: features | ucp.FeatureAMO32}, ucp.WorkerParams{})
	ep = s.connect(s.sideOr(b))
	m := s.sideOr(b).expose(make([]byte, 8), 0)
	w = r.unpack(ep, m)
	if req, err := ep.Atomic(ucp.AtomicAdd, word64(1), w.addr, w.key, nil); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("64 bits: %v, %v", req, err)
	}
	if req, err := ep.Put(word64(1), w.addr, w.key, nil); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("put: %v, %v", req, err)
	}
	r.must(ep.Atomic(ucp.AtomicAdd, word32(1), w.addr, w.key, nil))
	r.must(ep.Flush(nil))
	if got := m.Bytes(); !bytes.Equal(got[:4], word32(1)) {
		t.Errorf("%x", got)
	}
}

// testAtomicFence checks that an operation after a fence finds what earlier puts write, even if
// they are in progress.
func testAtomicFence(t *testing.T, tr transport) {
	for _, size := range []int{4, 8} {
		r := newRig(t, tr)
		a, b := r.oneSidedPair()
		ep := a.connect(b)
		src := bytes.Repeat([]byte{7}, 4*pieceSize)
		w := r.unpack(ep, b.allocate(len(src)))
		r.must(ep.Flush(nil))
		put, err := ep.Put(src, w.addr, w.key, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Fence(); err != nil {
			t.Fatal(err)
		}
		reply := make([]byte, size)
		r.must(ep.Atomic(ucp.AtomicAdd, word64(1)[:size], w.addr+uint64(len(src)-size), w.key, &ucp.RequestParams{ReplyBuffer: reply}))
		if !bytes.Equal(reply, src[:size]) {
			t.Errorf("%d bytes: %x was there, want what was put", size, reply)
		}
		r.must(put, nil)
	}
}

// testAtomicClosed checks that operations with a closed key or a closed endpoint are refused.
func testAtomicClosed(t *testing.T, tr transport) {
	for _, size := range []int{4, 8} {
		r := newRig(t, tr)
		a, b := r.oneSidedPair()
		ep := a.connect(b)
		w := r.unpack(ep, b.allocate(64))
		p := &ucp.RequestParams{ReplyBuffer: make([]byte, size)}
		add := func(key *ucp.Rkey) (*ucp.Request, error) {
			return ep.Atomic(ucp.AtomicAdd, word64(1)[:size], w.addr, key, p)
		}
		r.must(add(w.key))
		other := r.unpack(ep, w.Memory)
		if err := other.key.Close(); err != nil {
			t.Fatal(err)
		}
		if req, err := add(other.key); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%d bytes, a closed key: %v, %v", size, req, err)
		}
		r.must(add(w.key))
		if p.ReplyBuffer[0] != 1 {
			t.Errorf("%d bytes: %d was there, want what one addition left", size, p.ReplyBuffer[0])
		}
		if err := ep.Close(); err != nil {
			t.Fatal(err)
		}
		if req, err := add(w.key); req != nil || err == nil {
			t.Errorf("%d bytes, a closed endpoint: %v, %v", size, req, err)
		}
	}
}
