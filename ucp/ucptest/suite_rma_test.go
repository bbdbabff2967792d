//go:build linux

package ucptest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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

// without removes one-sided capabilities of a simulated transport.
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

// rmaTransports are the transports, and simulated ones with fewer kinds of access to the peer's
// memory, which use messages for the rest.
var rmaTransports = inTurn(append(slices.Clone(transports),
	simulate("simmsg", sim.Options{Attr: without(allPuts|allGets, true)}),
	simulate("simput", sim.Options{Attr: without(allGets, true), Latency: 1}).rough(),
	simulate("simbcopy", sim.Options{Attr: without(uct.IfacePutShort|uct.IfacePutZcopy|uct.IfaceGetZcopy, false)}),
	simulate("simzcopy", sim.Options{Attr: without(uct.IfacePutShort|uct.IfacePutBcopy|uct.IfaceGetBcopy, true)}),
	simHandles,
	simulate("simmsglate", sim.Options{Attr: without(allPuts|allGets, true), Latency: 2, ConnectDelay: 3, Buffered: true, KeepData: true, Plan: fault.Late(3)}).rough(),
	simulate("simmsgstorm", sim.Options{Attr: without(allPuts|allGets, true), Window: 3, Plan: fault.Storm(9, 40, 4)}).rough(),
))

// simHandles registers memory for each operation.
var simHandles = func() transport {
	tr := simulate("simhandles", sim.Options{
		Attr:       without(uct.IfacePutShort|uct.IfacePutBcopy|uct.IfaceGetBcopy, false),
		DomainAttr: func(a *uct.MDAttr) { a.Flags |= uct.MDFlagNeedMemh },
	})
	tr.few = true // registrations allocate
	return tr
}()

func TestOneSided(t *testing.T) { runGroups(t, rmaTransports, oneSidedSuite) }

// oneSidedSuite has the tests of access to a peer's memory.
var oneSidedSuite = []caseGroup{
	{"put and get", rmaCases},
	{"atomics", amoCases},
}

// sizeText returns the name of an operation on n bytes.
func sizeText(what string, n int) string { return fmt.Sprintf("%s of %d bytes", what, n) }

// window is memory of one side to which the other has access.
type window struct {
	*ucp.Memory
	key  *ucp.Rkey
	addr uint64
}

// oneSidedPair opens two workers with the features of these tests.
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

// unpack unpacks a key of the other side's memory.
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
	return window{Memory: m, key: key, addr: m.Attr().Address}
}

// access completes an operation of a kind (put, get, atomic) on the memory.
func (r *rig) access(ep *ucp.Endpoint, kind string, w window, local []byte) error {
	r.Helper()
	var req *ucp.Request
	var err error
	switch kind {
	case "put":
		req, err = ep.Put(local, w.addr, w.key, nil)
	case "get":
		req, err = ep.Get(local, w.addr, w.key, nil)
	case "atomic":
		req, err = ep.Atomic(ucp.AtomicAdd, word64(1), w.addr, w.key, &ucp.RequestParams{ReplyBuffer: local[:8]})
	default:
		r.Fatalf("an access of kind %q", kind)
	}
	if err = r.finish(req, err); err == nil {
		err = r.finish(ep.Flush(nil))
	}
	return err
}

var rmaCases = []testCase{
	{"put", everySwitch, testPut},
	{"get", everySwitch, testGet},
	{"scattered", fewSwitches, testScatteredAccess},
	{"datatypes", fewSwitches, testGenericAccess},
	{"a datatype that stops", fewSwitches, testGenericAccessStops},
	{"no bytes", anywhere, testEmptyAccess},
	{"pieces", anywhere, testPieces},
	{"pieces by messages", twoSides, testPiecesByMessages},
	{"calls that wait", fewSwitches, testBlockingForms},
	{"calls that wait, in callbacks", anywhere, testBlockingRefused},
	{"flush behind pieces", anywhere, testFlushBehindPieces},
	{"close amid pieces", twoSides, testCloseAmidPieces},
	{"many in flight", fewSwitches, testManyAccesses},
	{"completion", fewSwitches, testAccessCompletion},
	{"forced completion", fewSwitches, testForcedAccess},
	{"fence", fewSwitches, testFence},
	{"fence behind pieces", anywhere, testFenceBehindPieces},
	{"denied", twoSides | fewSwitches, testDenied},
	{"denied to oneself", oneSide, testDeniedToOneself},
	{"keys are ordered", anywhere, testRkeyOrder},
	{"parameters", anywhere, testAccessParameters},
	{"parameters of other calls", anywhere, testForeignParameters},
	{"keys", anywhere, testRkeys},
	{"worker close with open keys", anywhere, testCloseWithKeys},
	{"forced close", twoSides | fewSwitches, testForceCloseAccess},
	{"rights of allocated memory", twoSides, testAllocatedRights},
	{"memory of some peers", twoSides, testMemoryOfPeers},
	{"endpoints that cannot be allowed", twoSides, testWrongEndpoint},
	{"unmapped", twoSides, testUnmapped},
	{"unmapped while read", twoSides | fewSwitches, testUnmapWhileRead},
	{"unmapped while used", fewSwitches, testUnmapWhileUsed},
	{"the connection breaks", onDemand | fewSwitches, testAccessFaults},
}

// accessSizes are sizes on both sides of every limit: short, with copies, message, zero-copy.
var accessSizes = []int{1, 8, 200, 4096, 8172, 8173, 8192, 10_000, 70_000, 1<<20 + 3}

// testPut checks that the data of a put is in memory after a flush, and that nothing else has
// changed.
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

// testGet checks that the data is in the buffer when the get is complete, without a flush.
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

// testEmptyAccess checks that an operation on no bytes needs no memory and no message.
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
	req := r.started(ep.Put([]byte{}, 7, w.key, &ucp.RequestParams{Flags: ucp.OpNoImmediate, OnSend: o.onSend}))
	o.once(t)
	if err := req.Err(); err != nil {
		t.Error(err)
	}
	req.Free()
	r.must(ep.Flush(nil))
}

// testManyAccesses starts puts, gets and atomic operations together, before the connection is
// established.
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
		// A flush includes gets.
		if !req.Done() {
			t.Error("an operation is not done after a flush")
		}
		r.must(req, nil)
	}
	ucttest.SameBytes(t, "get", dst, there)
}

// testAccessCompletion checks callbacks, requests of the caller, and requests that are freed late.
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
			Flags: ucp.OpNoImmediate, OnSend: put.onSend, UserData: 1,
		}))
		r.must(req, nil)
		put.once(t)
		r.must(ep.Flush(nil))
		own := new(ucp.Request)
		got, err := ep.Get(dst, w.addr, w.key, &ucp.RequestParams{
			Flags: ucp.OpNoImmediate, OnSend: get.onSend, UserData: 2, Request: own,
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

// testForcedAccess checks that OpForceImmediate completes an operation in the call or has no
// effect.
func testForcedAccess(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	mem := make([]byte, 1<<20)
	w := r.unpack(ep, b.expose(mem, 0))
	p := &ucp.RequestParams{Flags: ucp.OpForceImmediate}
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
