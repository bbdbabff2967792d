//go:build linux

package ucptest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// testForceCloseAccess checks that a forced close ends all operations in flight, each once.
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
		req := r.started(f(&ucp.RequestParams{Flags: ucp.OpNoImmediate, OnSend: o.onSend}))
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

// testUnmapWhileRead: memory is unmapped while a peer reads it. The read completes, or the peer
// gets an error. Later reads fail.
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
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	// Soft-RoCE sends zeros instead of memory that it can no longer read, and no error (read_reply,
	// drivers/infiniband/sw/rxe/rxe_resp.c of Linux 6.1).
	if err := r.finish(get, nil); err == nil && len(r.devices) == 0 {
		ucttest.SameBytes(t, "get", dst, src)
	}
	late, err := ep.Get(dst[:8], w.addr, w.key, nil)
	if err := r.finish(late, err); err == nil {
		t.Errorf("unmapped memory was read (%v)", w.key)
	}
}

// testAccessFaults breaks the connection at every operation in turn. All operations end exactly
// once, and the data of those that succeed is right.
func testAccessFaults(t *testing.T, tr transport) {
	for _, e := range []fault.Effect{{Drop: ucs.ErrConnectionReset}, {Fail: ucs.ErrIO}} {
		met := 0
		for n := 1; ; n++ {
			if n == 200 {
				t.Fatal("no end")
			}
			hit, ended := false, 0
			if !t.Run(fmt.Sprintf("%v%v at operation %d", e.Drop, e.Fail, n), func(t *testing.T) {
				hit, ended = accessUnderFault(t, tr, n, e) // closes its workers
			}) {
				return
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
			p := &ucp.RequestParams{Flags: ucp.OpNoImmediate, OnSend: o.out.onSend}
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
