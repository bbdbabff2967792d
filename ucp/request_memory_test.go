package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// fewHandles is a memory domain that requires registration and fails after a number of
// registrations.
type fewHandles struct {
	uct.MemoryDomain
	left, live int
}

type plainHandle []byte

func (h plainHandle) Bytes() []byte { return h }

func (d *fewHandles) Attr() *uct.MDAttr {
	return &uct.MDAttr{Flags: uct.MDFlagRegister | uct.MDFlagNeedMemh}
}

func (d *fewHandles) Register(b []byte, _ uct.Access) (uct.MemHandle, error) {
	if d.left == 0 {
		return nil, ucs.ErrNoMemory
	}
	d.left--
	d.live++
	return plainHandle(b), nil
}

func (d *fewHandles) Deregister(uct.MemHandle) error {
	d.live--
	return nil
}

// TestHandles checks that all memory of an operation is registered for as long as the operation
// lasts, or none of it is.
func TestHandles(t *testing.T) {
	list := [][]byte{make([]byte, 10), nil, make([]byte, 20), make([]byte, 30)}
	for left := range 5 {
		md := &fewHandles{left: left}
		r := &Request{w: new(Worker), iov: make([]uct.IOV, 4)}
		b := IOV(list...)
		if err := r.setBuffer(&b, true); err != nil {
			t.Fatal(err)
		}
		if got, want := r.w.rights.handles(r, md, 0, uct.AccessLocalRead), left >= 3; got != want {
			t.Errorf("%d handles: %v, want %v", left, got, want)
		} else if !got && md.live != 0 {
			t.Errorf("%d handles: %d are left", left, md.live)
		} else if got {
			// Gather from the middle of the first buffer.
			n, _ := r.data.Gather(r.iov, 5, 55)
			r.w.rights.memory(r).addTo(r.iov[:n], md)
			for i, e := range r.iov[:n] {
				if e.Mem == nil || !within(e.Mem.Bytes(), e.Data) {
					t.Errorf("entry %d of %d bytes has the handle %v", i, len(e.Data), e.Mem)
				}
			}
		}
		r.releaseResources()
		if md.live != 0 {
			t.Errorf("%d handles are left in the end", md.live)
		}
	}

	// The caller's registration is used and not released.
	md := &fewHandles{}
	mem := make([]byte, 100)
	m := &Memory{buf: mem, handles: []uct.MemHandle{nil, plainHandle(mem)}}
	r := &Request{w: new(Worker), iov: make([]uct.IOV, 1)}
	r.data.SetBytes(mem[10:20])
	if m.use() {
		r.w.rights.memory(r).given = m
	}
	if !r.w.rights.handles(r, md, 1, uct.AccessLocalRead) {
		t.Fatal("no handle")
	}
	n, _ := r.data.Gather(r.iov, 0, 10)
	r.w.rights.memory(r).addTo(r.iov[:n], md)
	if r.iov[0].Mem == nil {
		t.Error("the entry has no handle")
	}
	r.releaseResources()
	if md.live != 0 || len(r.mem.handles) != 0 {
		t.Errorf("%d handles are live, the request has %d", md.live, len(r.mem.handles))
	}
}
