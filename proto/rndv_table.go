package proto

import "math"

// rendezvous returns the two ways a message may be offered, with the whole time
// they take.
func (m *model) rendezvous(class DataClass) []option {
	am, put := m.deliver(class, true)
	data := bestOf(am)
	hs := m.am.handshake()
	offer := func(p Protocol, o option) option {
		o.proto, o.group = p, groupRndv
		o.cost.C += hs
		return o
	}
	byAM, byPut := offer(ProtoRndvAM, data), offer(ProtoRndvPut, put)
	byAM.min = rndvAMMin
	if m.set.RndvScheme == RndvSchemePut && byPut.max >= 0 {
		byAM.max, byAM.why = -1, schemeWantsPut
	}
	return []option{byAM, byPut}
}

const (
	schemeWantsPut = "UCX_RNDV_SCHEME wants put_zcopy"
	schemeWantsAM  = "UCX_RNDV_SCHEME wants am"
)

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

// deliver returns the ways to bring data to a receiver that has answered: in
// messages, and by writing where it has given an address.
func (m *model) deliver(class DataClass, address bool) (am []option, put option) {
	const header = RndvDataSize
	no := func(p Protocol, why string) option { return option{proto: p, group: groupZcopy, max: -1, why: why} }

	bcopy := option{proto: ProtoDataBcopy, group: groupBcopy, max: -1, why: "the lane does not have it"}
	if frag := m.am.bcopy - header; frag > 0 {
		bcopy.max, bcopy.cost, bcopy.config = math.MaxInt, m.am.dataCopied(frag), m.amName
	}
	zcopy := no(ProtoDataZcopy, "the lane does not have it")
	switch frag := m.am.zcopy - header; {
	case class == DataGeneric:
		zcopy = no(ProtoDataZcopy, "data has to be packed")
	case frag > 0:
		zcopy.max, zcopy.cost, zcopy.config = math.MaxInt, m.am.dataGathered(frag), m.amName
	}
	switch {
	case class == DataGeneric:
		put = no(ProtoDataPut, "data has to be packed")
	case m.set.RndvScheme == RndvSchemeAM:
		put = no(ProtoDataPut, schemeWantsAM)
	case m.shares.Lanes() == 0:
		put = no(ProtoDataPut, "no lane writes into the peer's memory")
	case !address:
		put = no(ProtoDataPut, "the receiver gave no address")
	default:
		put = option{proto: ProtoDataPut, group: groupZcopy, max: math.MaxInt, cost: m.put.written(), config: m.putTo}
	}
	return []option{bcopy, zcopy}, put
}

// RndvTables are the decision tables of an endpoint for both sides of a
// rendezvous. They do not change once made and may be shared by endpoints and
// goroutines.
type RndvTables struct {
	in     ProtoInput
	ask    [numDataClasses]Table
	answer [2][numDataClasses]Table
}

// NewRndvTables makes the tables. in is copied.
func NewRndvTables(in *ProtoInput) *RndvTables {
	t := &RndvTables{in: *in}
	t.in.Put = append([]LanePerf(nil), in.Put...)
	m := newModel(&t.in)
	for class := range t.ask {
		ask := m.askChoice(DataClass(class))
		t.ask[class] = ask.table()
		for address := range t.answer {
			answer := m.answerChoice(DataClass(class), address == 1)
			t.answer[address][class] = answer.table()
		}
	}
	return t
}

// Ask returns the table by which a receiver answers an offer: ProtoAskPut or
// ProtoAskAM by the length of the data. Only contiguous memory can be written
// by the peer.
func (t *RndvTables) Ask(class DataClass) *Table { return &t.ask[class] }

// Answer returns the table by which a sender delivers what was asked for.
// address says that the receiver gave the address of its memory.
func (t *RndvTables) Answer(class DataClass, address bool) *Table {
	if address {
		return &t.answer[1][class]
	}
	return &t.answer[0][class]
}

// ExplainAsk returns the table of Ask with its reasons.
func (t *RndvTables) ExplainAsk(class DataClass) TableInfo {
	m := newModel(&t.in)
	c := m.askChoice(class)
	return c.explain("rendezvous data fetch into " + hostMemory(class) + " from host")
}

// ExplainAnswer returns the table of Answer with its reasons.
func (t *RndvTables) ExplainAnswer(class DataClass, address bool) TableInfo {
	m := newModel(&t.in)
	c := m.answerChoice(class, address)
	title := "rendezvous data send from " + hostMemory(class)
	if address {
		title += " to host"
	}
	return c.explain(title)
}

// askChoice is what a receiver may ask for.
func (m *model) askChoice(class DataClass) choice {
	// The sender's data is most likely one piece.
	am, put := m.deliver(DataContig, class == DataContig)
	if class != DataContig {
		put.why = "only contiguous memory can be written"
	}
	ask := bestOf(am)
	ask.proto, ask.group = ProtoAskAM, groupShort
	put.proto, put.group = ProtoAskPut, groupShort
	if m.set.RndvScheme == RndvSchemePut && put.max >= 0 {
		ask.max, ask.why = -1, schemeWantsPut
	}
	return choice{[]option{ask, put}, noThresholds}
}

// answerChoice is how a sender may deliver.
func (m *model) answerChoice(class DataClass, address bool) choice {
	am, put := m.deliver(class, address)
	if m.set.RndvScheme == RndvSchemePut && put.max >= 0 {
		for i := range am {
			am[i].max, am[i].why = -1, schemeWantsPut
		}
	}
	thresholds := noThresholds
	thresholds[groupZcopy] = m.set.ZcopyThresh
	return choice{append(am, put), thresholds}
}
