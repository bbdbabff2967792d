package ucp

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// target is registered memory of a worker, with fences around it.
type target struct {
	arena, buf []byte
	addr       uint64
	mem        *Memory
}

const targetFence = 64

// memory registers n bytes until the end of the test.
func (v *targetWorker) memory(n int, prot MemProt) *target {
	v.Helper()
	m := mapTarget(v.TB, v.ctx, n, prot)
	v.Cleanup(func() { m.mem.Close() })
	return m
}

// mapTarget registers n bytes.
func mapTarget(t testing.TB, ctx *Context, n int, prot MemProt) *target {
	t.Helper()
	m := &target{arena: make([]byte, n+2*targetFence+8)}
	m.fill()
	at := targetFence + int(-word.Address(m.arena)&7)
	m.buf = m.arena[at : at+n : at+n]
	m.addr = word.Address(m.buf)
	var err error
	if m.mem, err = ctx.MemMap(MemMapParams{Buffer: m.buf, Prot: prot}); err != nil {
		t.Fatal(err)
	}
	return m
}

// fill resets the memory and the fences.
func (m *target) fill() {
	for i := range m.arena {
		m.arena[i] = 0x5A
	}
}

// untouched checks that nothing around the memory was written.
func (m *target) untouched(t testing.TB) {
	t.Helper()
	before := word.Address(m.buf) - word.Address(m.arena)
	if !bytes.Equal(m.arena[:before], bytes.Repeat([]byte{0x5A}, int(before))) {
		t.Error("memory before the region was written")
	}
	behind := m.arena[int(before)+len(m.buf):]
	if !bytes.Equal(behind, bytes.Repeat([]byte{0x5A}, len(behind))) {
		t.Error("memory behind the region was written")
	}
}

// opened returns a remote key that permits access by messages only.
func (v *targetWorker) opened() *Rkey {
	v.Helper()
	k, err := v.ep.UnpackRkey(make([]byte, 9))
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { k.Close() })
	return k
}

// waiting returns an operation that waits for an answer.
func (v *targetWorker) waiting(p protocol, buf []byte) *Request {
	v.Helper()
	r, err := v.pool.useRequest(nil)
	if err != nil {
		v.Fatal(err)
	}
	r.proto = p
	r.w.rma.target(r, v.ep, v.opened(), 0)
	r.data.SetBytes(buf)
	r.access.atomic.size = uint8(min(len(buf), 8))
	r.localID = v.pool.requestIDs.Put(r)
	r.state &^= stateInCall
	v.ep.outstanding.Push(&r.node)
	v.ep.flow().asked++
	return r
}

// deniedAccess checks that an access was refused and counted.
func (v *targetWorker) deniedAccess(what string, err error) {
	v.Helper()
	if !errors.Is(err, ucs.ErrInvalidAddr) || v.stats.Denied != 1 {
		v.Errorf("%s: %v, counted %d", what, err, v.stats.Denied)
	}
	v.stats.Denied = 0
}

// TestHostileAccess: a peer can access only memory that is registered for this kind of
// access, and not a byte beyond it.
func TestHostileAccess(t *testing.T) {
	v := newTarget(t)
	all := v.memory(64, ProtAll)
	read := v.memory(64, ProtRemoteRead)
	write := v.memory(64, ProtRemoteWrite)
	src := new(uct.Source) // a connection, which a refused access drops
	put := func(addr uint64, n int) error {
		b := proto.Put{Address: addr, EpID: v.ep.localID}.Append(nil)
		return v.rma.onPut(src, append(b, bytes.Repeat([]byte{0xEE}, n)...), nil)
	}
	get := func(addr uint64, n int) error {
		return v.rma.onGetReq(src, proto.GetReq{Address: addr, Length: n, EpID: v.ep.localID, ReqID: 99}.Append(nil), nil)
	}
	add := func(addr uint64, req proto.RequestID) error {
		return v.rma.onAtomicReq(src, proto.AtomicReq{Address: addr, EpID: v.ep.localID, Size: 8, Value: 1, ReqID: req}.Append(nil), nil)
	}
	for what, err := range map[string]func() error{
		"put across the end":          func() error { return put(all.addr+60, 8) },
		"put across the start":        func() error { return put(all.addr-1, 8) },
		"put behind the end":          func() error { return put(all.addr+64, 1) },
		"put to nowhere":              func() error { return put(8, 8) },
		"put to the end of memory":    func() error { return put(math.MaxUint64-8, 8) },
		"put to read-only memory":     func() error { return put(read.addr, 8) },
		"get across the end":          func() error { return get(all.addr, 65) },
		"get of everything":           func() error { return get(all.addr, hugeLength) },
		"get from nowhere":            func() error { return get(0, 1) },
		"get from write-only memory":  func() error { return get(write.addr, 8) },
		"atomic behind the end":       func() error { return add(all.addr+64, 0) },
		"atomic on read-only memory":  func() error { return add(read.addr, 0) },
		"atomic on write-only memory": func() error { return add(write.addr, 7) },
	} {
		v.deniedAccess(what, err())
	}
	v.refused("a misaligned atomic operation", add(all.addr+4, 0))
	v.stats.Dropped = 0
	for _, m := range []*target{all, read, write} {
		m.untouched(t)
		if !bytes.Equal(m.buf, bytes.Repeat([]byte{0x5A}, 64)) {
			t.Error("memory was written")
		}
	}
	// The answers go to an endpoint of this worker that has no such operation in flight.
	for _, err := range []error{put(all.addr, 64), put(write.addr+1, 63), get(read.addr, 64), add(all.addr+56, 5)} {
		if err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(all.buf[:56], bytes.Repeat([]byte{0xEE}, 56)) || all.buf[56] != 0xEF {
		t.Error("what is allowed was not done")
	}
	read.mem.Close()
	v.deniedAccess("get from unmapped memory", get(read.addr, 8))
	if v.ep.err != nil {
		t.Errorf("the endpoint has failed: %v", v.ep.err)
	}
	if v.rma.serving != 0 {
		t.Errorf("%d answers are under way", v.rma.serving)
	}
}

// TestHostileAccessUnnamed: if there is no connection to drop for a refused access, the
// worker makes the peer's endpoint fail. Here the peer is the worker itself.
func TestHostileAccessUnnamed(t *testing.T) {
	v := newTarget(t)
	for range 3 {
		err := v.rma.onPut(nil, append(proto.Put{Address: 8, EpID: v.ep.localID}.Append(nil), 1), nil)
		if err == nil {
			t.Error("a put to nowhere was accepted")
		}
	}
	if !errors.Is(v.ep.err, ucs.ErrConnectionReset) {
		t.Errorf("the endpoint: %v", v.ep.err)
	}
}

// TestHostileAnswers: answers that no operation waits for, or that do not fit, change
// nothing.
func TestHostileAnswers(t *testing.T) {
	v := newTarget(t)
	own := bytes.Repeat([]byte{1}, 108)
	buf := own[:100:100]
	get := v.waiting(getMessages{}, buf)
	word := make([]byte, 8)
	amo := v.waiting(atomicFetch{}, word)
	rep := func(r *Request, off, n int) error {
		b := proto.GetRep{ReqID: proto.RequestID(r.localID), Offset: off}.Append(nil)
		return v.rma.onGetRep(nil, append(b, bytes.Repeat([]byte{0xEE}, n)...), nil)
	}
	v.refused("a completion of nothing", v.rma.onCompletion(nil, proto.Cmpl{EpID: v.ep.localID}.Append(nil), nil))
	v.dropped("a completion for nobody", v.rma.onCompletion(nil, proto.Cmpl{EpID: 77}.Append(nil), nil))
	v.refused("data behind the end", rep(get, 96, 8))
	v.refused("data far away", rep(get, math.MaxInt-100, 8))
	v.refused("too much data", rep(get, 0, 101))
	if err := rep(get, 0, 50); err != nil {
		t.Fatal(err)
	}
	v.refused("the same data again", rep(get, 0, 50))
	v.refused("overlapping data", rep(get, 49, 2))
	v.dropped("data for an atomic operation", rep(amo, 0, 8))
	value := func(r *Request, size uint8) error {
		return v.rma.onAtomicRep(nil, proto.AtomicRep{ReqID: proto.RequestID(r.localID), Size: size, Value: 5}.Append(nil), nil)
	}
	v.dropped("a value for a get", value(get, 8))
	v.refused("a value of another size", value(amo, 4))
	if get.Done() || amo.Done() {
		t.Fatal("an operation was ended")
	}
	if err := rep(get, 50, 50); err != nil || !get.Done() || get.Err() != nil {
		t.Errorf("%v, done %v", err, get.Done())
	}
	if !bytes.Equal(own, append(bytes.Repeat([]byte{0xEE}, 100), bytes.Repeat([]byte{1}, 8)...)) {
		t.Error("the data is wrong")
	}
	if err := value(amo, 8); err != nil || !amo.Done() || word[0] != 5 {
		t.Errorf("%v, done %v, %x", err, amo.Done(), word)
	}
	f := v.ep.rma
	if f.asked != f.answered || f.posted != f.completed {
		t.Errorf("counts %+v", *f)
	}
	v.exchange()
}

// TestHostileEndpoints: requests for endpoints that do not exist are errors, because
// their sender waits for answers.
func TestHostileEndpoints(t *testing.T) {
	v := newTarget(t)
	m := v.memory(64, ProtAll)
	for _, id := range []proto.EndpointID{0, 1, math.MaxUint64, v.ep.localID ^ 2} {
		for what, err := range map[string]error{
			"put":    v.rma.onPut(nil, proto.Put{Address: m.addr, EpID: id}.Append(nil), nil),
			"get":    v.rma.onGetReq(nil, proto.GetReq{Address: m.addr, Length: 8, EpID: id, ReqID: 1}.Append(nil), nil),
			"atomic": v.rma.onAtomicReq(nil, proto.AtomicReq{Address: m.addr, EpID: id, Size: 4}.Append(nil), nil),
		} {
			if !errors.Is(err, ucs.ErrConnectionReset) {
				t.Errorf("%s for endpoint %d: %v", what, id, err)
			}
		}
	}
	m.untouched(t)
}

// TestHostileGets: requests for data that cannot be answered yet are bounded.
func TestHostileGets(t *testing.T) {
	v := newTarget(t)
	m := v.memory(64, ProtAll)
	v.accounts.unnamed.AddReplies(maxServing * requestSize)
	v.refused("one get too many", v.rma.onGetReq(nil, proto.GetReq{Address: m.addr, Length: 8, EpID: v.ep.localID, ReqID: 1}.Append(nil), nil))
	v.refused("one atomic operation too many", v.rma.onAtomicReq(nil, proto.AtomicReq{Address: m.addr, EpID: v.ep.localID, ReqID: 1, Size: 4}.Append(nil), nil))
	v.accounts.unnamed.SubReplies(maxServing * requestSize)
}
