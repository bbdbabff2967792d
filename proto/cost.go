package proto

import (
	"math"

	"github.com/ucx-go/ucx/uct"
)

// LanePerf is a lane as the cost model sees it: its limits and its costs. Sizes are bytes
// of whole messages, headers included, as the transport states them; 0 means that it
// cannot.
type LanePerf struct {
	Name string // "tcp/lo"

	MaxShort int // with the 8-byte header
	MaxBcopy int
	MaxZcopy int
	PutZcopy int // longest zero-copy write, 0 if the lane has none or it needs a key the peer cannot give
	GetZcopy int // longest zero-copy read, under the same conditions

	// SegSize is the longest message that the peer accepts, 0 if not announced.
	SegSize int

	SendOverhead float64    // seconds of CPU to send a message
	RecvOverhead float64    // seconds of CPU to receive one
	CopyOverhead float64    // seconds of CPU that a copied message takes beyond a short one
	Latency      float64    // seconds
	Bandwidth    float64    // bytes per second
	RegCost      uct.Linear // registering user memory for zero-copy; zero if not needed

	// Batches says that the transport collects copied messages and sends many of them
	// together.
	Batches bool
}

// Tuning constants of the cost model. Choices are local: every mix of protocols
// is legal on the wire, so these may be measured and changed at will.
const (
	// defaultCopyBandwidth is what C assumes for UCX_BCOPY_BW=auto
	// (UCP_CPU_EST_BCOPY_BW_DEFAULT): large copies by a busy process, not the
	// speed of a warm cache.
	defaultCopyBandwidth = 7000 << 20

	// maxOverhead bounds the CPU time of a message. tcp publishes 50 us, a number
	// that keeps it behind every other transport; a message really costs it 1 to
	// 3 us. Taken at its word, the 6 messages of a rendezvous would move its
	// threshold on tcp from 140 KiB to 2 MiB. This is the constant to tune when a
	// measured best threshold differs.
	maxOverhead = 2e-6

	// requestCost is a request, a packer and a completion, which the short
	// protocol does without.
	requestCost = 50e-9

	// zcopySetup is what gathering user memory in place costs beyond a copied
	// message. It draws the line at 2 KiB, where C has UCX_TCP_SENDV_THRESH.
	zcopySetup = 230e-9

	// rndvControl is the work on an offer and its answer beyond their messages
	// (UCX_PROTO_OVERHEAD: rndv_rts 275 ns, rndv_rtr 40 ns).
	rndvControl = 315e-9

	// unexpectedShare is the share of eager messages that arrive before their
	// receive and are copied once more.
	unexpectedShare = 0.5

	// rndvAMMin is where a rendezvous may start whose data comes in messages. It
	// copies as much as eager messages do and takes a round trip more; all it
	// spares is memory at a receiver that is late.
	rndvAMMin = 256 << 10

	// rndvPtrMin is where it may start for memory that the peer maps.
	rndvPtrMin = 4 << 10

	// batchShare is the part of a send's overhead that falls on one of many
	// copied messages which are handed over together.
	batchShare = 1.0 / 8
)

// sane makes numbers fit to compute with out of whatever the transport or the
// peer stated.
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

// laneCost is LanePerf made sane: sizes not negative, times finite and not
// negative.
type laneCost struct {
	short, bcopy, zcopy, put int

	send, recv, lat float64 // seconds per message
	extra           float64 // more for a copied one
	wire, copy      float64 // seconds per byte
	reg             uct.Linear
	batch           bool
}

// join makes it the cost of one more lane besides, at the same time.
func (l *laneCost) join(o *laneCost) {
	l.wire = 1 / (1/l.wire + 1/o.wire)
	l.lat = math.Max(l.lat, o.lat)
	l.send += o.send
	l.recv += o.recv
	l.reg.C += o.reg.C
	l.reg.M += o.reg.M
}

// message is the time of one message without payload.
func (l *laneCost) message() float64 { return l.send + l.recv + l.lat }

// copyOut is the seconds per byte that an eager receiver spends.
func (l *laneCost) copyOut() float64 { return l.copy * (1 + unexpectedShare) }

// fragments adds the price of a message per frag bytes to a cost; sender and
// receiver work at the same time.
func (l *laneCost) fragments(c uct.Linear, frag int, each float64) uct.Linear {
	c.M += (math.Max(l.send, l.recv) + each) / float64(frag)
	return c
}

// copied is a message that is copied into the transport's buffer.
func (l *laneCost) copied(mode SendMode) uct.Linear {
	c := uct.Linear{C: l.message() + l.extra, M: l.copy + l.wire + l.copyOut()}
	if mode&SendMulti != 0 && l.batch {
		c.C -= l.send * (1 - batchShare)
	}
	return c
}

// copiedLate is copied by a request.
func (l *laneCost) copiedLate(mode SendMode) uct.Linear {
	c := l.copied(mode)
	c.C += requestCost
	return c
}

// gathered is a message sent from user memory.
func (l *laneCost) gathered() uct.Linear {
	return uct.Linear{C: l.message() + requestCost + zcopySetup + l.reg.C, M: l.wire + l.copyOut() + l.reg.M}
}

// handshake is the time of an offer and its answer.
func (l *laneCost) handshake() float64 { return 2*l.message() + rndvControl }

// dataCopied and dataGathered are rendezvous data in messages: the receiver is
// known to be there, so it copies once.
func (l *laneCost) dataCopied(frag int) uct.Linear {
	return l.fragments(uct.Linear{C: l.message() + l.extra + requestCost, M: 2*l.copy + l.wire}, frag, l.extra)
}

func (l *laneCost) dataGathered(frag int) uct.Linear {
	c := uct.Linear{C: l.message() + requestCost + zcopySetup + l.reg.C, M: l.copy + l.wire + l.reg.M}
	return l.fragments(c, frag, zcopySetup)
}

// written is a zero-copy write into the receiver's memory and the message that
// says it is there.
func (l *laneCost) written() uct.Linear {
	return uct.Linear{C: l.message() + requestCost + zcopySetup + l.reg.C + l.send + l.recv, M: l.wire + l.reg.M}
}

// attached is one copy out of the sender's memory, mapped here, and the message
// that says that it is done. The memory is mapped once and stays so.
func (l *laneCost) attached(ptr *laneCost) uct.Linear {
	return uct.Linear{C: l.message() + requestCost + ptr.recv, M: ptr.wire}
}

// read is a zero-copy read of the sender's memory.
func (l *laneCost) read() uct.Linear {
	return uct.Linear{C: l.message() + requestCost + zcopySetup + l.reg.C, M: l.wire + l.reg.M}
}
