package proto

import "testing"

func TestRndvTables(t *testing.T) {
	noPut := func(in *ProtoInput) { in.Put = nil }
	am := func(in *ProtoInput) { in.Settings.RndvScheme = RndvSchemeAM }
	put := func(in *ProtoInput) { in.Settings.RndvScheme = RndvSchemePut }
	zcopy := func(in *ProtoInput) { in.Settings.ZcopyThresh = 0 }
	get := func(in *ProtoInput) { in.Settings.RndvScheme = RndvSchemeGet }
	ask := func(in *ProtoInput, class DataClass) string {
		return ranges(NewRndvTables(in).ExplainAsk(class, OfferPlain))
	}
	read := func(in *ProtoInput, class DataClass) string {
		return ranges(NewRndvTables(in).ExplainAsk(class, OfferAddress))
	}
	ptr := func(in *ProtoInput) { in.Settings.RndvScheme = RndvSchemePtr }
	mapped := func(in *ProtoInput) { in.Map = []LanePerf{posixInput().AM} }
	attach := func(in *ProtoInput, class DataClass, edit ...func(*ProtoInput)) string {
		for _, f := range edit {
			f(in)
		}
		return ranges(NewRndvTables(in).ExplainAsk(class, OfferKey))
	}
	answer := func(in *ProtoInput, class DataClass, address bool) string {
		return ranges(NewRndvTables(in).ExplainAnswer(class, address))
	}
	for _, tc := range []struct{ name, got, want string }{
		{"ask", ask(tcpInput(), DataContig), "rndv/rtr/am..~ rndv/rtr/put"},
		{"ask, iov", ask(tcpInput(), DataIOV), "rndv/rtr/am"},
		{"ask, generic", ask(tcpInput(), DataGeneric), "rndv/rtr/am"},
		{"ask, not writable", ask(tcpInput(noPut), DataContig), "rndv/rtr/am"},
		{"ask, am", ask(tcpInput(am), DataContig), "rndv/rtr/am"},
		{"ask, put", ask(tcpInput(put), DataContig), "rndv/rtr/put"},
		{"ask, put, iov", ask(tcpInput(put), DataIOV), "rndv/rtr/am"},
		{"ask, put, not writable", ask(tcpInput(put, noPut), DataContig), "rndv/rtr/am"},
		{"ask, posix", ask(posixInput(), DataContig), "rndv/rtr/am"},
		{"ask, get, not readable", ask(tcpInput(get), DataContig), "rndv/rtr/am..~ rndv/rtr/put"},
		{"ask, cma, no address", ask(cmaInput(), DataContig), "rndv/rtr/am..~ rndv/rtr/put"},
		{"read", read(tcpInput(), DataContig), "rndv/rtr/am..~ rndv/rtr/put"},
		{"read, cma", read(cmaInput(), DataContig), "rndv/rtr/am..~ rndv/get"},
		{"read, cma, iov", read(cmaInput(), DataIOV), "rndv/rtr/am..~ rndv/get"},
		{"read, cma, generic", read(cmaInput(), DataGeneric), "rndv/rtr/am"},
		{"read, cma, put", read(cmaInput(put), DataContig), "rndv/rtr/put"},
		{"read, cma, get", read(cmaInput(get), DataContig), "rndv/get"},
		{"read, cma, am", read(cmaInput(am), DataContig), "rndv/rtr/am"},
		{"read, mapping, no key", read(cmaInput(mapped), DataContig), "rndv/rtr/am..~ rndv/get"},

		{"key, nothing maps", attach(posixInput(), DataContig), "rndv/rtr/am"},
		{"key", attach(posixInput(), DataContig, mapped), "rndv/attach"},
		{"key, iov", attach(posixInput(), DataIOV, mapped), "rndv/attach"},
		{"key, generic", attach(posixInput(), DataGeneric, mapped), "rndv/attach"},
		{"key, cma", attach(cmaInput(), DataContig, mapped), "rndv/attach"},
		{"key, tcp", attach(tcpInput(), DataContig), "rndv/rtr/am..~ rndv/rtr/put"},
		{"key, am", attach(posixInput(), DataContig, mapped, am), "rndv/rtr/am"},
		{"key, get", attach(cmaInput(), DataContig, mapped, get), "rndv/get"},
		{"key, get, not readable", attach(posixInput(), DataContig, mapped, get), "rndv/attach"},
		{"key, put", attach(cmaInput(), DataContig, mapped, put), "rndv/rtr/put"},
		{"key, rkey_ptr", attach(cmaInput(), DataContig, mapped, ptr), "rndv/attach"},
		{"no key, rkey_ptr", read(cmaInput(ptr), DataContig), "rndv/rtr/am..~ rndv/get"},

		{"answer", answer(tcpInput(), DataContig, true), "rndv/am/bcopy..~ rndv/am/zcopy..~ rndv/send/put"},
		{"answer, iov", answer(tcpInput(), DataIOV, true), "rndv/am/bcopy..~ rndv/am/zcopy..~ rndv/send/put"},
		{"answer, generic", answer(tcpInput(), DataGeneric, true), "rndv/am/bcopy"},
		{"answer, no address", answer(tcpInput(), DataContig, false), "rndv/am/bcopy..~ rndv/am/zcopy"},
		{"answer, no lane", answer(tcpInput(noPut), DataContig, true), "rndv/am/bcopy..~ rndv/am/zcopy"},
		{"answer, am", answer(tcpInput(am), DataContig, true), "rndv/am/bcopy..~ rndv/am/zcopy"},
		{"answer, put", answer(tcpInput(put), DataContig, true), "rndv/send/put"},
		{"answer, put, no address", answer(tcpInput(put), DataContig, false), "rndv/am/bcopy..~ rndv/am/zcopy"},
		{"answer, zcopy", answer(tcpInput(zcopy), DataContig, false), "rndv/am/zcopy"},
		{"answer, posix", answer(posixInput(), DataContig, true), "rndv/am/bcopy"},
	} {
		if !sameRanges(tc.got, tc.want) {
			t.Errorf("%s: %s, want %s", tc.name, tc.got, tc.want)
		}
	}
}

// TestRndvPutLanes checks that several lanes share a long message, as in C UCX with two tcp
// devices.
func TestRndvPutLanes(t *testing.T) {
	second := tcpLane()
	second.Name, second.Bandwidth = "tcp/eth0", 11.27*(1<<20)
	in := tcpInput(func(in *ProtoInput) { in.Put = append(in.Put, LanePerf{Name: "no put"}, second) })
	tables := tagTables(in, false)
	s := NewRndvTables(in).PutShares()
	if s.Lanes() != 2 {
		t.Fatalf("%d lanes", s.Lanes())
	}
	if lane, from, to := s.Part(1, 1<<20); lane != 2 || from != 538768 || to != 1<<20 {
		t.Errorf("second part over lane %d, %d..%d", lane, from, to)
	}
	info := tables.Explain(DataContig, 0)
	last := info.Ranges[len(info.Ranges)-1]
	if last.Proto != ProtoRndvPut || last.Config != "51% on tcp/lo and 49% on tcp/eth0" {
		t.Errorf("%v on %s", last.Proto, last.Config)
	}
}
