//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// TestTagHandles: where a transport wants handles of what is sent or received
// without copies, it gets them, or data that is copied if there are none.
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
