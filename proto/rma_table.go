package proto

import (
	"cmp"
	"math"
	"slices"

	"github.com/ucx-go/ucx/uct"
)

// RMALane is a lane that gives access to a peer's memory. Sizes are the most bytes that one call of
// the transport can transfer; 0 means that the lane lacks the operation.
type RMALane struct {
	Perf LanePerf // costs of the lane; the sizes in it are ignored

	PutShort, PutBcopy, PutZcopy int
	GetBcopy, GetZcopy           int
	MinPutZcopy, MinGetZcopy     int  // bytes of the shortest zero-copy put and get
	Atomic32, Atomic64           bool // supports all atomic operations on 32, or 64, bits

	// Wide means that the lane was chosen for long operations, and that one long operation may be
	// split over it and other such lanes.
	Wide bool
}

// RMAInput holds everything that the choice of protocols for the memory of a remote key depends
// on.
type RMAInput struct {
	AM       LanePerf  // the lane of active messages
	Lanes    []RMALane // the lanes that can access the memory with the key
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
	rails  [2]LaneShares // distributions of zero-copy puts and of zero-copy gets over lanes
	put    [numDataClasses]Table
	get    [numDataClasses]Table
}

// NewRMATables makes the tables. in is copied.
func NewRMATables(in *RMAInput) *RMATables {
	t := &RMATables{in: *in}
	t.in.Lanes = append([]RMALane(nil), in.Lanes...)
	m := newRMAModel(&t.in)
	t.routes, t.rails = m.route, [2]LaneShares{m.put.shares, m.get.shares}
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

// GetRails returns the distribution of zero-copy reads; see PutRails.
func (t *RMATables) GetRails() *LaneShares { return &t.rails[1] }

// Put returns the table for writes of data of a class: ProtoPutShort, ProtoPutBcopy, ProtoPutZcopy
// or ProtoPutAM, by the length of the data.
func (t *RMATables) Put(class DataClass) *Table { return &t.put[class] }

// Get returns the table for reads into memory of a class: ProtoGetBcopy, ProtoGetZcopy or
// ProtoGetAM, by the length of the data.
func (t *RMATables) Get(class DataClass) *Table { return &t.get[class] }

// Indices of the tables in the result of RMATables.Explain.
const (
	RMATablePut = iota
	RMATableGet
	RMATableAtomic32
	RMATableAtomic64
)

// Explain returns the tables for data of a class and for atomic operations, with the estimated
// times and the reason why each other protocol was rejected.
func (t *RMATables) Explain(class DataClass) []TableInfo {
	m := newRMAModel(&t.in)
	put, get := m.putChoice(class), m.getChoice(class)
	amo32, amo64 := m.atomicChoice(m.route.Atomic32), m.atomicChoice(m.route.Atomic64)
	return []TableInfo{
		put.explain("remote memory write by ucp_put* from " + hostMemory(class) + " to host"),
		get.explain("remote memory read by ucp_get* into " + hostMemory(class) + " from host"),
		amo32.explain("atomic operation by ucp_atomic_op* on 32 bits of host"),
		amo64.explain("atomic operation by ucp_atomic_op* on 64 bits of host"),
	}
}

// rmaModel is an RMAInput with values that are safe to compute with.
type rmaModel struct {
	in    *RMAInput
	am    laneCost
	lanes []laneCost
	route RMARoutes
	put   access // lanes for zero-copy puts
	get   access // lanes for zero-copy gets
}

func newRMAModel(in *RMAInput) rmaModel {
	m := rmaModel{in: in, am: in.AM.sane(in.Settings.CopyBW)}
	for i := range in.Lanes {
		m.lanes = append(m.lanes, in.Lanes[i].Perf.sane(in.Settings.CopyBW))
	}
	m.route = m.routes()
	m.put = m.rails(m.route.PutZcopy, putZcopySize)
	m.get = m.rails(m.route.GetZcopy, getZcopySize)
	return m
}

// putZcopySize and getZcopySize return the longest and the shortest zero-copy operation of a lane
// in bytes. The longest is 0 if the lane has none.
func putZcopySize(l *RMALane) (limit, least int) { return l.PutZcopy, l.MinPutZcopy }
func getZcopySize(l *RMALane) (limit, least int) { return l.GetZcopy, l.MinGetZcopy }

// speed returns the bandwidth of lane i in bytes per second, bounded because it is a divisor.
func (m *rmaModel) speed(i int) float64 { return math.Min(1/m.lanes[i].wire, 1e15) }

// longLanes returns the lanes that long zero-copy operations may use. If these may be spread over
// several lanes, the lanes are those that were chosen for long operations (RMALane.Wide), as long as
// there is one. Lanes that are slower than the fastest of them by more than Spread.MaxRatio are left
// out (ucp_proto_multi_init in src/ucp/proto/proto_multi.c).
func (m *rmaModel) longLanes(size func(*RMALane) (limit, least int)) (list []int) {
	can := func(l *RMALane) bool { limit, _ := size(l); return limit > 0 }
	wide := m.in.Rails > 1 && slices.ContainsFunc(m.in.Lanes, func(l RMALane) bool { return l.Wide && can(&l) })
	fastest := 0.0
	for i := range m.in.Lanes {
		if l := &m.in.Lanes[i]; can(l) && (l.Wide || !wide) {
			list = append(list, i)
			fastest = math.Max(fastest, m.speed(i))
		}
	}
	most := m.in.Spread.sane().MaxRatio
	return slices.DeleteFunc(list, func(i int) bool { return m.speed(i)*most < fastest })
}

// rails combines the lanes of one zero-copy operation (ucp_proto_multi_select_bw_lanes in
// src/ucp/proto/proto_multi.c): the lane first, which also carries operations too short to be
// spread, and then the other lanes that were chosen for long operations, fastest first. The function
// size returns the longest and the shortest operation of a lane in bytes. If first is -1 there are
// no lanes.
func (m *rmaModel) rails(first int, size func(*RMALane) (limit, least int)) (a access) {
	if first < 0 {
		return a
	}
	spread := m.in.Spread.sane()
	list := []int{first}
	for _, i := range m.longLanes(size) {
		if i != first && m.in.Lanes[i].Wide {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list[1:], func(a, b int) int { return cmp.Compare(m.speed(b), m.speed(a)) })
	list = list[:min(len(list), max(m.in.Rails, 1))]
	var bandwidths []float64
	for _, i := range list {
		bandwidths = append(bandwidths, m.speed(i))
	}
	ratio := slices.Max(bandwidths) / slices.Min(bandwidths)
	for k, i := range list {
		// The smallest part may be smaller than a chunk by the ratio of the lanes'
		// speeds; it must not fall below the least size of a zero-copy operation.
		if _, least := size(&m.in.Lanes[i]); len(list) > 1 {
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

// routeSize is the length in bytes for which the costs of lanes are compared.
const routeSize = 4096

// cheapest returns the lane with the least cost for routeSize bytes among those for which can
// returns true, -1 if there is none.
func (m *rmaModel) cheapest(can func(*RMALane) bool, cost func(int) uct.Linear) int {
	best := -1
	for i := range m.lanes {
		if can(&m.in.Lanes[i]) && (best < 0 || cost(i).At(routeSize) < cost(best).At(routeSize)) {
			best = i
		}
	}
	return best
}

// cheapestLong is like cheapest, for zero-copy operations, among the lanes of longLanes.
func (m *rmaModel) cheapestLong(size func(*RMALane) (limit, least int), cost func(int) uct.Linear) int {
	best := -1
	for _, i := range m.longLanes(size) {
		if best < 0 || cost(i).At(routeSize) < cost(best).At(routeSize) {
			best = i
		}
	}
	return best
}

// routes returns the lane of each operation.
func (m *rmaModel) routes() RMARoutes {
	return RMARoutes{
		PutShort: m.cheapest(func(l *RMALane) bool { return l.PutShort > 0 }, func(i int) uct.Linear { return m.lanes[i].stored() }),
		PutBcopy: m.cheapest(func(l *RMALane) bool { return l.PutBcopy > 0 }, func(i int) uct.Linear { return m.lanes[i].through(m.in.Lanes[i].PutBcopy) }),
		PutZcopy: m.cheapestLong(putZcopySize, func(i int) uct.Linear { return m.lanes[i].written() }),
		GetBcopy: m.cheapest(func(l *RMALane) bool { return l.GetBcopy > 0 }, func(i int) uct.Linear { return m.lanes[i].through(m.in.Lanes[i].GetBcopy) }),
		GetZcopy: m.cheapestLong(getZcopySize, func(i int) uct.Linear { return m.lanes[i].read() }),
		Atomic32: m.cheapest(func(l *RMALane) bool { return l.Atomic32 }, func(i int) uct.Linear { return m.lanes[i].stored() }),
		Atomic64: m.cheapest(func(l *RMALane) bool { return l.Atomic64 }, func(i int) uct.Linear { return m.lanes[i].stored() }),
	}
}

// thresholds returns the user's thresholds. Active messages count as copies (cfg_thresh of
// src/ucp/rma/put_am.c and get_am.c).
func (m *rmaModel) thresholds() (t [numGroups]Threshold) {
	t = noThresholds
	t[groupBcopy], t[groupZcopy] = m.in.Settings.BcopyThresh, m.in.Settings.ZcopyThresh
	return t
}

const noRMALane = "no lane supports it"

// putChoice returns the options for writing.
func (m *rmaModel) putChoice(class DataClass) choice {
	r := &m.route
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
		zcopy.max, zcopy.why = -1, "data of a generic datatype must be packed first"
	}
	// With ProtoPutAM the peer's worker copies once more, and sends a completion.
	return choice{[]option{short, bcopy, zcopy, m.messages(ProtoPutAM, PutSize, m.posted())}, m.thresholds(), m.in.Settings.Allow}
}

// getChoice returns the options for reading.
func (m *rmaModel) getChoice(class DataClass) choice {
	r := &m.route
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
		zcopy.max, zcopy.why = -1, "the IOV list is longer than the lane can scatter"
	}
	return choice{[]option{bcopy, zcopy, m.messages(ProtoGetAM, GetRepSize, m.asked())}, m.thresholds(), m.in.Settings.Allow}
}

// atomicChoice returns the options for atomic operations of one size. Operations of a lane and
// operations of the peer's worker are not mixed, because they are not atomic with each other.
func (m *rmaModel) atomicChoice(lane int) choice {
	direct := option{proto: ProtoAtomic, max: -1, why: noRMALane}
	sw := m.messages(ProtoAtomicAM, 0, uct.Linear{C: m.asked().C})
	if lane >= 0 {
		direct = m.direct(ProtoAtomic, groupShort, lane, math.MaxInt, uct.Linear{C: m.lanes[lane].stored().C})
		sw.max, sw.why = -1, "a lane supports it directly"
	}
	return choice{[]option{direct, sw}, noThresholds, m.in.Settings.Allow}
}

// direct returns the option of a protocol that a lane carries out directly.
func (m *rmaModel) direct(p Protocol, g group, lane, limit int, cost uct.Linear) option {
	return option{proto: p, group: g, max: limit, cost: cost, config: m.in.Lanes[lane].Perf.Name}
}

// messages returns the option of a protocol that sends as many active messages as needed. header is
// the size of the header of each in bytes.
func (m *rmaModel) messages(p Protocol, header int, cost uct.Linear) option {
	o := multi(p, groupBcopy, &m.am, m.am.bcopy, header, cost, 0)
	o.config = m.in.AM.Name
	return o
}

// attention is the assumed time, in seconds, until a worker whose application is busy handles a
// message. A get by messages waits for it, a put does not.
const attention = 5e-6

// stored returns the cost of a write by the CPU directly into the peer's memory.
func (l *laneCost) stored() uct.Linear { return uct.Linear{C: l.send + l.lat, M: l.wire} }

// through returns the cost of a copy through the transport's buffers of n bytes. math.MaxInt
// means that there are no buffers: the CPU copies to or from the peer's memory.
func (l *laneCost) through(n int) uct.Linear {
	c := l.stored()
	c.C += requestCost
	if n == math.MaxInt {
		return c
	}
	c.M += l.copy
	return l.fragments(c, n, 0)
}

// posted returns the cost of a put by messages, without the cost per fragment. Many puts in a row
// leave together if the transport batches messages.
func (m *rmaModel) posted() uct.Linear {
	c := uct.Linear{C: m.am.message() + requestCost, M: 2*m.am.copy + m.am.wire}
	if m.am.batch {
		c.C -= m.am.send * (1 - batchShare)
	}
	return c
}

// asked returns the cost of a get by messages, without the cost per fragment.
func (m *rmaModel) asked() uct.Linear {
	return uct.Linear{C: 2*m.am.message() + requestCost + attention, M: 2*m.am.copy + m.am.wire}
}
