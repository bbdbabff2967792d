//go:build linux

package ucptest

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var readdressCases = []testCase{
	{"an interface gets another address", onDemand, testReaddress},
	{"a ring is replaced", twoSides, testReplacedRing},
	{"address of an unchanged worker", anywhere, testSameAddress},
}

// parsed returns an address, parsed.
func (r *rig) parsed(a ucp.Address) *proto.WorkerAddress {
	r.Helper()
	p, _, err := proto.ParseAddress(a, proto.FormWorker)
	if err != nil {
		r.Fatal(err)
	}
	return p.Clone()
}

// testReaddress: a transport rebuilds its receive side. Endpoints made with the new address work,
// in both directions, and addresses returned before do not change.
func testReaddress(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	before := a.address()
	kept := bytes.Clone(before)
	old := a.connect(b)
	r.warm(old, b)

	tr.sim.net.Readdress()
	after := a.address()
	if bytes.Equal(before, after) {
		t.Fatal("the address of the worker is the old one")
	}
	if !bytes.Equal(before, kept) {
		t.Error("an address that was handed out has changed")
	}
	// Apart from interface addresses nothing changes: C UCX 1.22.0 fails if its selection of lanes
	// changes.
	was, is := r.parsed(before), r.parsed(after)
	for d := range was.Devices {
		for i := range was.Devices[d].Ifaces {
			was.Devices[d].Ifaces[i].Addr, is.Devices[d].Ifaces[i].Addr = nil, nil
		}
	}
	if was.String() != is.String() {
		t.Errorf("the address describes\n%s\nbefore\n%s", is.String(), was.String())
	}

	// b gets the address of a from its wireup request, a gets that of b from the application.
	fresh := a.connect(b)
	src := ucttest.Pattern(100, 1)
	recv, err := b.TagRecv(1, ucp.FullMask, make([]byte, 100), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.must(fresh.TagSendSync(1, src, nil))
	r.must(recv, nil)
	back := b.connect(a)
	recv, err = a.TagRecv(2, ucp.FullMask, make([]byte, 100), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.must(back.TagSendSync(2, src, nil))
	r.must(recv, nil)

	// Existing endpoints still work.
	recv, err = b.TagRecv(3, ucp.FullMask, make([]byte, 100), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.must(old.TagSendSync(3, src, nil))
	r.must(recv, nil)
}

// testReplacedRing checks that a System V ring that a peer has corrupted is replaced by one with
// another id, and that the worker's address contains the new id.
func testReplacedRing(t *testing.T, tr transport) {
	if tr.name != "sysv" {
		t.Skip("only the address of a System V ring can change")
	}
	r := newRig(t, tr)
	r.log.Expect("shared-memory ring closed")
	a, b := r.pair()
	before := b.address()
	a.connect(b) // these endpoints no longer work afterwards
	b.connect(a)
	id := binary.LittleEndian.Uint64(r.parsed(before).Devices[0].Ifaces[0].Addr)
	ring, err := unix.SysvShmAttach(int(id), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	binary.NativeEndian.PutUint64(ring, 1<<40) // the head
	if err := unix.SysvShmDetach(ring); err != nil {
		t.Fatal(err)
	}
	r.until("another address", func() bool { return !bytes.Equal(b.address(), before) })
	fresh := a.connect(b) // with the new address
	r.warm(fresh, b)
	if e := fresh.Explain(); len(e.Lanes) == 0 {
		t.Errorf("the endpoint is explained with the address of the old ring:\n%s", e)
	}
	r.warm(b.connect(a), a) // the new address is also in the wireup request
}

// testSameAddress checks that the address is the same every time, and that the caller may change
// the returned bytes.
func testSameAddress(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	one := a.address()
	kept := bytes.Clone(one)
	clear(one)
	if two := a.address(); !bytes.Equal(two, kept) {
		t.Errorf("address % x, was % x", two, kept)
	}
}
