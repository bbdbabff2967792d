//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// testRkeys checks that keys are compared by the memory they give access to, that they give
// pointers to shared memory, and that malformed keys are refused.
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
	// A key of C UCX 1.13.1 with all its transports; those that are not available here are skipped.
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

// testCloseWithKeys checks that the memory that open remote keys have attached is released when
// their worker is closed, that the keys give no access afterwards, and that closing them is
// harmless.
func testCloseWithKeys(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	m, err := b.ctx.MemMap(ucp.MemMapParams{Length: 8192, Flags: ucp.MemMapAllocate})
	if err != nil {
		t.Fatal(err)
	}
	b.unmap = append(b.unmap, m)
	packed, err := m.PackRkey()
	if err != nil {
		t.Fatal(err)
	}
	var keys []*ucp.Rkey
	for range 4 {
		k, err := ep.UnpackRkey(packed)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	buf := make([]byte, 8)
	r.must(ep.Put(buf, m.Attr().Address, keys[0], nil))
	r.must(ep.Flush(nil))
	for _, k := range []int{1, 3} { // in the middle and at one end of the worker's list
		if err := keys[k].Close(); err != nil {
			t.Error(err)
		}
	}
	if b != a {
		b.close()
	}
	a.close() // fails the test if something is still attached
	r.sides = nil
	for i, k := range keys {
		if k.String() != "closed" {
			t.Errorf("key %d: %v", i, k)
		}
		if _, err := k.Ptr(m.Attr().Address, 1); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("key %d: pointer: %v", i, err)
		}
		if req, err := ep.Put(buf, m.Attr().Address, k, nil); req != nil || err == nil {
			t.Errorf("key %d: put: %v, %v", i, req, err)
		}
		if req, err := ep.Get(buf, m.Attr().Address, k, nil); req != nil || err == nil {
			t.Errorf("key %d: get: %v, %v", i, req, err)
		}
		if req, err := ep.Atomic(ucp.AtomicAdd, buf, m.Attr().Address, k, nil); req != nil || err == nil {
			t.Errorf("key %d: atomic: %v, %v", i, req, err)
		}
		if err := k.Close(); err != nil {
			t.Errorf("key %d: %v", i, err)
		}
	}
}
