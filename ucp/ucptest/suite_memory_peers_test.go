//go:build linux

package ucptest

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// testMemoryOfPeers checks that memory for some peers can be accessed by them, by every protocol,
// and by no other peer that has its key.
func testMemoryOfPeers(t *testing.T, tr transport) {
	peerMode := ucp.EndpointParams{ErrMode: ucp.ErrModePeer}
	k := 0
	for _, n := range []int{8, 4000, 300_000} {
		for _, what := range []string{"put", "get", "atomic"} {
			for _, who := range []string{"peer", "allowed later", "stranger"} {
				if k++; !tr.takes(k + k/turns) {
					continue
				}
				t.Run(sizeText(who+" "+what, n), func(t *testing.T) {
					r := newRig(t, tr)
					r.log.Allow("")
					a, b := r.oneSidedPair()
					c := r.openWith(ucp.ContextParams{Features: oneSided}, ucp.WorkerParams{})
					from := a
					if who != "peer" {
						from = c
					}
					mem := bytes.Repeat([]byte{0x5A}, n)
					m, err := b.ctx.MemMap(ucp.MemMapParams{Buffer: mem, Peers: []*ucp.Endpoint{b.connectWith(a, peerMode)}})
					if err != nil {
						t.Fatal(err)
					}
					b.unmap = append(b.unmap, m)
					if who == "allowed later" {
						if err := m.Allow(b.connectWith(c, peerMode)); err != nil {
							t.Fatal(err)
						}
					}
					ep := from.connectWith(b, peerMode)
					w := r.unpack(ep, m)
					local := bytes.Repeat([]byte{0xC3}, n)
					err = r.access(ep, what, w, local)
					if allowed := who != "stranger"; allowed != (err == nil) {
						t.Errorf("%v (%v)", err, w.key)
					}
					changed := !bytes.Equal(mem, bytes.Repeat([]byte{0x5A}, n))
					if changed != (who != "stranger" && what != "get") {
						t.Errorf("the memory was changed: %v", changed)
					}
					if read := what != "put" && local[0] != 0xC3; read != (who != "stranger" && what != "put") {
						t.Errorf("the memory was read: %v", read)
					}
				})
			}
		}
	}
}

// testWrongEndpoint checks that only open endpoints of the same context can be allowed.
func testWrongEndpoint(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	if m, err := b.ctx.MemMap(ucp.MemMapParams{Buffer: make([]byte, 8), Peers: []*ucp.Endpoint{a.connect(b)}}); err == nil {
		t.Errorf("an endpoint of another context: %v", m)
	}
	ep := b.connect(a)
	r.must(ep.CloseAsync(nil))
	if m, err := b.ctx.MemMap(ucp.MemMapParams{Buffer: make([]byte, 8), Peers: []*ucp.Endpoint{ep}}); err == nil {
		t.Errorf("a closed endpoint: %v", m)
	}
	m, err := b.ctx.MemMap(ucp.MemMapParams{Buffer: []byte{}, Peers: []*ucp.Endpoint{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Allow(b.connect(a)); err != nil {
		t.Errorf("an empty handle: %v", err)
	}
}
