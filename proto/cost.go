package proto

import (
	"math"

	"github.com/ucx-go/ucx/uct"
)

// LanePerf holds the limits and the costs of a lane for the cost model. Sizes are bytes of
// whole messages, headers included, as the transport reports them; 0 means that the lane lacks
// the operation.
type LanePerf struct {
	Name string // transport and device, for example "tcp/lo"

	MaxShort int // longest short message, including the 8-byte header
	MaxBcopy int
	MaxZcopy int

	// PutZcopy and GetZcopy are the longest zero-copy write and read. They are 0 if the lane has
	// none, or needs a key that the peer cannot give.
	PutZcopy int
	GetZcopy int

	// SegSize is the longest message that the peer accepts, 0 if not announced.
	SegSize int

	SendOverhead float64    // seconds of CPU to send a message
	RecvOverhead float64    // seconds of CPU to receive a message
	CopyOverhead float64    // seconds of CPU that a copied message takes beyond a short one
	Latency      float64    // seconds
	Bandwidth    float64    // bytes per second
	RegCost      uct.Linear // cost of registering user memory for zero-copy; zero if not needed

	// Batches says that the transport collects copied messages and sends many of them
	// together.
	Batches bool
}

// PerfOf describes an interface of the memory domain md for the cost model. segSize is the longest
// message that the peer takes, 0 if unknown. ppn is the number of processes that share the machine.
// keyed says that messages can carry the keys that the peer's memory needs.
func PerfOf(a *uct.IfaceAttr, md *uct.MDAttr, segSize, ppn int, keyed bool) LanePerf {
	p := LanePerf{
		Name:         a.Resource.String(),
		MaxBcopy:     a.AM.MaxBcopy,
		SegSize:      segSize,
		SendOverhead: a.Perf.SendOverhead,
		RecvOverhead: a.Perf.RecvOverhead,
		CopyOverhead: a.Perf.CopyOverhead,
		Latency:      a.Perf.Latency.C,
		Bandwidth:    a.Perf.Bandwidth(ppn),
		Batches:      a.Batches,
	}
	if a.Flags.Has(uct.IfaceAMShort) {
		p.MaxShort = a.AM.MaxShort
	}
	if a.Flags.Has(uct.IfaceAMZcopy) {
		p.MaxZcopy = a.AM.MaxZcopy
	}
	// Memory that was not registered in advance can be accessed without a key, or by a key that the
	// message brings.
	if md.Flags&uct.MDFlagNeedRkey == 0 || keyed {
		if a.Flags.Has(uct.IfacePutZcopy) {
			p.PutZcopy = a.Put.MaxZcopy
		}
		if a.Flags.Has(uct.IfaceGetZcopy) {
			p.GetZcopy = a.Get.MaxZcopy
		}
	}
	if md.Flags&uct.MDFlagNeedMemh != 0 {
		p.RegCost = md.RegCost
	}
	return p
}

// Tuning constants of the cost model. The choice of protocols is local: every combination is
// legal on the wire, so measurements may change these constants freely.
const (
	// defaultCopyBandwidth is what C assumes for UCX_BCOPY_BW=auto
	// (UCP_CPU_EST_BCOPY_BW_DEFAULT): large copies by a busy process, not the
	// speed of a warm cache.
	defaultCopyBandwidth = 7000 << 20

	// maxOverhead bounds the CPU time of a message. tcp publishes 50 us, which ranks it
	// behind every other transport; a message actually costs 1 to 3 us. With 50 us, the 6
	// messages of a rendezvous would move its threshold on tcp from 140 KiB to 2 MiB. Tune
	// this constant when a measured best threshold differs.
	maxOverhead = 2e-6

	// requestCost is the time for a request, a packing callback and a completion, which the
	// short protocol does not need.
	requestCost = 50e-9

	// zcopySetup is the additional time for gathering user memory in place, compared with a
	// copied message. It puts the threshold at 2 KiB, like UCX_TCP_SENDV_THRESH in C.
	zcopySetup = 230e-9

	// rndvControl is the time for processing an RTS and an RTR, in addition to their
	// messages (UCX_PROTO_OVERHEAD: rndv_rts 275 ns, rndv_rtr 40 ns).
	rndvControl = 315e-9

	// unexpectedShare is the share of eager messages that arrive before their receive is
	// posted and are copied once more.
	unexpectedShare = 0.5

	// rndvAMMin is the shortest message for a rendezvous with data in active messages. It
	// copies as much as eager messages do, and takes one more round trip; it only saves
	// memory at a receiver that posts its receive late.
	rndvAMMin = 256 << 10

	// rndvPtrMin is the shortest message for a rendezvous whose receiver maps the sender's memory.
	rndvPtrMin = 4 << 10

	// batchShare is the part of a send's overhead that each copied message takes if many
	// are sent together.
	batchShare = 1.0 / 8
)

// sane returns the costs of the lane, with the values that the transport or the peer reports
// limited to ranges that are safe to compute with. copyBandwidth is in bytes per second; 0 means
// the default.
func (p LanePerf) sane(copyBandwidth float64) laneCost {
	pos := func(v, limit float64) float64 {
		if !(v > 0) { // NaN too
			return 0
		}
		return math.Min(v, limit)
	}
	seg := func(n int) int {
		if p.SegSize > 0 {
			n = min(n, p.SegSize)
		}
		return max(n, 0)
	}
	if !(copyBandwidth > 0) {
		copyBandwidth = defaultCopyBandwidth
	}
	copyBandwidth = math.Max(copyBandwidth, 1)
	bandwidth := p.Bandwidth
	if !(bandwidth >= 1) {
		bandwidth = 1
	}
	return laneCost{
		short: seg(p.MaxShort),
		bcopy: seg(p.MaxBcopy),
		zcopy: seg(p.MaxZcopy),
		put:   max(p.PutZcopy, 0),
		send:  pos(p.SendOverhead, maxOverhead),
		recv:  pos(p.RecvOverhead, maxOverhead),
		extra: pos(p.CopyOverhead, maxOverhead),
		lat:   pos(p.Latency, 1),
		wire:  1 / bandwidth,
		copy:  1 / copyBandwidth,
		reg:   uct.Linear{C: pos(p.RegCost.C, 1), M: pos(p.RegCost.M, 1)},
		batch: p.Batches,
	}
}

// laneCost is a LanePerf after sane: no size is negative, and all times are finite and not
// negative.
type laneCost struct {
	short, bcopy, zcopy, put int

	send, recv, lat float64 // seconds per message
	extra           float64 // additional seconds for a copied message
	wire, copy      float64 // seconds per byte
	reg             uct.Linear
	batch           bool
}

// join adds to l the cost of lane o, over which a part of the same message is sent in parallel.
func (l *laneCost) join(o *laneCost) {
	l.wire = 1 / (1/l.wire + 1/o.wire)
	l.lat = math.Max(l.lat, o.lat)
	l.send += o.send
	l.recv += o.recv
	l.reg.C += o.reg.C
	l.reg.M += o.reg.M
}

// message returns the time of one message without payload, in seconds.
func (l *laneCost) message() float64 { return l.send + l.recv + l.lat }

// copyOut returns the time that the receiver of an eager message takes to copy it, in seconds per
// byte.
func (l *laneCost) copyOut() float64 { return l.copy * (1 + unexpectedShare) }

// fragments adds to the cost c the overhead of a separate message for each frag bytes. The
// parameter each is an additional overhead per message, in seconds. Sender and receiver work in
// parallel, so only the larger of their overheads counts.
func (l *laneCost) fragments(c uct.Linear, frag int, each float64) uct.Linear {
	c.M += (math.Max(l.send, l.recv) + each) / float64(frag)
	return c
}

// copied returns the cost of an eager message that is copied into the transport's buffer.
func (l *laneCost) copied(mode SendMode) uct.Linear {
	c := uct.Linear{C: l.message() + l.extra, M: l.copy + l.wire + l.copyOut()}
	if mode&SendMulti != 0 && l.batch {
		c.C -= l.send * (1 - batchShare)
	}
	return c
}

// copiedLate returns the cost of a copied eager message whose send needs a request.
func (l *laneCost) copiedLate(mode SendMode) uct.Linear {
	c := l.copied(mode)
	c.C += requestCost
	return c
}

// gathered returns the cost of an eager message that is sent from user memory without a copy.
func (l *laneCost) gathered() uct.Linear {
	return uct.Linear{C: l.message() + requestCost + zcopySetup + l.reg.C, M: l.wire + l.copyOut() + l.reg.M}
}

// handshake returns the time of an RTS and an RTR, in seconds.
func (l *laneCost) handshake() float64 { return 2*l.message() + rndvControl }

// dataCopied returns the cost of rendezvous data that is sent in messages of frag bytes, copied
// into the transport's buffers. The receive is posted, so the receiver copies only once.
func (l *laneCost) dataCopied(frag int) uct.Linear {
	return l.fragments(uct.Linear{C: l.message() + l.extra + requestCost, M: 2*l.copy + l.wire}, frag, l.extra)
}

// dataGathered returns the cost of rendezvous data that is sent in messages of frag bytes from user
// memory.
func (l *laneCost) dataGathered(frag int) uct.Linear {
	c := uct.Linear{C: l.message() + requestCost + zcopySetup + l.reg.C, M: l.copy + l.wire + l.reg.M}
	return l.fragments(c, frag, zcopySetup)
}

// written returns the cost of a zero-copy write into the receiver's memory and of the message
// that announces its completion.
func (l *laneCost) written() uct.Linear {
	return uct.Linear{C: l.message() + requestCost + zcopySetup + l.reg.C + l.send + l.recv, M: l.wire + l.reg.M}
}

// attached returns the cost of a rendezvous receiver that maps the sender's memory, copies from it
// and sends the message that announces completion. ptr is the cost of the interface that maps. The
// mapping itself costs nothing, because it is made once and kept.
func (l *laneCost) attached(ptr *laneCost) uct.Linear {
	return uct.Linear{C: l.message() + requestCost + ptr.recv, M: ptr.wire}
}

// read returns the cost of a zero-copy read of the peer's memory.
func (l *laneCost) read() uct.Linear {
	return uct.Linear{C: l.message() + requestCost + zcopySetup + l.reg.C, M: l.wire + l.reg.M}
}

// EstimateMessage returns the time that a message of n bytes of contiguous memory takes
// with the protocol for its length: overheads, latency, and the bytes. The estimate never
// decreases with n: if long messages use a protocol that makes them cheaper than shorter
// messages, which must not use it, the time of the shorter messages counts.
func EstimateMessage(in *ProtoInput, form MessageForm, n int) (t Seconds) {
	m := newModel(in)
	c := m.messageChoice(&form, DataContig, 0)
	c.ranges(func(lo, hi int) {
		if lo > n {
			return
		}
		if best, _ := c.best(lo, hi); best >= 0 {
			t = max(t, sizedTime(c.options[best].cost, min(n, hi)))
		}
	})
	return t
}
