package ucttest

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// Memory is memory of a host that peers may touch.
type Memory struct {
	Bytes  []byte
	Addr   uint64 // of the first byte, as peers name it
	Handle uct.MemHandle

	// Open is the number of bytes that peers may touch: more than Bytes where the
	// domain rounds allocations up.
	Open int

	packed []byte // key
	end    func() error
}

// Expose makes memory of a host accessible. buf is used where the domain can
// register memory; where it can only allocate, the result has the length of buf
// and its content. It ends with the host.
func (h *Host) Expose(t testing.TB, buf []byte, access uct.Access) *Memory {
	t.Helper()
	m := &Memory{Bytes: buf, Open: len(buf)}
	var err error
	switch md := h.Domain; {
	case h.fixture.Expose != nil:
		m.end, err = h.fixture.Expose(md, buf, access)
	case md.Attr().Flags&uct.MDFlagRegister != 0:
		m.Handle, err = md.Register(buf, access)
	default:
		if m.Handle, err = md.Alloc(uct.AllocParams{Length: len(buf), Access: access, Name: "ucttest"}); err == nil {
			m.Open = len(m.Handle.Bytes())
			m.Bytes = m.Handle.Bytes()[:len(buf)]
			copy(m.Bytes, buf)
		}
	}
	if err != nil {
		t.Fatalf("exposing %d bytes: %v", len(buf), err)
	}
	if m.Handle != nil {
		m.end = func() error { return h.Domain.Deregister(m.Handle) }
		if m.packed, err = h.Domain.AppendKey(nil, m.Handle); err != nil {
			t.Fatalf("packing a key: %v", err)
		}
		if want := h.Domain.Attr().RkeyPackedSize; len(m.packed) != want {
			t.Errorf("packed key has %d bytes, attributes say %d", len(m.packed), want)
		}
	}
	m.Addr = AddressOf(m.Bytes)
	h.memory = append(h.memory, m)
	return m
}

// Close ends the access. Idempotent.
func (m *Memory) Close(t testing.TB) {
	t.Helper()
	if m.end == nil {
		return
	}
	if err := m.end(); err != nil {
		t.Errorf("ending the access to memory: %v", err)
	}
	m.end = nil
}

// Key unpacks the key of a peer's memory. It is released when the test ends,
// before the host is closed.
func (h *Host) Key(t testing.TB, m *Memory) *uct.Rkey {
	t.Helper()
	if h.Domain.Attr().Flags&uct.MDFlagNeedRkey == 0 {
		return &uct.Rkey{}
	}
	key, err := h.Domain.UnpackRkey(m.packed)
	if err != nil {
		t.Fatalf("unpacking a key of %d bytes: %v", len(m.packed), err)
	}
	md := h.Domain
	t.Cleanup(func() {
		if err := md.ReleaseRkey(key); err != nil {
			t.Errorf("releasing a key: %v", err)
		}
	})
	return key
}

// IOV makes a scatter-gather entry of buf, registered where the domain needs a
// handle.
func (h *Host) IOV(t testing.TB, buf []byte) uct.IOV {
	t.Helper()
	e := uct.IOV{Data: buf}
	if h.Domain.Attr().Flags&uct.MDFlagNeedMemh != 0 {
		handle, err := h.Domain.Register(buf, uct.AccessLocal)
		if err != nil {
			t.Fatalf("registering %d bytes: %v", len(buf), err)
		}
		e.Mem = handle
		h.memory = append(h.memory, &Memory{
			Bytes: buf, Handle: handle, end: func() error { return h.Domain.Deregister(handle) },
		})
	}
	return e
}
