//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// allocateFor allocates memory of a side with the given rights, until the end of the test.
func (s *side) allocateFor(n int, prot ucp.MemProt) *ucp.Memory {
	s.rig.Helper()
	m, err := s.ctx.MemMap(ucp.MemMapParams{Length: n, Flags: ucp.MemMapAllocate, Prot: prot})
	if err != nil {
		s.rig.Fatal(err)
	}
	s.unmap = append(s.unmap, m)
	return m
}

// testAllocatedRights checks that the rights of memory also hold if the library allocated it so
// that peers could map it.
func testAllocatedRights(t *testing.T, tr transport) {
	for i, c := range []struct {
		name           string
		prot           ucp.MemProt
		put, get, both bool // allowed
	}{
		{"private", ucp.ProtLocalRead | ucp.ProtLocalWrite, false, false, false},
		{"read-only", ucp.ProtLocalRead | ucp.ProtLocalWrite | ucp.ProtRemoteRead, false, true, false},
		{"write-only", ucp.ProtRemoteWrite, true, false, false},
		{"all", ucp.ProtAll, true, true, true},
	} {
		for j, n := range []int{8, 4000, 300_000} {
			for k, what := range []string{"put", "get", "atomic"} {
				if !tr.takes(i + j + k) {
					continue
				}
				allowed := []bool{c.put, c.get, c.both}[k]
				t.Run(sizeText(c.name+" "+what, n), func(t *testing.T) {
					r := newRig(t, tr)
					r.log.Allow("")
					a, b := r.oneSidedPair()
					ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
					m := b.allocateFor(n, c.prot)
					kept := bytes.Repeat([]byte{0x5A}, n)
					copy(m.Bytes(), kept)
					w := r.unpack(ep, m)
					local := bytes.Repeat([]byte{0xC3}, n)
					err := r.access(ep, what, w, local)
					if allowed != (err == nil) {
						t.Errorf("%v (%v)", err, w.key)
					}
					if changed := !bytes.Equal(m.Bytes()[:n], kept); changed != (allowed && what != "get") {
						t.Errorf("the memory was changed: %v", changed)
					}
				})
			}
		}
	}
}

// testUnmapped checks that operations started after Unmap with an earlier key fail and access
// nothing, and that no new key can be packed.
func testUnmapped(t *testing.T, tr transport) {
	for _, n := range []int{8, 4000, 300_000} {
		for _, what := range []string{"put", "get", "atomic"} {
			t.Run(sizeText(what, n), func(t *testing.T) {
				r := newRig(t, tr)
				r.log.Allow("")
				a, b := r.oneSidedPair()
				ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
				m := b.allocateFor(n, 0)
				w := r.unpack(ep, m)
				local := bytes.Repeat([]byte{0xC3}, n)
				kept := bytes.Clone(local)
				r.must(ep.Put(local, w.addr, w.key, nil))
				r.must(ep.Flush(nil))
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
				if key, err := m.PackRkey(); !errors.Is(err, ucs.ErrInvalidParam) {
					t.Errorf("key of memory that was unmapped: %d bytes, %v", len(key), err)
				}
				var req *ucp.Request
				var err error
				switch what {
				case "put":
					req, err = ep.Put(make([]byte, n), w.addr, w.key, nil)
				case "get":
					req, err = ep.Get(local, w.addr, w.key, nil)
				case "atomic":
					req, err = ep.Atomic(ucp.AtomicAdd, word64(1), w.addr, w.key, &ucp.RequestParams{ReplyBuffer: local[:8]})
				}
				if err = r.finish(req, err); err == nil {
					err = r.finish(ep.Flush(nil))
				}
				if err == nil {
					t.Errorf("success (%v)", w.key)
				}
				if !bytes.Equal(local, kept) {
					t.Error("something was read")
				}
			})
		}
	}
}
