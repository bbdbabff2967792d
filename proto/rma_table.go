package proto

import (
	"cmp"
	"math"
	"slices"

	"github.com/ucx-go/ucx/uct"
)

// RMALane is a lane that gives access to a peer's memory. Sizes are bytes of one call of
// the transport; 0 means that it cannot.
type RMALane struct {
	Perf LanePerf // its costs; the sizes there are ignored

	PutShort, PutBcopy, PutZcopy int
	GetBcopy, GetZcopy           int
	MinPutZcopy, MinGetZcopy     int  // the shortest zero-copy operations
	Atomic32, Atomic64           bool // all operations of the size

	// Wide says that the lane was chosen for long operations, and may carry a part of one.
	Wide bool
}

// RMAInput holds everything that the choice of protocols for the memory of a key depends
// on.
type RMAInput struct {
	AM       LanePerf  // the lane of active messages
	Lanes    []RMALane // the lanes that the key opens the memory for
	Settings ProtoSettings

	// Rails is the number of lanes for long zero-copy operations, 0 meaning one
	// (UCX_MAX_RMA_LANES); Spread is their distribution.
	Rails  int
	Spread Spread
}

// RMARoutes holds the lane of each operation, as an index of RMAInput.Lanes; -1 means none.
type RMARoutes struct {
	PutShort, PutBcopy, PutZcopy int
	GetBcopy, GetZcopy           int
	Atomic32, Atomic64           int
}

// RMATables are the decision tables for one-sided operations on the memory of a
// key. They do not change once made and may be shared by goroutines.
type RMATables struct {
	in     RMAInput
	routes RMARoutes
	rails  [2]LaneShares // of puts and gets without copies
	put    [numDataClasses]Table
	get    [numDataClasses]Table
}

// NewRMATables makes the tables. in is copied.
func NewRMATables(in *RMAInput) *RMATables {
	t := &RMATables{in: *in}
	t.in.Lanes = append([]RMALane(nil), in.Lanes...)
	m := newRMAModel(&t.in)
	t.routes, t.rails = m.routes(), [2]LaneShares{m.put.shares, m.get.shares}
	for class := range t.put {
		put, get := m.putChoice(DataClass(class)), m.getChoice(DataClass(class))
		t.put[class], t.get[class] = put.table(), get.table()
	}
	return t
}

// Routes returns the lane of each operation.
func (t *RMATables) Routes() *RMARoutes { return &t.routes }

// PutRails and GetRails return the distribution of zero-copy writes and reads over lanes,
// as indices of RMAInput.Lanes. Short operations use the lane of Routes.
func (t *RMATables) PutRails() *LaneShares { return &t.rails[0] }

// GetRails is described with PutRails.
func (t *RMATables) GetRails() *LaneShares { return &t.rails[1] }

// Put returns the table for writing: ProtoPutShort, ProtoPutBcopy, ProtoPutZcopy
// or ProtoPutAM by the length of the data.
func (t *RMATables) Put(class DataClass) *Table { return &t.put[class] }

// Get returns the table for reading: ProtoGetBcopy, ProtoGetZcopy or ProtoGetAM.
func (t *RMATables) Get(class DataClass) *Table { return &t.get[class] }

// Places of the tables in what RMATables.Explain returns.
const (
	RMATablePut = iota
	RMATableGet
	RMATableAtomic32
	RMATableAtomic64
)

// Explain returns the tables for contiguous memory and for atomic operations with
// their reasons.
func (t *RMATables) Explain(class DataClass) []TableInfo {
	m := newRMAModel(&t.in)
	put, get := m.putChoice(class), m.getChoice(class)
	amo32, amo64 := m.atomicChoice(m.routes().Atomic32), m.atomicChoice(m.routes().Atomic64)
	return []TableInfo{
		put.explain("remote memory write by ucp_put* from " + hostMemory(class) + " to host"),
		get.explain("remote memory read by ucp_get* into " + hostMemory(class) + " from host"),
		amo32.explain("atomic operation by ucp_atomic_op* on 32 bits of host"),
		amo64.explain("atomic operation by ucp_atomic_op* on 64 bits of host"),
	}
}

// rmaModel is an RMAInput made sane.
type rmaModel struct {
	in    *RMAInput
	am    laneCost
	lanes []laneCost
	put   access // without copies
	get   access
}

func newRMAModel(in *RMAInput) rmaModel {
	m := rmaModel{in: in, am: in.AM.sane(in.Settings.CopyBW)}
	for i := range in.Lanes {
		m.lanes = append(m.lanes, in.Lanes[i].Perf.sane(in.Settings.CopyBW))
	}
	r := m.routes()
	m.put = m.rails(r.PutZcopy, func(l *RMALane) (limit, least int) { return l.PutZcopy, l.MinPutZcopy })
	m.get = m.rails(r.GetZcopy, func(l *RMALane) (limit, least int) { return l.GetZcopy, l.MinGetZcopy })
	return m
}

// rails takes together the lanes over which one operation goes without copies: first the one
// that carries what is short, then those that were chosen for what is long, the fastest
// first (ucp_proto_multi_init and ucp_proto_multi_select_bw_lanes in
// src/ucp/proto/proto_multi.c).
func (m *rmaModel) rails(first int, carries func(*RMALane) (limit, least int)) (a access) {
	if first < 0 {
		return a
	}
	speed := func(i int) float64 { return math.Min(1/m.lanes[i].wire, 1e15) } // to divide by
	spread := m.in.Spread.sane()
	list := []int{first}
	fastest := speed(first)
	for i := range m.lanes {
		if limit, _ := carries(&m.in.Lanes[i]); i != first && limit > 0 && m.in.Lanes[i].Wide {
			list = append(list, i)
			fastest = math.Max(fastest, speed(i))
		}
	}
	slices.SortStableFunc(list[1:], func(a, b int) int { return cmp.Compare(speed(b), speed(a)) })
	list = append(list[:1], slices.DeleteFunc(list[1:], func(i int) bool { return speed(i)*spread.MaxRatio < fastest })...)
	if list = list[:min(len(list), max(m.in.Rails, 1))]; speed(first)*spread.MaxRatio < fastest {
		list = list[:1] // there is no sense in waiting for it
	}
	var bandwidths []float64
	for _, i := range list {
		bandwidths = append(bandwidths, speed(i))
	}
	ratio := slices.Max(bandwidths) / slices.Min(bandwidths)
	for k, i := range list {
		// The least part is less than a chunk by as much as the lanes differ.
		if _, least := carries(&m.in.Lanes[i]); len(list) > 1 {
			spread.MinChunk = max(spread.MinChunk, int(math.Min(math.Ceil(float64(least)*ratio), math.MaxInt32)))
		}
		if k == 0 {
			a.cost = m.lanes[i]
		} else {
			a.cost.join(&m.lanes[i])
		}
	}
	a.shares = NewLaneShares(bandwidths, spread)
	for k := range a.shares.lanes {
		a.shares.lanes[k] = list[a.shares.lanes[k]]
	}
	a.config = a.shares.describe(func(i int) string { return m.in.Lanes[i].Perf.Name })
	return a
}

// routeSize is the length at which lanes are compared.
const routeSize = 4096

// cheapest is the lane with the least cost for a page; -1 if none can.
func (m *rmaModel) cheapest(can func(*RMALane) bool, cost func(int) uct.Linear) int {
	best := -1
	for i := range m.lanes {
		if can(&m.in.Lanes[i]) && (best < 0 || cost(i).At(routeSize) < cost(best).At(routeSize)) {
			best = i
		}
	}
	return best
}

// cheapestLong is cheapest for what goes without copies, and may be spread: no lane takes a
// part that was not chosen for that, as long as there are others.
func (m *rmaModel) cheapestLong(can func(*RMALane) bool, cost func(int) uct.Linear) int {
	if m.in.Rails > 1 {
		if k := m.cheapest(func(l *RMALane) bool { return l.Wide && can(l) }, cost); k >= 0 {
			return k
		}
	}
	return m.cheapest(can, cost)
}

func (m *rmaModel) routes() RMARoutes {
	return RMARoutes{
		PutShort: m.cheapest(func(l *RMALane) bool { return l.PutShort > 0 }, func(i int) uct.Linear { return m.lanes[i].stored() }),
		PutBcopy: m.cheapest(func(l *RMALane) bool { return l.PutBcopy > 0 }, func(i int) uct.Linear { return m.lanes[i].through(m.in.Lanes[i].PutBcopy) }),
		PutZcopy: m.cheapestLong(func(l *RMALane) bool { return l.PutZcopy > 0 }, func(i int) uct.Linear { return m.lanes[i].written() }),
		GetBcopy: m.cheapest(func(l *RMALane) bool { return l.GetBcopy > 0 }, func(i int) uct.Linear { return m.lanes[i].through(m.in.Lanes[i].GetBcopy) }),
		GetZcopy: m.cheapestLong(func(l *RMALane) bool { return l.GetZcopy > 0 }, func(i int) uct.Linear { return m.lanes[i].read() }),
		Atomic32: m.cheapest(func(l *RMALane) bool { return l.Atomic32 }, func(i int) uct.Linear { return m.lanes[i].stored() }),
		Atomic64: m.cheapest(func(l *RMALane) bool { return l.Atomic64 }, func(i int) uct.Linear { return m.lanes[i].stored() }),
	}
}

// thresholds are the user's. Messages count as copies (cfg_thresh of
// src/ucp/rma/put_am.c and get_am.c).
func (m *rmaModel) thresholds() (t [numGroups]Threshold) {
	t = noThresholds
	t[groupBcopy], t[groupZcopy] = m.in.Settings.BcopyThresh, m.in.Settings.ZcopyThresh
	return t
}

const noRMALane = "no lane has it"

// putChoice is what there is for writing.
func (m *rmaModel) putChoice(class DataClass) choice {
	r := m.routes()
	short := option{proto: ProtoPutShort, group: groupShort, max: -1, why: noRMALane}
	if !class.contig() {
		short.why = "needs contiguous data"
	} else if k := r.PutShort; k >= 0 {
		short = m.direct(ProtoPutShort, groupShort, k, m.in.Lanes[k].PutShort, m.lanes[k].stored())
	}
	bcopy := option{proto: ProtoPutBcopy, group: groupBcopy, max: -1, why: noRMALane}
	if k := r.PutBcopy; k >= 0 {
		bcopy = m.direct(ProtoPutBcopy, groupBcopy, k, math.MaxInt, m.lanes[k].through(m.in.Lanes[k].PutBcopy))
	}
	zcopy := option{proto: ProtoPutZcopy, group: groupZcopy, max: -1, why: noRMALane}
	if k := r.PutZcopy; k >= 0 {
		zcopy = m.direct(ProtoPutZcopy, groupZcopy, k, math.MaxInt, m.put.cost.written())
		zcopy.cost = m.put.cost.fragments(zcopy.cost, m.in.Lanes[k].PutZcopy, zcopySetup)
		zcopy.floor, zcopy.config = m.in.Lanes[k].MinPutZcopy, m.put.config
	}
	if class == DataGeneric {
		zcopy.max, zcopy.why = -1, "data has to be packed"
	}
	// The peer's worker copies once more and says that it has.
	return choice{[]option{short, bcopy, zcopy, m.messages(ProtoPutAM, PutSize, m.posted())}, m.thresholds(), m.in.Settings.Allow}
}

// getChoice is what there is for reading.
func (m *rmaModel) getChoice(class DataClass) choice {
	r := m.routes()
	bcopy := option{proto: ProtoGetBcopy, group: groupBcopy, max: -1, why: noRMALane}
	if k := r.GetBcopy; k >= 0 {
		bcopy = m.direct(ProtoGetBcopy, groupBcopy, k, math.MaxInt, m.lanes[k].through(m.in.Lanes[k].GetBcopy))
	}
	zcopy := option{proto: ProtoGetZcopy, group: groupZcopy, max: -1, why: noRMALane}
	if k := r.GetZcopy; k >= 0 {
		zcopy = m.direct(ProtoGetZcopy, groupZcopy, k, math.MaxInt, m.get.cost.read())
		zcopy.cost = m.get.cost.fragments(zcopy.cost, m.in.Lanes[k].GetZcopy, zcopySetup)
		zcopy.floor, zcopy.config = m.in.Lanes[k].MinGetZcopy, m.get.config
	}
	if class == DataGeneric {
		zcopy.max, zcopy.why = -1, "the list is too long"
	}
	return choice{[]option{bcopy, zcopy, m.messages(ProtoGetAM, GetRepSize, m.asked())}, m.thresholds(), m.in.Settings.Allow}
}

// atomicChoice is what there is for atomic operations of a size. What a lane has
// is not mixed with what the peer's worker does: neither knows of the other.
func (m *rmaModel) atomicChoice(lane int) choice {
	direct := option{proto: ProtoAtomic, max: -1, why: noRMALane}
	sw := m.messages(ProtoAtomicAM, 0, uct.Linear{C: m.asked().C})
	if lane >= 0 {
		direct = m.direct(ProtoAtomic, groupShort, lane, math.MaxInt, uct.Linear{C: m.lanes[lane].stored().C})
		sw.max, sw.why = -1, "a lane has it"
	}
	return choice{[]option{direct, sw}, noThresholds, m.in.Settings.Allow}
}

// direct is a protocol over a lane.
func (m *rmaModel) direct(p Protocol, g group, lane, limit int, cost uct.Linear) option {
	return option{proto: p, group: g, max: limit, cost: cost, config: m.in.Lanes[lane].Perf.Name}
}

// messages is a protocol of as many active messages as it takes.
func (m *rmaModel) messages(p Protocol, header int, cost uct.Linear) option {
	o := multi(p, groupBcopy, &m.am, m.am.bcopy, header, cost, 0)
	o.config = m.in.AM.Name
	return o
}

// attention is the time until a worker that computes looks at its messages. Who
// puts does not wait for that, who asks for data does.
const attention = 5e-6

// stored is a write of the CPU straight into the peer's memory.
func (l *laneCost) stored() uct.Linear { return uct.Linear{C: l.send + l.lat, M: l.wire} }

// through is a copy through the transport's buffers of n bytes. Without a limit
// there are none: it is a copy to or from the peer's memory.
func (l *laneCost) through(n int) uct.Linear {
	c := l.stored()
	c.C += requestCost
	if n == math.MaxInt {
		return c
	}
	c.M += l.copy
	return l.fragments(c, n, 0)
}

// posted is a put by messages, without what each of several costs. Many in a row
// leave together.
func (m *rmaModel) posted() uct.Linear {
	c := uct.Linear{C: m.am.message() + requestCost, M: 2*m.am.copy + m.am.wire}
	if m.am.batch {
		c.C -= m.am.send * (1 - batchShare)
	}
	return c
}

// asked is a get by messages.
func (m *rmaModel) asked() uct.Linear {
	return uct.Linear{C: 2*m.am.message() + requestCost + attention, M: 2*m.am.copy + m.am.wire}
}
