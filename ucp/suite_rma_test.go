package ucp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// oneSided are the features of these tests.
const oneSided = features | ucp.FeatureRMA | ucp.FeatureAMO32 | ucp.FeatureAMO64

// without takes one-sided capabilities away from a simulated transport.
func without(flags uct.IfaceFlags, atomics bool) func(int, *uct.IfaceAttr) {
	return func(_ int, a *uct.IfaceAttr) {
		a.Flags &^= flags
		if atomics {
			a.Atomic32, a.Atomic64 = uct.AtomicOps{}, uct.AtomicOps{}
		}
	}
}

const (
	allPuts = uct.IfacePutShort | uct.IfacePutBcopy | uct.IfacePutZcopy
	allGets = uct.IfaceGetShort | uct.IfaceGetBcopy | uct.IfaceGetZcopy
)

// rmaTransports are the transports, and simulated ones that reach the peer's
// memory in fewer ways: the rest goes by messages.
var rmaTransports = append(append([]transport(nil), transports...),
	simulate("simmsg", sim.Options{Attr: without(allPuts|allGets, true)}),
	simulate("simput", sim.Options{Attr: without(allGets, true), Latency: 1}).rough(),
	simulate("simbcopy", sim.Options{Attr: without(uct.IfacePutShort|uct.IfacePutZcopy|uct.IfaceGetZcopy, false)}),
	simulate("simzcopy", sim.Options{Attr: without(uct.IfacePutShort|uct.IfacePutBcopy|uct.IfaceGetBcopy, true)}),
	simHandles,
	simulate("simmsglate", sim.Options{Attr: without(allPuts|allGets, true), Latency: 2, ConnectDelay: 3, Buffered: true, KeepData: true, Plan: fault.Late(3)}).rough(),
	simulate("simmsgstorm", sim.Options{Attr: without(allPuts|allGets, true), Window: 3, Plan: fault.Storm(9, 40, 4)}).rough(),
)

// simHandles registers memory for each operation.
var simHandles = func() transport {
	tr := simulate("simhandles", sim.Options{
		Attr:       without(uct.IfacePutShort|uct.IfacePutBcopy|uct.IfaceGetBcopy|uct.IfaceAMZcopy, false),
		DomainAttr: func(a *uct.MDAttr) { a.Flags |= uct.MDFlagNeedMemh },
	})
	tr.few = true // registrations allocate
	return tr
}()

func TestOneSided(t *testing.T) {
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"put and get", rmaCases},
		{"atomics", amoCases},
	}
	for _, tr := range rmaTransports {
		t.Run(tr.name, func(t *testing.T) {
			for _, g := range groups {
				t.Run(g.name, func(t *testing.T) {
					for _, c := range g.cases {
						runCase(t, c, tr)
					}
				})
			}
		})
	}
}

// sizeText names an operation on n bytes.
func sizeText(what string, n int) string { return fmt.Sprintf("%s of %d bytes", what, n) }

// window is memory of one side that the other opens.
type window struct {
	*ucp.Memory
	key  *ucp.Rkey
	addr uint64
}

// oneSidedPair makes two workers with the features of these tests.
func (r *rig) oneSidedPair() (a, b *side) {
	r.Helper()
	a = r.openWith(ucp.ContextParams{Features: oneSided}, ucp.WorkerParams{})
	if r.loopback {
		return a, a
	}
	return a, r.openWith(ucp.ContextParams{Features: oneSided}, ucp.WorkerParams{})
}

// expose registers memory of a side until the end of the test.
func (s *side) expose(buf []byte, prot ucp.MemProt) *ucp.Memory {
	s.rig.Helper()
	m, err := s.ctx.MemMap(ucp.MemMapParams{Buffer: buf, Prot: prot})
	if err != nil {
		s.rig.Fatal(err)
	}
	s.unmap = append(s.unmap, m)
	return m
}

// unpack opens memory of the other side.
func (r *rig) unpack(ep *ucp.Endpoint, m *ucp.Memory) window {
	r.Helper()
	packed, err := m.PackRkey()
	if err != nil {
		r.Fatal(err)
	}
	key, err := ep.UnpackRkey(packed)
	if err != nil {
		r.Fatal(err)
	}
	r.keys = append(r.keys, key)
	return window{Memory: m, key: key, addr: m.Query().Address}
}

var rmaCases = []testCase{
	{"put", everySwitch, testPut},
	{"get", everySwitch, testGet},
	{"scattered", fewSwitches, testScatteredAccess},
	{"datatypes", fewSwitches, testGenericAccess},
	{"a datatype that stops", fewSwitches, testGenericAccessStops},
	{"no bytes", anywhere, testEmptyAccess},
	{"many in flight", fewSwitches, testManyAccesses},
	{"completion", fewSwitches, testAccessCompletion},
	{"forced completion", fewSwitches, testForcedAccess},
	{"fence", fewSwitches, testFence},
	{"denied", twoSides | fewSwitches, testDenied},
	{"denied to oneself", anywhere, testDeniedToOneself},
	{"parameters", anywhere, testAccessParameters},
	{"keys", anywhere, testRkeys},
	{"worker close with open keys", anywhere, testCloseWithKeys},
	{"forced close", twoSides | fewSwitches, testForceCloseAccess},
	{"unmapped while read", twoSides | fewSwitches, testUnmapWhileRead},
	{"the connection breaks", onDemand | fewSwitches, testAccessFaults},
}

// accessSizes cross every limit: short, copied, message, zero-copy.
var accessSizes = []int{1, 8, 200, 4096, 8172, 8173, 8192, 10_000, 70_000, 1<<20 + 3}

// testPut: what was put is there after a flush, and nothing else has changed.
func testPut(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	const guard = 64
	for i, n := range accessSizes {
		mem := bytes.Repeat([]byte{0xA5}, n+2*guard)
		w := r.unpack(ep, b.expose(mem, 0))
		src := ucttest.Pattern(n, uint64(i))
		r.must(ep.Put(src, w.addr+guard, w.key, nil))
		if i%2 == 0 {
			r.must(ep.Flush(nil))
		} else {
			r.must(a.Flush(nil))
		}
		ucttest.SameBytes(t, fmt.Sprintf("%d bytes (%v)", n, w.key), mem[guard:guard+n], src)
		around := append(append([]byte(nil), mem[:guard]...), mem[guard+n:]...)
		if !bytes.Equal(around, bytes.Repeat([]byte{0xA5}, 2*guard)) {
			t.Errorf("%d bytes: memory around was changed", n)
		}
		w.key.Close()
	}
}

// testGet: what was read is there when the get is done, without a flush.
func testGet(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	for i, n := range accessSizes {
		mem := ucttest.Pattern(n+9, uint64(i))
		w := r.unpack(ep, b.expose(mem, 0))
		dst := bytes.Repeat([]byte{0xA5}, n+8)
		r.must(ep.Get(dst[:n:n], w.addr+9, w.key, nil))
		ucttest.SameBytes(t, fmt.Sprintf("%d bytes (%v)", n, w.key), dst[:n], mem[9:])
		if !bytes.Equal(dst[n:], bytes.Repeat([]byte{0xA5}, 8)) {
			t.Errorf("%d bytes: memory behind was changed", n)
		}
		w.key.Close()
	}
}

// testEmptyAccess: no bytes need no memory and no message.
func testEmptyAccess(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	m, err := b.ctx.MemMap(ucp.MemMapParams{Buffer: []byte{}})
	if err != nil {
		t.Fatal(err)
	}
	w := r.unpack(ep, m)
	r.inTheCall(ep.Put(nil, 0, w.key, nil))
	r.inTheCall(ep.Get(nil, 12345, w.key, nil))
	var o outcome
	req := r.started(ep.Put([]byte{}, 7, w.key, &ucp.RequestParams{Attr: ucp.OpNoImmediate, OnSend: o.onSend}))
	o.once(t)
	if err := req.Err(); err != nil {
		t.Error(err)
	}
	req.Free()
	r.must(ep.Flush(nil))
}

// testManyAccesses: puts, gets and atomic operations in flight together, started
// before the connection stands.
func testManyAccesses(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	const count, size = 60, 3000
	mem := make([]byte, count*size)
	there := ucttest.Pattern(count*size, 3)
	word := make([]byte, 8)
	w := r.unpack(ep, b.expose(mem, 0))
	from := r.unpack(ep, b.expose(there, 0))
	sum := r.unpack(ep, b.expose(word, 0))
	src, dst := ucttest.Pattern(count*size, 2), make([]byte, count*size)
	one := binary.NativeEndian.AppendUint64(nil, 1)
	var open []*ucp.Request
	for i := range count {
		at := i * size
		put, err := ep.Put(src[at:at+size], w.addr+uint64(at), w.key, nil)
		if err != nil {
			t.Fatal(err)
		}
		get, err := ep.Get(dst[at:at+size], from.addr+uint64(at), from.key, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.inTheCall(ep.Atomic(ucp.AtomicAdd, one, sum.addr, sum.key, nil))
		open = append(open, put, get)
	}
	r.must(a.Flush(nil))
	ucttest.SameBytes(t, "put", mem, src)
	if n := binary.NativeEndian.Uint64(word); n != count {
		t.Errorf("%d additions were done, want %d", n, count)
	}
	for _, req := range open {
		// A flush covers gets as well.
		if !req.Done() {
			t.Error("an operation is not done after a flush")
		}
		r.must(req, nil)
	}
	ucttest.SameBytes(t, "get", dst, there)
}

// testAccessCompletion: callbacks, requests of the user and requests that are
// not freed in time.
func testAccessCompletion(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	for _, n := range []int{100, 50_000} {
		mem := make([]byte, n)
		w := r.unpack(ep, b.expose(mem, 0))
		src, dst := ucttest.Pattern(n, 5), make([]byte, n)
		var put, get outcome
		req := r.started(ep.Put(src, w.addr, w.key, &ucp.RequestParams{
			Attr: ucp.OpNoImmediate, OnSend: put.onSend, UserData: 1,
		}))
		r.must(req, nil)
		put.once(t)
		r.must(ep.Flush(nil))
		own := new(ucp.Request)
		got, err := ep.Get(dst, w.addr, w.key, &ucp.RequestParams{
			Attr: ucp.OpNoImmediate, OnSend: get.onSend, UserData: 2, Request: own,
		})
		if err != nil || got != own {
			t.Fatalf("%v, %v", got, err)
		}
		r.until("a get", own.Done)
		get.once(t)
		if put.data != 1 || get.data != 2 || put.err != nil || get.err != nil || get.req != own {
			t.Errorf("callbacks: %+v, %+v", put, get)
		}
		ucttest.SameBytes(t, "get", dst, src)

		clear(dst)
		silent, err := ep.Get(dst, w.addr, w.key, &ucp.RequestParams{OnSend: func(*ucp.Request, error, any) {
			t.Error("the callback of a freed request ran")
		}})
		if err != nil {
			t.Fatal(err)
		}
		silent.Free()
		r.must(ep.Flush(nil))
		ucttest.SameBytes(t, "get without request", dst, src)
	}
}

// testForcedAccess: OpForceImmediate does it in the call or not at all.
func testForcedAccess(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	mem := make([]byte, 1<<20)
	w := r.unpack(ep, b.expose(mem, 0))
	p := &ucp.RequestParams{Attr: ucp.OpForceImmediate}
	r.warm(ep, b)
	if req, err := ep.Get(make([]byte, 8), w.addr, w.key, p); req != nil || !errors.Is(err, ucs.ErrNoResource) {
		t.Errorf("get: %v, %v", req, err)
	}
	for _, n := range []int{8, 300, 1 << 20} {
		clear(mem)
		src := bytes.Repeat([]byte{1}, n)
		req, err := ep.Put(src, w.addr, w.key, p)
		if req != nil || err != nil && !errors.Is(err, ucs.ErrNoResource) {
			t.Fatalf("%d bytes: %v, %v", n, req, err)
		}
		if err != nil && n == 8 && !tr.busy && tr.name != "simzcopy" {
			t.Errorf("%d bytes are too many", n)
		}
		clear(src)
		r.must(ep.Flush(nil))
		want := byte(0)
		if err == nil {
			want = 1
		}
		if !bytes.Equal(mem[:n], bytes.Repeat([]byte{want}, n)) {
			t.Errorf("%d bytes, %v: the memory is wrong", n, err)
		}
	}
}

// testFence: what was started behind a fence takes effect after what was started
// before, whatever ways they take.
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
			// Whenever the flag is there, all of the data is.
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

// testDenied: memory that is not registered, or not for that, is neither read
// nor written, and the operation or its flush ends with an error.
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

// testDeniedToOneself: over a direct way to one's own memory a violation is told
// in the call and the endpoint goes on.
func testDeniedToOneself(t *testing.T, tr transport) {
	if !tr.loopback {
		return
	}
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

// testAccessParameters: what makes no sense is refused before anything happens.
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
		"contradictory flags":  {ep, w.key, w.addr, &ucp.RequestParams{Attr: ucp.OpFastComplete | ucp.OpMultiSend}, ucs.ErrInvalidParam},
		"bad elements":         {ep, w.key, w.addr, &ucp.RequestParams{Buffer: ucp.Elements(buf, 3)}, ucs.ErrInvalidParam},
		"memory that is a GPU": {ep, w.key, w.addr, &ucp.RequestParams{MemoryType: ucs.MemoryCUDA}, ucs.ErrUnsupported},
	} {
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

// sideOr is the other side, or s where a worker reaches only itself.
func (s *side) sideOr(other *side) *side {
	if s.rig.loopback {
		return s
	}
	return other
}

// testRkeys: keys are compared by what they open, give pointers where memory is
// shared, and are errors when they make no sense.
func testRkeys(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	m := b.expose(make([]byte, 100), 0)
	one, two := r.unpack(ep, m), r.unpack(ep, m)
	none, err := ep.UnpackRkey(make([]byte, 9))
	if err != nil {
		t.Fatal(err)
	}
	if one.key.Compare(two.key) != 0 || one.key.Compare(one.key) != 0 {
		t.Error("two keys of one memory differ")
	}
	if x, y := one.key.Compare(none), none.Compare(one.key); x != -y {
		t.Errorf("compared one way %d, the other %d", x, y)
	}
	packed, err := m.PackRkey()
	if err != nil {
		t.Fatal(err)
	}
	for n := range packed {
		if n < 9 {
			if _, err := ep.UnpackRkey(packed[:n]); !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("%d of %d bytes: %v", n, len(packed), err)
			}
		}
		bad := bytes.Clone(packed)
		bad[n] ^= 0xFF
		if k, err := ep.UnpackRkey(bad); err == nil {
			k.Close()
		}
	}
	// A key of C UCX 1.13.1 with all its transports: those we lack are skipped.
	foreign := []byte{0x17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0x23, 0, 0x4c, 0, 0, 0x20, 0xd7, 0xbf, 0xe1, 0x7f, 0, 0, 0}
	if k, err := ep.UnpackRkey(foreign); err != nil && (tr.name == "self" || tr.name == "tcp") {
		t.Errorf("a key of C: %v", err)
	} else if err == nil {
		k.Close()
	}
	gpu := make([]byte, 9)
	gpu[8] = 1
	if _, err := ep.UnpackRkey(gpu); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("a key of GPU memory: %v", err)
	}
	p, err := one.key.Ptr(one.addr+10, 20)
	switch {
	case tr.loopback:
		if err != nil || addressOf(p) != one.addr+10 || len(p) != 20 {
			t.Errorf("pointer: %d bytes, %v", len(p), err)
		}
		if _, err := one.key.Ptr(one.addr+90, 20); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("pointer behind the end: %v", err)
		}
	case !errors.Is(err, ucs.ErrUnreachable):
		t.Errorf("pointer: %v", err)
	}
	for _, k := range []*ucp.Rkey{one.key, two.key, none} {
		if k.String() == "" || k.Close() != nil || k.String() != "closed" {
			t.Errorf("key %v", k)
		}
	}
	if _, err := one.key.Ptr(one.addr, 1); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("pointer of a closed key: %v", err)
	}
}

// testForceCloseAccess: a forced close ends what is in flight, each once.
func testForceCloseAccess(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	mem := make([]byte, 1<<20)
	w := r.unpack(ep, b.expose(mem, 0))
	var outs []*outcome
	var open []*ucp.Request
	start := func(f func(p *ucp.RequestParams) (*ucp.Request, error)) {
		o := new(outcome)
		req := r.started(f(&ucp.RequestParams{Attr: ucp.OpNoImmediate, OnSend: o.onSend}))
		outs, open = append(outs, o), append(open, req)
	}
	for range 3 {
		start(func(p *ucp.RequestParams) (*ucp.Request, error) { return ep.Get(make([]byte, 1<<20), w.addr, w.key, p) })
		start(func(p *ucp.RequestParams) (*ucp.Request, error) { return ep.Put(make([]byte, 1<<20), w.addr, w.key, p) })
		start(func(p *ucp.RequestParams) (*ucp.Request, error) {
			p.ReplyBuffer = make([]byte, 8)
			return ep.Atomic(ucp.AtomicSwap, make([]byte, 8), w.addr, w.key, p)
		})
		start(ep.Flush)
	}
	r.inTheCall(ep.CloseAsync(force))
	for i, req := range open {
		if !req.Done() {
			t.Fatalf("operation %d is still running", i)
		}
		outs[i].once(t)
		if err := req.Err(); err != nil && !errors.Is(err, ucs.ErrCanceled) {
			t.Errorf("operation %d: %v", i, err)
		}
		req.Free()
	}
	r.settle()
}

// testUnmapWhileRead: memory that is unmapped while a peer reads it is read to
// the end, or the peer is told; nothing crashes.
func testUnmapWhileRead(t *testing.T, tr transport) {
	r := newRig(t, tr)
	r.log.Allow("")
	a, b := r.oneSidedPair()
	ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	const n = 4 << 20
	m, err := b.ctx.MemMap(ucp.MemMapParams{Length: n, Flags: ucp.MemMapAllocate})
	if err != nil {
		t.Fatal(err)
	}
	src := ucttest.Pattern(n, 1)
	copy(m.Bytes(), src)
	w := r.unpack(ep, m)
	dst := make([]byte, n)
	r.must(ep.Get(dst[:1], w.addr, w.key, nil))
	get, err := ep.Get(dst, w.addr, w.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b.Progress()
	}
	if err := m.Unmap(); err != nil {
		t.Fatal(err)
	}
	if err := r.finish(get, nil); err == nil {
		ucttest.SameBytes(t, "get", dst, src)
	}
	late, err := ep.Get(dst[:8], w.addr, w.key, nil)
	if err := r.finish(late, err); err == nil && !strings.Contains(w.key.String(), "get posix") && !strings.Contains(w.key.String(), "get sysv") {
		t.Errorf("unmapped memory was read (%v)", w.key)
	}
}

// testAccessFaults: with the connection breaking at every operation in turn,
// everything ends exactly once and what succeeded is right.
func testAccessFaults(t *testing.T, tr transport) {
	for _, e := range []fault.Effect{{Drop: ucs.ErrConnectionReset}, {Fail: ucs.ErrIO}} {
		met := 0
		for n := 1; ; n++ {
			if n == 200 {
				t.Fatal("no end")
			}
			hit, ended := accessUnderFault(t, tr, n, e)
			if t.Failed() {
				t.Fatalf("after trouble at operation %d", n)
			}
			if !hit {
				break
			}
			met += ended
		}
		if met == 0 {
			t.Error("nothing was disturbed")
		}
	}
}

func accessUnderFault(t *testing.T, tr transport, n int, e fault.Effect) (hit bool, failed int) {
	r := newRig(t, tr)
	r.log.Allow("")
	plan := tr.sim.plan
	if plan == nil {
		plan = fault.All()
	}
	base := fault.At(n, e)
	tr.sim.inject(t, fault.All(func(op fault.Op) fault.Effect {
		eff := base(op)
		hit = hit || eff != fault.Effect{}
		return eff
	}, plan))
	defer func() { tr.sim.plan = plan }()
	a, b := r.oneSidedPair()
	ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	mem := ucttest.Pattern(50_000, 1)
	w := r.unpack(ep, b.expose(mem, 0))
	word := r.unpack(ep, b.expose(make([]byte, 8), 0))
	type operation struct {
		req *ucp.Request
		out outcome
		dst []byte
	}
	var list []*operation
	for i := range 3 {
		for k := range 4 {
			o := &operation{}
			p := &ucp.RequestParams{Attr: ucp.OpNoImmediate, OnSend: o.out.onSend}
			var err error
			switch k {
			case 0:
				o.dst = make([]byte, 1000+i*20_000)
				o.req, err = ep.Get(o.dst, w.addr, w.key, p)
			case 1:
				o.req, err = ep.Put(mem[:1000+i*20_000], w.addr, w.key, p)
			case 2:
				p.ReplyBuffer = make([]byte, 8)
				o.req, err = ep.Atomic(ucp.AtomicAdd, []byte{1, 0, 0, 0, 0, 0, 0, 0}, word.addr, word.key, p)
			case 3:
				a.Fence()
				o.req, err = ep.Flush(p)
			}
			if err != nil {
				failed++
				continue
			}
			list = append(list, o)
		}
		r.progress()
	}
	for idle := 0; idle < 100; idle++ {
		if r.progress() > 0 {
			idle = 0
		}
	}
	if ep.Err() == nil {
		r.inTheCall(ep.CloseAsync(force))
	}
	for i, o := range list {
		if !o.req.Done() {
			t.Fatalf("operation %d did not end", i)
		}
		o.out.once(t)
		if o.req.Err() != nil {
			failed++
		} else if o.dst != nil {
			ucttest.SameBytes(t, "get", o.dst, mem[:len(o.dst)])
		}
	}
	return hit, failed
}
