package ucttest

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// Memory is memory of a host that peers may access.
type Memory struct {
	Bytes  []byte
	Addr   uint64 // remote address of the first byte
	Handle uct.MemHandle

	// Open is the number of bytes that peers may access: more than len(Bytes) if the domain
	// rounds allocations up.
	Open int

	packed []byte // packed remote key
	end    func() error
}

// Expose makes memory of a host accessible to peers. If the domain can register memory, the
// memory is buf; if the domain can only allocate, it is a copy of buf in allocated memory. The
// access ends when the host is closed.
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

// Close ends the access. It is idempotent.
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

// Key unpacks the key of a peer's memory. The key is released when the test ends, before the
// host is closed.
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

// IOV makes a scatter-gather entry of buf, and registers buf if the domain needs a local
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
