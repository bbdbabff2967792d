//go:build linux

package ucptest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// TestTagHandles checks that a transport that requires registration for transfers without copies
// gets memory handles, and that data is copied if memory cannot be registered.
func TestTagHandles(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings []setting
		size     int
		kind     fault.Kind
	}{
		{"eager", nil, 4000, fault.AMZcopy},
		{"eager in pieces", []setting{{"RNDV_THRESH", "inf"}}, 300_000, fault.AMZcopy},
		{"rendezvous get", []setting{{"RNDV_THRESH", "1k"}, {"RNDV_SCHEME", "get_zcopy"}}, 300_000, fault.GetZcopy},
		{"rendezvous put", []setting{{"RNDV_THRESH", "1k"}, {"RNDV_SCHEME", "put_zcopy"}}, 300_000, fault.PutZcopy},
		{"rendezvous messages", []setting{{"RNDV_THRESH", "1k"}, {"RNDV_SCHEME", "am"}}, 300_000, fault.AMZcopy},
	} {
		for _, tr := range []transport{simMemh, simNoMemh} {
			for _, given := range []bool{false, true} {
				name := c.name + " " + tr.name
				if given {
					name += " memory given"
				}
				t.Run(name, func(t *testing.T) {
					ops := make(map[fault.Kind]int)
					tr.sim.inject(t, func(op fault.Op) (none fault.Effect) {
						ops[op.Kind]++
						return none
					})
					r := newRig(t, tr.with(append(c.settings, setting{"ZCOPY_THRESH", "1k"})...))
					a, b := r.pair()
					ep := a.connect(b)
					r.warm(ep, b)
					src, dst := ucttest.Pattern(c.size, 3), make([]byte, c.size)
					p := &ucp.RequestParams{}
					if given {
						m, err := a.ctx.MemMap(ucp.MemMapParams{Buffer: src})
						if err != nil {
							t.Fatal(err)
						}
						defer m.Close()
						p.Memory = m
					}
					for _, iov := range []bool{false, true} {
						buf := src
						if iov {
							buf, p.Buffer = nil, ucp.IOV(src[:1000], src[1000:])
						}
						clear(dst)
						rreq := r.started(b.TagRecv(1, ucp.FullMask, dst, nil))
						r.must(ep.TagSend(1, buf, p))
						r.must(rreq, nil)
						ucttest.SameBytes(t, "message", dst, src)
					}
					zcopies := ops[fault.AMZcopy] + ops[fault.GetZcopy] + ops[fault.PutZcopy]
					if want := tr.name == simMemh.name; want && ops[c.kind] < 2 || !want && zcopies != 0 {
						t.Errorf("operations: %v", ops)
					}
				})
			}
		}
	}
}

// TestRegisteredAnyway checks that a message from memory that the application has registered uses
// that registration even if the call does not name it, if lanes require registration.
func TestRegisteredAnyway(t *testing.T) {
	for _, scheme := range []string{"get_zcopy", "put_zcopy"} {
		r := newRig(t, simKeys.with(setting{"RNDV_THRESH", "1k"}, setting{"RNDV_SCHEME", scheme}))
		a, b := r.pair()
		ep := a.connect(b)
		r.warm(ep, b)
		const n = 300_000
		whole := ucttest.Pattern(n+2000, 3)
		m, err := a.ctx.Register(whole, 0)
		if err != nil {
			t.Fatal(err)
		}
		req := r.started(ep.TagSend(1, whole[1000:1000+n], nil))
		dst := make([]byte, n)
		got := r.started(b.TagRecv(1, ucp.FullMask, dst, nil))
		busy := false
		r.until("the message", func() bool {
			if req.Done() {
				return true
			}
			err := m.Close()
			if err == nil {
				t.Fatalf("%s: the registration is not used", scheme)
			}
			busy = errors.Is(err, ucs.ErrBusy)
			return false
		})
		if !busy {
			t.Errorf("%s: the registration was not used", scheme)
		}
		r.must(req, nil)
		r.must(got, nil)
		ucttest.SameBytes(t, scheme, dst, whole[1000:1000+n])
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
