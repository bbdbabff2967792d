package proto

import (
	"math"

	"github.com/ucx-go/ucx/uct"
)

// ProtoInput holds everything that the choice of an endpoint's protocols depends on.
type ProtoInput struct {
	// AM is the lane of active messages.
	AM LanePerf

	// Rails are further lanes for the fragments of a message, fastest first.
	Rails []LanePerf

	// Put and Get are the lanes over which the peer's memory can be written and read, best
	// first. The peer is assumed to have the same lanes.
	Put []LanePerf
	Get []LanePerf

	// Map are the interfaces whose memory domain maps memory that the peer's domain has
	// allocated, best first. They need not be lanes.
	Map []LanePerf

	Settings ProtoSettings
}

// own replaces the lists of in by copies, so that in shares no memory with the ProtoInput that it
// was copied from.
func (in *ProtoInput) own() {
	in.Rails = append([]LanePerf(nil), in.Rails...)
	in.Put = append([]LanePerf(nil), in.Put...)
	in.Get = append([]LanePerf(nil), in.Get...)
	in.Map = append([]LanePerf(nil), in.Map...)
}

// model is a ProtoInput with values that are safe to compute with.
type model struct {
	am     laneCost
	amName string
	wide   laneCost // cost of all lanes for fragments together, including am
	wideBy string   // the lanes of wide and their shares, as text
	put    access
	get    access
	ptr    laneCost // cost of the best interface that can map the peer's memory
	ptrBy  string   // name of the interface of ptr, empty if there is none
	set    ProtoSettings
}

// access is the access to the peer's memory over all lanes that support it.
type access struct {
	cost   laneCost // cost of all lanes together
	shares LaneShares
	config string // the lanes and their shares, as text
}

func newModel(in *ProtoInput) model {
	set := &in.Settings
	m := model{
		am: in.AM.sane(set.CopyBW), amName: in.AM.Name, set: *set,
		put: newAccess(in.Put, set, func(l *LanePerf) int { return l.PutZcopy }),
		get: newAccess(in.Get, set, func(l *LanePerf) int { return l.GetZcopy }),
	}
	m.wide, m.wideBy = m.am, m.amName
	speeds := []float64{1 / m.am.wire}
	for i := range in.Rails {
		l := in.Rails[i].sane(set.CopyBW)
		speeds = append(speeds, 1/l.wire)
		m.wide.wire = 1 / (1/m.wide.wire + 1/l.wire) // not the CPU times: lanes share the CPU
		m.wide.lat = math.Max(m.wide.lat, l.lat)
	}
	if len(speeds) > 1 {
		shares := NewLaneShares(speeds, Spread{MaxRatio: math.Inf(1)})
		m.wideBy = shares.describe(func(i int) string {
			if i == 0 {
				return m.amName
			}
			return in.Rails[i-1].Name
		})
	}
	if len(in.Map) > 0 {
		m.ptr, m.ptrBy = in.Map[0].sane(set.CopyBW), in.Map[0].Name
	}
	return m
}

// newAccess combines the lanes of the list that support an operation. limit returns the longest
// operation of a lane in bytes, 0 if the lane does not support it.
func newAccess(list []LanePerf, set *ProtoSettings, limit func(*LanePerf) int) (a access) {
	var bandwidths []float64
	var lanes []int
	for i := range list {
		if limit(&list[i]) > 0 {
			bandwidths = append(bandwidths, math.Max(list[i].Bandwidth, 1))
			lanes = append(lanes, i)
		}
	}
	a.shares = NewLaneShares(bandwidths, set.Spread)
	for k, i := range a.shares.lanes {
		lane := list[lanes[i]].sane(set.CopyBW)
		a.shares.lanes[k] = lanes[i]
		if k == 0 {
			a.cost = lane
			continue
		}
		a.cost.join(&lane)
	}
	if a.shares.Lanes() > 0 {
		a.config = a.shares.describe(func(i int) string { return list[i].Name })
	}
	return a
}

// MessageForm describes the packets of a kind of message, as far as the choice of protocols
// depends on them.
type MessageForm struct {
	Op string // name of the operation, for titles of tables

	// Only and First are the header sizes, in bytes, of a message in one packet and of the
	// first of several packets.
	Only, First int

	// Short means that such a message can be sent by the short protocol, with a header of 8 bytes.
	Short bool

	// Whole means that these messages are never sent by rendezvous.
	Whole bool

	// OneLane means that all packets use one lane, because they depend on its ordering.
	OneLane bool
}

// MessageTables are the decision tables of an endpoint for sending one kind of
// messages. They do not change once made and may be shared by endpoints and
// goroutines.
type MessageTables struct {
	in     ProtoInput
	form   MessageForm
	tables [numDataClasses][numSendModes]Table
}

// NewMessageTables makes the tables. in is copied.
func NewMessageTables(in *ProtoInput, form MessageForm) *MessageTables {
	t := &MessageTables{in: *in, form: form}
	t.in.own()
	if form.OneLane {
		t.in.Rails = nil
	}
	m := newModel(&t.in)
	for class := range t.tables {
		for mode := range t.tables[class] {
			c := m.messageChoice(&t.form, DataClass(class), SendMode(mode))
			t.tables[class][mode] = c.table()
		}
	}
	return t
}

// WithoutRendezvous returns tables for messages of the same kind, with an eager protocol for every
// length that an eager protocol supports.
func (t *MessageTables) WithoutRendezvous() *MessageTables {
	in := t.in
	in.Settings.RndvThresh = ThreshInf
	return NewMessageTables(&in, t.form)
}

// Table returns the table for data of a class, sent in a mode.
func (t *MessageTables) Table(class DataClass, mode SendMode) *Table { return &t.tables[class][mode] }

// Explain returns the table for data of a class, sent in a mode, with the estimated times and the
// reason why each other protocol was rejected.
func (t *MessageTables) Explain(class DataClass, mode SendMode) TableInfo {
	m := newModel(&t.in)
	c := m.messageChoice(&t.form, class, mode)
	return c.explain(t.form.Op + mode.String() + " from " + hostMemory(class))
}

// messageChoice returns the options for one kind of send.
func (m *model) messageChoice(form *MessageForm, class DataClass, mode SendMode) choice {
	am := &m.am

	// A short message is a contiguous payload behind one 8-byte header.
	short := option{proto: ProtoEagerShort, group: groupShort, max: -1, why: "needs contiguous data and a header of 8 bytes"}
	if class.contig() && form.Short {
		short = single(ProtoEagerShort, groupShort, am.short, form.Only, am.copied(mode))
	}
	options := []option{
		short,
		single(ProtoEagerBcopy, groupBcopy, am.bcopy, form.Only, am.copiedLate(mode)),
		multi(ProtoEagerMultiBcopy, groupBcopy, am, am.bcopy, form.First, m.wide.copiedLate(mode), 0),
	}
	m.widened(&options[2], am.bcopy-form.Only)
	if class == DataGeneric {
		const why = "data of a generic datatype must be packed first"
		options = append(options,
			option{proto: ProtoEagerZcopy, group: groupZcopy, max: -1, why: why},
			option{proto: ProtoEagerMultiZcopy, group: groupZcopy, max: -1, why: why})
	} else {
		options = append(options,
			single(ProtoEagerZcopy, groupZcopy, am.zcopy, form.Only, am.gathered()),
			multi(ProtoEagerMultiZcopy, groupZcopy, am, am.zcopy, form.First, m.wide.gathered(), zcopySetup))
		m.widened(&options[len(options)-1], am.zcopy-form.Only)
	}
	if !form.Whole {
		// A rendezvous never pays off for data that fits into one message.
		largest := max(am.bcopy, am.zcopy) - form.Only + 1
		for _, o := range m.rendezvous(class) {
			o.min = max(o.min, largest)
			options = append(options, o)
		}
	}
	for i := range options {
		if options[i].config == "" {
			options[i].config = m.amName
		}
	}
	return choice{options, [numGroups]Threshold{
		groupShort: ThreshAuto,
		groupBcopy: m.set.BcopyThresh,
		groupZcopy: m.set.ZcopyThresh,
		groupRndv:  m.set.rndv(mode),
	}, m.set.Allow}
}

// widened records the lanes of an option that sends fragments. With several lanes it excludes data
// of up to single bytes, which fits into one message and therefore uses one lane.
func (m *model) widened(o *option, single int) {
	if o.config = m.wideBy; m.wideBy != m.amName {
		o.floor = single + 1
	}
}

// single returns the option of a protocol that sends one message. limit is the longest message of
// the lane, header included, both in bytes.
func single(p Protocol, g group, limit, header int, cost uct.Linear) option {
	if limit <= header {
		return option{proto: p, group: g, max: -1, why: "not supported by the lane"}
	}
	return option{proto: p, group: g, max: limit - header, cost: cost}
}

// multi returns the option of a protocol that sends as many messages as needed, of up to limit
// bytes each, header included. The parameter each is an additional overhead per message, in
// seconds.
func multi(p Protocol, g group, l *laneCost, limit, header int, cost uct.Linear, each float64) option {
	if limit <= header {
		return option{proto: p, group: g, max: -1, why: "not supported by the lane"}
	}
	return option{proto: p, group: g, max: math.MaxInt, cost: l.fragments(cost, limit-header, each)}
}
