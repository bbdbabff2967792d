//go:build linux

package ib_test

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// open opens the first domain of a component.
func open(t *testing.T, c uct.Component) uct.MemoryDomain {
	t.Helper()
	list, err := c.MemoryDomains(nil)
	if err != nil || len(list) == 0 {
		t.Fatalf("%v, %v", list, err)
	}
	md, err := c.OpenMD(list[0].Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { md.Close() })
	return md
}

func TestDomain(t *testing.T) {
	k := verbstest.New()
	md := open(t, ibtest.Component(k))
	a := md.Attr()
	if a.Component != "ib" || a.Name != "rxe0" || a.RkeyPackedSize != 8 {
		t.Errorf("%+v", a)
	}
	buf := make([]byte, 4096)
	h, err := md.Register(buf, uct.AccessAll)
	if err != nil {
		t.Fatal(err)
	}
	key, err := md.AppendKey(nil, h)
	if err != nil || len(key) != 8 || key[4] != 0xff || key[7] != 0xff {
		t.Errorf("key %x, %v", key, err)
	}
	r, err := md.UnpackRkey(key)
	if err != nil || r.Value&0xffffffff == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	for n := range 12 {
		if n != 8 {
			if _, err := md.UnpackRkey(make([]byte, n)); !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("key of %d bytes: %v", n, err)
			}
		}
	}
	if err := md.Close(); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("closing with a registration: %v", err)
	}
	if err := md.Deregister(h); err != nil {
		t.Error(err)
	}
	if err := md.Deregister(h); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("deregistered twice: %v", err)
	}
	if h, err = md.Register(nil, uct.AccessAll); err != nil {
		t.Fatal(err)
	}
	if err := md.Deregister(h); err != nil {
		t.Error(err)
	}
	if err := md.Close(); err != nil {
		t.Error(err)
	}
	if n := k.Objects(); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}

// TestRights checks that memory registered for local access only has no remote key.
func TestRights(t *testing.T) {
	md := open(t, ibtest.Component(verbstest.New()))
	for _, access := range []uct.Access{0, uct.AccessLocal, uct.AccessLocalRead} {
		h, err := md.Register(make([]byte, 64), access)
		if err != nil {
			t.Fatal(err)
		}
		key, err := md.AppendKey(nil, h)
		if err != nil || key[0]|key[1]|key[2]|key[3] != 0 {
			t.Errorf("access %#x: key %x, %v", access, key, err)
		}
		if err := md.Deregister(h); err != nil {
			t.Error(err)
		}
	}
}
