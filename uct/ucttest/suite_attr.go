package ucttest

import (
	"math"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// testComponent checks what can be listed and opened, and that names that do
// not exist cannot.
func testComponent(t *testing.T, f *Fixture) {
	h := f.Open(t)
	c, r := f.Component, h.Iface.Attr().Resource

	list, err := c.MemoryDomains(f.Config)
	if err != nil {
		t.Fatalf("listing memory domains: %v", err)
	}
	if !slices.Contains(list, uct.MDResource{Name: f.domain(t)}) {
		t.Errorf("domain %q is not listed: %v", f.domain(t), list)
	}
	if attr := h.Domain.Attr(); attr.Component != c.Name() || attr.Name != f.domain(t) {
		t.Errorf("domain says it is %q of %q", attr.Name, attr.Component)
	}
	if got := f.resource(t, h.Domain); got != r {
		t.Errorf("iface says it is %+v, opened as %+v", r, got)
	}
	if md, err := c.OpenMD("no such domain", f.Config); err == nil {
		md.Close()
		t.Error("a domain that does not exist was opened")
	} else {
		WantStatus(t, "opening a domain that does not exist", err, ucs.ErrNoDevice)
	}
	for _, p := range []uct.IfaceParams{
		{Transport: r.Transport, Device: "no such device"},
		{Transport: "no such transport", Device: r.Device},
		{},
	} {
		if i, err := h.Domain.OpenIface(h.Worker, p, f.Config); err == nil {
			i.Close()
			t.Errorf("iface %q on %q was opened", p.Transport, p.Device)
		} else {
			WantStatus(t, "opening an iface that does not exist", err, ucs.ErrNoDevice)
		}
	}
	if c.Flags()&uct.ComponentFlagCM == 0 {
		_, err := c.OpenCM(h.Worker, f.Config)
		WantStatus(t, "opening a connection manager", err, ucs.ErrUnsupported)
	}
	if h.Domain.Attr().Flags&uct.MDFlagAlloc == 0 {
		_, err := h.Domain.Alloc(uct.AllocParams{Length: 4096})
		WantStatus(t, "allocating", err, ucs.ErrUnsupported)
	}
	if h.Domain.Attr().Flags&uct.MDFlagRegister == 0 {
		_, err := h.Domain.Register(make([]byte, 4096), uct.AccessAll)
		WantStatus(t, "registering", err, ucs.ErrUnsupported)
	}
	if c.Flags()&uct.ComponentFlagRkeyPtr == 0 {
		_, err := h.Domain.RkeyPtr(&uct.Rkey{}, 0, 1)
		WantStatus(t, "pointer of a key", err, ucs.ErrUnsupported)
	}
}

// testAttributes checks that limits, flags and performance make sense together.
func testAttributes(t *testing.T, f *Fixture) {
	h := f.Open(t)
	a := h.Iface.Attr()
	if a != h.Iface.Attr() {
		t.Error("Attr returns another value each time")
	}
	limit := func(flag uct.IfaceFlags, name string, value, least int) {
		if a.Flags.Has(flag) && value < least {
			t.Errorf("%s is %d, want at least %d for %v", name, value, least, flag)
		}
	}
	limit(uct.IfaceAMShort, "AM.MaxShort", a.AM.MaxShort, 8)
	limit(uct.IfaceAMBcopy, "AM.MaxBcopy", a.AM.MaxBcopy, 8)
	limit(uct.IfaceAMZcopy, "AM.MaxZcopy", a.AM.MaxZcopy, a.AM.MinZcopy+1)
	limit(uct.IfaceAMZcopy, "AM.MaxIOV", a.AM.MaxIOV, 1)
	limit(uct.IfaceAMZcopy, "AM.MaxZcopy", a.AM.MaxZcopy, a.AM.MaxZcopyHdr)
	limit(uct.IfaceAMZcopy, "AM.OptZcopyAlign", a.AM.OptZcopyAlign, 1)
	limit(uct.IfacePutShort, "Put.MaxShort", a.Put.MaxShort, 1)
	limit(uct.IfacePutBcopy, "Put.MaxBcopy", a.Put.MaxBcopy, 1)
	limit(uct.IfacePutZcopy, "Put.MaxZcopy", a.Put.MaxZcopy, a.Put.MinZcopy+1)
	limit(uct.IfacePutZcopy, "Put.MaxIOV", a.Put.MaxIOV, 1)
	limit(uct.IfaceGetShort, "Get.MaxShort", a.Get.MaxShort, 1)
	limit(uct.IfaceGetBcopy, "Get.MaxBcopy", a.Get.MaxBcopy, 1)
	limit(uct.IfaceGetZcopy, "Get.MaxZcopy", a.Get.MaxZcopy, a.Get.MinZcopy+1)
	limit(uct.IfaceGetZcopy, "Get.MaxIOV", a.Get.MaxIOV, 1)

	const known = 1<<uct.AtomicAdd | 1<<uct.AtomicAnd | 1<<uct.AtomicOr | 1<<uct.AtomicXor |
		1<<uct.AtomicSwap | 1<<uct.AtomicCSwap
	any := a.Atomic32.Post | a.Atomic32.Fetch | a.Atomic64.Post | a.Atomic64.Fetch
	if atomic := a.Flags&anyAtomic != 0; atomic != (any != 0) || any&^known != 0 {
		t.Errorf("capabilities %v with operations %+v and %+v", a.Flags&anyAtomic, a.Atomic32, a.Atomic64)
	}
	if a.Flags&anyAM != 0 && a.Flags&(uct.IfaceCBSync|uct.IfaceCBAsync) == 0 {
		t.Error("active messages but neither CB_SYNC nor CB_ASYNC")
	}
	if a.Flags&(uct.IfaceConnectToIface|uct.IfaceConnectToEP|uct.IfaceConnectToSockAddr) == 0 {
		t.Error("no way to connect")
	}
	if a.NumPaths < 1 || a.MaxEndpoints < 1 {
		t.Errorf("%d paths, %d endpoints", a.NumPaths, a.MaxEndpoints)
	}
	for _, p := range []uct.Perf{a.Perf, h.Iface.EstimatePerf(uct.PerfParams{Operation: uct.OpAMShort})} {
		for name, v := range map[string]float64{
			"overhead": p.Overhead, "send overhead": p.SendOverhead, "receive overhead": p.RecvOverhead,
			"latency": p.Latency.C, "latency growth": p.Latency.M,
			"bandwidth": p.BandwidthDedicated, "shared bandwidth": p.BandwidthShared,
		} {
			if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s is %v", name, v)
			}
		}
		if p.Bandwidth(1) <= 0 {
			t.Error("no bandwidth")
		}
	}
	if len(h.Iface.MemoryTypes()) == 0 {
		t.Error("no memory types")
	}
	if a.Events&uct.EventAsyncCB != 0 {
		t.Error("events told by a callback, which IfaceParams has no place for")
	}
	if err := h.Iface.Arm(uct.EventRecv); (a.Events&uct.EventFD == 0) != (err == ucs.ErrUnsupported) {
		t.Errorf("events %#x, but Arm returned %v", a.Events, err)
	}
}

// testUnsupported checks that what is not announced is refused and leaves no
// trace.
func testUnsupported(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	attr := a.Iface.Attr()
	packer, unpacker, c := &Packer{Data: []byte("refused!")}, new(Unpacker), NewCompletion(1)
	comp, key := &c.Completion, new(uct.Rkey)
	buf := make([]byte, 64)
	iov := []uct.IOV{{Data: buf}}
	var r32 uint32
	var r64 uint64
	count := func(_ int, err error) error { return err }
	op := func(_ any, err error) error { return err }
	for _, call := range []struct {
		name string
		flag uct.IfaceFlags
		call func() error
	}{
		{"AMShort", uct.IfaceAMShort, func() error { return ep.AMShort(1, 2, buf, 0, comp) }},
		{"AMShortIOV", uct.IfaceAMShort, func() error { return ep.AMShortIOV(1, iov, 0, comp) }},
		{"AMBcopy", uct.IfaceAMBcopy, func() error { return count(ep.AMBcopy(1, packer, 0, comp)) }},
		{"AMZcopy", uct.IfaceAMZcopy, func() error { return ep.AMZcopy(1, packer, iov, 0, comp) }},
		{"PutShort", uct.IfacePutShort, func() error { return ep.PutShort(buf, 8, key) }},
		{"PutBcopy", uct.IfacePutBcopy, func() error { return count(ep.PutBcopy(packer, 8, 8, key)) }},
		{"PutZcopy", uct.IfacePutZcopy, func() error { return ep.PutZcopy(iov, 8, key, comp) }},
		{"GetShort", uct.IfaceGetShort, func() error { return ep.GetShort(buf, 8, key) }},
		{"GetBcopy", uct.IfaceGetBcopy, func() error { return ep.GetBcopy(unpacker, 8, 8, key, comp) }},
		{"GetZcopy", uct.IfaceGetZcopy, func() error { return ep.GetZcopy(iov, 8, key, comp) }},
		{"Atomic32Post", anyAtomic, func() error { return ep.Atomic32Post(uct.AtomicAdd, 1, 8, key) }},
		{"Atomic64Post", anyAtomic, func() error { return ep.Atomic64Post(uct.AtomicAdd, 1, 8, key) }},
		{"Atomic32Fetch", anyAtomic, func() error { return ep.Atomic32Fetch(uct.AtomicAdd, 1, &r32, 8, key, comp) }},
		{"Atomic64Fetch", anyAtomic, func() error { return ep.Atomic64Fetch(uct.AtomicAdd, 1, &r64, 8, key, comp) }},
		{"AtomicCSwap32", anyAtomic, func() error { return ep.AtomicCSwap32(1, 2, 8, key, &r32, comp) }},
		{"AtomicCSwap64", anyAtomic, func() error { return ep.AtomicCSwap64(1, 2, 8, key, &r64, comp) }},
		{"TagEagerShort", uct.IfaceTagEagerShort, func() error { return ep.TagEagerShort(1, buf) }},
		{"TagEagerBcopy", uct.IfaceTagEagerBcopy, func() error { return count(ep.TagEagerBcopy(1, 2, packer, 0)) }},
		{"TagEagerZcopy", uct.IfaceTagEagerZcopy, func() error { return ep.TagEagerZcopy(1, 2, iov, 0, comp) }},
		{"TagRndvZcopy", uct.IfaceTagRndvZcopy, func() error { return op(ep.TagRndvZcopy(1, packer, iov, comp)) }},
		{"TagRndvCancel", uct.IfaceTagRndvZcopy, func() error { return ep.TagRndvCancel(nil) }},
		{"TagRndvRequest", uct.IfaceTagRndvZcopy, func() error { return ep.TagRndvRequest(1, packer) }},
		{"TagRecvZcopy", uct.IfaceTagRndvZcopy, func() error { return a.Iface.TagRecvZcopy(1, 2, iov, nil) }},
		{"TagRecvCancel", uct.IfaceTagRndvZcopy, func() error { return a.Iface.TagRecvCancel(nil, false) }},
		{"Check", uct.IfaceEpCheck, func() error { return ep.Check(comp) }},
		{"ConnectToEP", uct.IfaceConnectToEP, func() error { return ep.ConnectToEP(nil, nil) }},
		{"Connect", uct.IfaceConnectToSockAddr, func() error { return ep.Connect(nil) }},
		{"Disconnect", uct.IfaceConnectToSockAddr, ep.Disconnect},
		{"Notify", uct.IfaceConnectToSockAddr, ep.Notify},
	} {
		if attr.Flags&call.flag == 0 {
			WantStatus(t, call.name, call.call(), ucs.ErrUnsupported)
		}
	}
	Settle(a, b)
	if packer.Calls != 0 || unpacker.Calls != 0 || c.Fired != 0 {
		t.Errorf("refused operations packed %d times, unpacked %d times, completed %d times",
			packer.Calls, unpacker.Calls, c.Fired)
	}
}
