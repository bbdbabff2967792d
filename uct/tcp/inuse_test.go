//go:build linux

package tcp

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// TestInUse: memory is in use from the announcement of a put until its last byte, or until the end
// of its connection.
func TestInUse(t *testing.T) {
	h := newHost(t, "")
	target := make([]byte, 1000)
	mem, err := h.md.Register(target, uct.AccessRemotePut)
	if err != nil {
		t.Fatal(err)
	}
	d := h.md.(uct.ScopedMemory)
	used := func() bool { return d.InUse(mem) }
	p := dial(t, h)
	p.send(flight(addr("127.0.0.1:5"), 0))
	p.want(ack)
	if used() {
		t.Error("in use from the start")
	}
	p.send(putReq(addressOf(target), 1000, 0), bytes.Repeat([]byte{1}, 400))
	until(t, "the first part", used, h)
	p.send(bytes.Repeat([]byte{1}, 600))
	p.want(appendPutAck(nil, 0))
	if used() {
		t.Error("in use behind the put")
	}
	p.send(putReq(addressOf(target), 10, 1), bytes.Repeat([]byte{2}, 10))
	p.want(appendPutAck(nil, 1))
	if used() {
		t.Error("in use behind a put that came whole")
	}
	p.send(putReq(addressOf(target), 1000, 2))
	until(t, "the announcement", used, h)
	p.close()
	until(t, "the end of the connection", func() bool { return !used() }, h)

	// The memory is registered twice. The registration that the put began with is removed during
	// the put; from then on the other one is in use.
	second, err := h.md.Register(target, uct.AccessRemotePut)
	if err != nil {
		t.Fatal(err)
	}
	q := dial(t, h)
	q.send(flight(addr("127.0.0.1:6"), 0))
	q.want(ack)
	q.send(putReq(addressOf(target), 1000, 0), bytes.Repeat([]byte{3}, 300))
	until(t, "the first part", func() bool { return used() != d.InUse(second) }, h)
	if d.InUse(second) {
		mem, second = second, mem
	}
	if err := h.md.Deregister(mem); err != nil {
		t.Fatal(err)
	}
	mem = second
	q.send(bytes.Repeat([]byte{3}, 300))
	until(t, "the second part", used, h)
	q.send(bytes.Repeat([]byte{3}, 400))
	q.want(appendPutAck(nil, 0))
	if used() {
		t.Error("in use behind a put that went elsewhere")
	}

	// A registration that is removed during a put does not make a new one in use.
	q = dial(t, h)
	q.send(flight(addr("127.0.0.1:7"), 0))
	q.want(ack)
	q.send(putReq(addressOf(target), 1000, 0))
	until(t, "the announcement", used, h)
	if err := h.md.Deregister(mem); err != nil {
		t.Fatal(err)
	}
	if mem, err = h.md.Register(target, uct.AccessRemotePut); err != nil {
		t.Fatal(err)
	}
	if used() {
		t.Error("a new registration is in use")
	}
	if err := h.md.Deregister(mem); err != nil {
		t.Fatal(err)
	}
}
