package ucttest

import (
	"math"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// testComponent checks the lists of domains and resources, and that unknown names cannot be
// opened.
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
		t.Errorf("the domain's attributes name %q of %q", attr.Name, attr.Component)
	}
	if got := f.resource(t, h.Domain); got != r {
		t.Errorf("the iface's attributes name %+v, opened as %+v", r, got)
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

// testAttributes checks that limits, flags and performance are consistent.
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
	p := &a.Perf
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
	if a.Events&uct.EventAsyncCB != 0 {
		t.Error("events are announced by a callback, but IfaceParams has none")
	}
}

// testOptional checks that endpoints and ifaces implement the optional interfaces that the
// attributes announce. testUnsupported checks operations that are not announced.
func testOptional(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	flags := a.Iface.Attr().Flags
	ep := a.Connect(t, b)
	_, rma := ep.(uct.RMA)
	_, atomic := ep.(uct.Atomic)
	_, paired := ep.(uct.Paired)
	for _, c := range []struct {
		name  string
		flags uct.IfaceFlags // any of these flags announces the interface
		has   bool
	}{
		{"RMA", anyPut | anyGet, rma},
		{"Atomic", anyAtomic, atomic},
		{"Paired", uct.IfaceConnectToEP, paired},
	} {
		if have := flags & c.flags; have != 0 && !c.has {
			t.Errorf("flags %#x, but the endpoint does not implement uct.%s", uint64(have), c.name)
		}
	}
	if _, local := a.Iface.(uct.ProcessIface); a.Iface.Attr().NoSources && !local {
		t.Error("handlers get no source, but the iface is no uct.ProcessIface")
	}
	if flags&uct.IfaceGetShort != 0 {
		t.Error("IfaceGetShort is announced, but package uct has no short get")
	}
}

// testUnsupported checks that operations that are not announced are refused and have no effect.
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
	type call struct {
		name string
		flag uct.IfaceFlags
		call func() error
	}
	calls := []call{
		{"AMShort", uct.IfaceAMShort, func() error { return ep.AMShort(1, 2, buf, 0, comp) }},
		{"AMShortIOV", uct.IfaceAMShort, func() error { return ep.AMShortIOV(1, iov, 0, comp) }},
		{"AMBcopy", uct.IfaceAMBcopy, func() error { return count(ep.AMBcopy(1, packer, 0, comp)) }},
		{"AMZcopy", uct.IfaceAMZcopy, func() error { return ep.AMZcopy(1, packer, iov, 0, comp) }},
		{"Check", uct.IfaceEpCheck, func() error { return ep.Check(comp) }},
	}
	if ep, ok := ep.(uct.RMA); ok {
		calls = append(calls, []call{
			{"PutShort", uct.IfacePutShort, func() error { return ep.PutShort(buf, 8, key) }},
			{"PutBcopy", uct.IfacePutBcopy, func() error { return count(ep.PutBcopy(packer, 8, 8, key)) }},
			{"PutZcopy", uct.IfacePutZcopy, func() error { return ep.PutZcopy(iov, 8, key, comp) }},
			{"GetBcopy", uct.IfaceGetBcopy, func() error { return ep.GetBcopy(unpacker, 8, 8, key, comp) }},
			{"GetZcopy", uct.IfaceGetZcopy, func() error { return ep.GetZcopy(iov, 8, key, comp) }},
		}...)
	}
	if ep, ok := ep.(uct.Atomic); ok {
		calls = append(calls, []call{
			{"Atomic32Post", anyAtomic, func() error { return ep.Atomic32Post(uct.AtomicAdd, 1, 8, key) }},
			{"Atomic64Post", anyAtomic, func() error { return ep.Atomic64Post(uct.AtomicAdd, 1, 8, key) }},
			{"Atomic32Fetch", anyAtomic, func() error { return ep.Atomic32Fetch(uct.AtomicAdd, 1, &r32, 8, key, comp) }},
			{"Atomic64Fetch", anyAtomic, func() error { return ep.Atomic64Fetch(uct.AtomicAdd, 1, &r64, 8, key, comp) }},
			{"AtomicCSwap32", anyAtomic, func() error { return ep.AtomicCSwap32(1, 2, 8, key, &r32, comp) }},
			{"AtomicCSwap64", anyAtomic, func() error { return ep.AtomicCSwap64(1, 2, 8, key, &r64, comp) }},
		}...)
	}
	if ep, ok := ep.(uct.Paired); ok {
		calls = append(calls, call{"ConnectToEP", uct.IfaceConnectToEP, func() error { return ep.ConnectToEP(nil, nil, nil) }})
	}
	for _, call := range calls {
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
