package proto

import "math"

// rendezvous returns the options of the rendezvous protocols for a message, with the cost of the
// whole transfer.
func (m *model) rendezvous(class DataClass) []option {
	am, put := m.deliver(class, true)
	data := bestOf(am)
	hs := m.am.handshake()
	offer := func(p Protocol, o option, start float64) option {
		o.proto, o.group = p, groupRndv
		o.cost.C += start
		bias := 1 - m.set.bias()
		o.cost.C, o.cost.M = o.cost.C*bias, o.cost.M*bias
		return o
	}
	// A read needs no answer to the RTS before the data, only an acknowledgement after it.
	byGet := offer(ProtoRndvGet, m.read(class, true), m.am.message()+m.am.send+m.am.recv+rndvControl)
	byAM, byPut := offer(ProtoRndvAM, data, hs), offer(ProtoRndvPut, put, hs)
	byAM.min = rndvAMMin
	byPtr := offer(ProtoRndvPtr, m.attach(class == DataMapped, "the memory was not allocated by a domain that the peer can map"), m.am.message()+m.am.send+m.am.recv+rndvControl)
	byPtr.min = rndvPtrMin
	m.applyScheme(&byAM, &byPut, &byGet, &byPtr)
	return []option{byAM, byPut, byGet, byPtr}
}

const (
	schemeWantsPut = "UCX_RNDV_SCHEME=put_zcopy"
	schemeWantsGet = "UCX_RNDV_SCHEME=get_zcopy"
	schemeWantsPtr = "UCX_RNDV_SCHEME=rkey_ptr"
	schemeWantsAM  = "UCX_RNDV_SCHEME=am"
)

// applyScheme applies the rendezvous scheme (UCX_RNDV_SCHEME): if the option that it prescribes is
// possible, obey excludes the other options.
func (m *model) applyScheme(am, put, get, ptr *option) {
	rule := func(out *option, why string) {
		if out.max >= 0 {
			out.max, out.why = -1, why
		}
	}
	switch {
	case m.set.RndvScheme == RndvSchemePut && put.max >= 0:
		rule(am, schemeWantsPut)
		rule(get, schemeWantsPut)
		rule(ptr, schemeWantsPut)
	case m.set.RndvScheme == RndvSchemeGet && get.max >= 0:
		rule(am, schemeWantsGet)
		rule(put, schemeWantsGet)
		rule(ptr, schemeWantsGet)
	case m.set.RndvScheme == RndvSchemePtr && ptr.max >= 0:
		rule(am, schemeWantsPtr)
		rule(put, schemeWantsPtr)
		rule(get, schemeWantsPtr)
	}
}

// bestOf returns the option that is cheapest for a long message.
func bestOf(options []option) option {
	best := options[0]
	for _, o := range options[1:] {
		if o.max > best.max || o.max == best.max && o.cost.At(1<<20) < best.cost.At(1<<20) {
			best = o
		}
	}
	return best
}

// deliver returns the options for sending data to a receiver that has answered the RTS: in active
// messages, or by a write if the RTR has an address.
func (m *model) deliver(class DataClass, address bool) (am []option, put option) {
	const header = RndvDataSize
	no := func(p Protocol, why string) option { return option{proto: p, group: groupZcopy, max: -1, why: why} }

	bcopy := option{proto: ProtoDataBcopy, group: groupBcopy, max: -1, why: "not supported by the lane"}
	if frag := m.am.bcopy - header; frag > 0 {
		bcopy.max, bcopy.cost, bcopy.config = math.MaxInt, m.am.dataCopied(frag), m.amName
	}
	zcopy := no(ProtoDataZcopy, "not supported by the lane")
	switch frag := m.am.zcopy - header; {
	case class == DataGeneric:
		zcopy = no(ProtoDataZcopy, "data of a generic datatype must be packed first")
	case frag > 0:
		zcopy.max, zcopy.cost, zcopy.config = math.MaxInt, m.am.dataGathered(frag), m.amName
	}
	switch {
	case class == DataGeneric:
		put = no(ProtoDataPut, "data of a generic datatype must be packed first")
	case m.set.RndvScheme == RndvSchemeAM:
		put = no(ProtoDataPut, schemeWantsAM)
	case m.put.shares.Lanes() == 0:
		put = no(ProtoDataPut, "no lane can write to the peer's memory")
	case !address:
		put = no(ProtoDataPut, "the RTR has no address")
	default:
		put = option{proto: ProtoDataPut, group: groupZcopy, max: math.MaxInt, cost: m.put.cost.written(), config: m.put.config}
	}
	return []option{bcopy, zcopy}, put
}

// read returns the option that the receiver reads the sender's memory. address says that the RTS
// has the address of the memory.
func (m *model) read(class DataClass, address bool) option {
	o := option{proto: ProtoRead, group: groupZcopy, max: -1}
	switch {
	case class == DataGeneric:
		o.why = "data of a generic datatype must be packed first"
	case m.set.RndvScheme == RndvSchemeAM:
		o.why = schemeWantsAM
	case m.get.shares.Lanes() == 0:
		o.why = "no lane can read the peer's memory"
	case !address:
		o.why = "the RTS has no address"
	default:
		o.max, o.cost, o.config = math.MaxInt, m.get.cost.read(), m.get.config
	}
	return o
}

// attach returns the option that the receiver maps the sender's memory and copies from it. key says
// that the RTS has a key for the mapping. If it has none, the parameter why is the reason of the
// rejection.
func (m *model) attach(key bool, why string) option {
	o := option{proto: ProtoAttach, group: groupZcopy, max: -1}
	switch {
	case m.set.RndvScheme == RndvSchemeAM:
		o.why = schemeWantsAM
	case m.ptrBy == "":
		o.why = "no domain can map the peer's memory"
	case !key:
		o.why = why
	default:
		o.max, o.cost, o.config = math.MaxInt, m.am.attached(&m.ptr), m.ptrBy
	}
	return o
}

// RndvTables are the decision tables of an endpoint for both sides of a
// rendezvous. They do not change once made and may be shared by endpoints and
// goroutines.
type RndvTables struct {
	in     ProtoInput
	ask    [numOffers][numDataClasses]Table
	answer [2][numDataClasses]Table
	put    LaneShares
	get    LaneShares
}

// NewRndvTables makes the tables. in is copied.
func NewRndvTables(in *ProtoInput) *RndvTables {
	t := &RndvTables{in: *in}
	t.in.own()
	m := newModel(&t.in)
	t.put, t.get = m.put.shares, m.get.shares
	for offer := range t.ask {
		for class := range t.ask[offer] {
			ask := m.askChoice(DataClass(class), Offer(offer))
			t.ask[offer][class] = ask.table()
		}
	}
	for address := range t.answer {
		for class := range t.answer[address] {
			answer := m.answerChoice(DataClass(class), address == 1)
			t.answer[address][class] = answer.table()
		}
	}
	return t
}

// PutShares and GetShares return the distribution of data over the lanes of ProtoInput.Put
// and ProtoInput.Get.
func (t *RndvTables) PutShares() *LaneShares { return &t.put }

// GetShares returns the distribution of data over the lanes of ProtoInput.Get; see PutShares.
func (t *RndvTables) GetShares() *LaneShares { return &t.get }

// Ask returns the table by which a receiver answers an RTS: ProtoAttach, ProtoRead, ProtoAskPut or
// ProtoAskAM, by the length of the data. class is the shape of the receiver's memory, which the
// peer can write only if it is contiguous.
func (t *RndvTables) Ask(class DataClass, offer Offer) *Table { return &t.ask[offer][class] }

// Answer returns the table by which a sender delivers the data that an RTR requests. address says
// that the RTR has the address of the receiver's memory.
func (t *RndvTables) Answer(class DataClass, address bool) *Table {
	if address {
		return &t.answer[1][class]
	}
	return &t.answer[0][class]
}

// ExplainAsk returns the table of Ask with the estimated times and the reason why each other
// protocol was rejected.
func (t *RndvTables) ExplainAsk(class DataClass, offer Offer) TableInfo {
	m := newModel(&t.in)
	c := m.askChoice(class, offer)
	title := "rendezvous data fetch into " + hostMemory(class) + " from host"
	if offer == OfferKey {
		title += " memory that is mapped"
	}
	return c.explain(title)
}

// ExplainAnswer returns the table of Answer with the estimated times and the reason why each other
// protocol was rejected.
func (t *RndvTables) ExplainAnswer(class DataClass, address bool) TableInfo {
	m := newModel(&t.in)
	c := m.answerChoice(class, address)
	title := "rendezvous data send from " + hostMemory(class)
	if address {
		title += " to host"
	}
	return c.explain(title)
}

// askChoice returns a receiver's options for answering an RTS.
func (m *model) askChoice(class DataClass, offer Offer) choice {
	// The sender's data is most likely contiguous.
	am, put := m.deliver(DataContig, class.contig())
	if !class.contig() {
		put.why = "only contiguous memory can be written"
	}
	ask, read := bestOf(am), m.read(class, offer != OfferPlain)
	attach := m.attach(offer == OfferKey, "the RTS has no key of a domain that can map memory")
	ask.proto, ask.group = ProtoAskAM, groupShort
	put.proto, put.group = ProtoAskPut, groupShort
	read.group, attach.group = groupShort, groupShort
	// An RTR costs a message before the data. A read needs none: its message, the
	// acknowledgement, comes after the data.
	ask.cost.C += m.am.message()
	put.cost.C += m.am.message()
	m.applyScheme(&ask, &put, &read, &attach)
	return choice{[]option{ask, put, read, attach}, noThresholds, m.set.Allow}
}

// answerChoice returns a sender's options for delivering the data that an RTR requests.
func (m *model) answerChoice(class DataClass, address bool) choice {
	am, put := m.deliver(class, address)
	for i := range am {
		m.applyScheme(&am[i], &put, &option{max: -1}, &option{max: -1})
	}
	thresholds := noThresholds
	thresholds[groupZcopy] = m.set.ZcopyThresh
	return choice{append(am, put), thresholds, m.set.Allow}
}
