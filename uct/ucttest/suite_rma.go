package ucttest

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// window is memory whose middle third is exposed.
type window struct {
	whole []byte
	size  int // bytes of each of the three parts
}

func newWindow(size int) *window {
	return &window{whole: Pattern(3*size, 77), size: size}
}

// middle returns the part to expose.
func (w *window) middle() []byte { return w.whole[w.size : 2*w.size : 2*w.size] }

// intact fails the test if bytes around the middle have changed.
func (w *window) intact(t *testing.T) {
	t.Helper()
	want := Pattern(3*w.size, 77)
	SameBytes(t, "memory before the registration", w.whole[:w.size], want[:w.size])
	SameBytes(t, "memory after the registration", w.whole[2*w.size:], want[2*w.size:])
}

// testPut writes all sizes at several offsets and checks every byte of the exposed memory and
// of the memory around it.
func testPut(t *testing.T, f *Fixture) {
	const size = 1 << 17
	w := newWindow(size)
	r := newRemoteAccess(t, f, w.middle(), uct.AccessAll)
	for _, k := range accessKinds(r.a.Iface.Attr(), putKinds) {
		t.Run(k.name, func(t *testing.T) {
			r.t = t
			lo, hi := k.limits(r.a.Iface.Attr())
			for i, n := range Sizes(lo, min(hi, size)) {
				at := (i * 61) % (size - n + 1)
				before := append([]byte(nil), r.mem.Bytes...)
				data := Pattern(n, uint64(n)+1)
				if err := r.do(&k, data, r.mem.Addr+uint64(at)); err != nil {
					t.Fatalf("%d bytes at offset %d: %v", n, at, err)
				}
				copy(before[at:], data) // the expected content
				SameBytes(t, fmt.Sprintf("memory after %d bytes at offset %d", n, at), r.mem.Bytes, before)
			}
			w.intact(t)
		})
	}
}

// testGet reads all sizes at several offsets.
func testGet(t *testing.T, f *Fixture) {
	const size = 1 << 17
	content := Pattern(size, 5)
	r := newRemoteAccess(t, f, append([]byte(nil), content...), uct.AccessAll)
	for _, k := range accessKinds(r.a.Iface.Attr(), getKinds) {
		t.Run(k.name, func(t *testing.T) {
			r.t = t
			lo, hi := k.limits(r.a.Iface.Attr())
			for i, n := range Sizes(lo, min(hi, size)) {
				at := (i * 61) % (size - n + 1)
				buf := Pattern(n, 6)
				if err := r.do(&k, buf, r.mem.Addr+uint64(at)); err != nil {
					t.Fatalf("%d bytes at offset %d: %v", n, at, err)
				}
				SameBytes(t, fmt.Sprintf("%d bytes at offset %d", n, at), buf, content[at:at+n])
				if u := r.unpacker; u != nil && (u.calls != 1 || u.n != n) {
					t.Fatalf("%d bytes were unpacked in %d calls, the last of %d", n, u.calls, u.n)
				}
				r.unpacker = nil
			}
			SameBytes(t, "memory that was only read", r.mem.Bytes, content)
		})
	}
}

// testRemoteRefused accesses memory that is not registered, only partly registered, or no
// longer registered. It checks that the access fails and that no byte changes.
func testRemoteRefused(t *testing.T, f *Fixture) {
	const size = 4096
	attr := f.Open(t).Iface.Attr()
	kinds := append(accessKinds(attr, putKinds), accessKinds(attr, getKinds)...)
	if len(kinds) == 0 {
		t.Skip("no remote memory access")
	}
	for _, k := range kinds {
		for _, c := range []struct {
			name   string
			offset int64 // from the first byte that is registered
			n      int
		}{
			{"before", -size, 64},
			{"across the start", -1, 64},
			{"across the end", size - 63, 64},
			{"behind", size, 64},
			{"too long", 0, size + 1},
			{"address 0", -1 << 62, 64},
			{"address around the end of memory", -1 << 61, 64},
			{"deregistered", 0, 64},
		} {
			lo, hi := k.limits(attr)
			if c.n < lo || c.n > hi {
				continue
			}
			t.Run(k.name+" "+c.name, func(t *testing.T) {
				w := newWindow(size)
				r := newRemoteAccess(t, f, w.middle(), uct.AccessAll)
				before := append([]byte(nil), r.mem.Bytes...)
				addr := r.mem.Addr + uint64(c.offset)
				switch c.offset {
				case -1 << 62:
					addr = 0
				case -1 << 61:
					addr = ^uint64(0) - 31
				case size - 63, size: // relative to the end, which the domain may have rounded up
					addr += uint64(r.mem.Open - size)
				}
				if c.n > size {
					c.n = r.mem.Open + 1
				}
				if c.name == "deregistered" {
					if r.mem.Handle != nil && r.b.Domain.Attr().Flags&uct.MDFlagRegister == 0 {
						t.Skip("deregistering frees memory that the domain allocated")
					}
					r.mem.Close(t)
				}
				buf := Pattern(c.n, 99)
				if err := r.do(&k, buf, addr); err == nil {
					t.Error("the access succeeded")
				}
				Settle(r.a, r.b)
				SameBytes(t, "memory that must not be touched", r.mem.Bytes, before)
				w.intact(t)
				SameBytes(t, "the local buffer", buf, Pattern(c.n, 99))
				if u := r.unpacker; u != nil && u.calls != 0 {
					t.Error("a refused get was unpacked")
				}
			})
		}
	}
}

// testPermissionRefused accesses memory that was registered or allocated without the needed
// permission, and checks that the access fails. A domain may also refuse to pack a key of this
// memory.
func testPermissionRefused(t *testing.T, f *Fixture) {
	h := f.Open(t)
	attr := h.Iface.Attr()
	if h.Domain.Attr().Flags&(uct.MDFlagRegister|uct.MDFlagAlloc) == 0 && f.Expose == nil {
		t.Skip("the domain does not track memory: peers can access all memory of the process")
	}
	kinds := append(accessKinds(attr, putKinds), accessKinds(attr, getKinds)...)
	if len(kinds) == 0 {
		t.Skip("no remote memory access")
	}
	if mapped := h.Domain.Attr().Flags.Has(uct.MDFlagRkeyPtr); mapped && h.givesKey(t, uct.AccessLocal) {
		t.Error("cannot pack a key of memory for local use, because peers would map it")
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			lo, _ := k.limits(attr)
			n := max(lo, 64)
			if !h.givesKey(t, uct.AccessAll&^k.want) {
				return
			}
			r := newRemoteAccess(t, f, Pattern(4096, 1), uct.AccessAll&^k.want)
			if err := r.do(&k, Pattern(n, 2), r.mem.Addr); err == nil {
				t.Error("the access succeeded")
			}
			SameBytes(t, "memory without permission", r.mem.Bytes, Pattern(4096, 1))
		})
	}
	if attr.Flags&anyAtomic == 0 {
		return
	}
	t.Run("atomic", func(t *testing.T) {
		if h.Domain.Attr().Flags.Has(uct.MDFlagRkeyPtr) {
			t.Skip("a peer that maps the memory can also access it atomically")
		}
		r := newRemoteAccess(t, f, Pattern(4096, 1), uct.AccessAll&^uct.AccessRemoteAtomic)
		for _, op := range atomicOps(attr) {
			if err := op.run(r, r.mem.Addr, 1, 2); err == nil {
				t.Errorf("%s succeeded", op.name)
			}
			SameBytes(t, "memory without permission", r.mem.Bytes, Pattern(4096, 1))
			if r.a.Failed(r.ep) != nil {
				r = newRemoteAccess(t, f, Pattern(4096, 1), uct.AccessAll&^uct.AccessRemoteAtomic)
			}
		}
	})
}

// givesKey reports whether the domain packs a key of memory with the given access.
func (h *Host) givesKey(t *testing.T, access uct.Access) bool {
	t.Helper()
	if h.fixture.Expose != nil || h.Domain.Attr().Flags&uct.MDFlagRegister != 0 {
		return true
	}
	m, err := h.Domain.Alloc(uct.AllocParams{Length: 4096, Access: access, Name: "ucttest"})
	if err != nil {
		t.Fatalf("allocating for %#x: %v", access, err)
	}
	defer h.Domain.Deregister(m)
	b, err := h.Domain.AppendKey(nil, m)
	if err == nil {
		return true
	}
	WantStatus(t, "key of memory that peers may not access", err, ucs.ErrUnsupported)
	if len(b) != 0 {
		t.Errorf("refused, and appended %d bytes", len(b))
	}
	return false
}
