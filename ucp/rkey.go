package ucp

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// Rkey opens memory of the peer for the operations of the endpoint that unpacked
// it, and of no other. It must stay open while operations use it, and be closed
// before its worker: Worker.Close closes the keys that are left, after that they
// open nothing. It belongs to the endpoint's goroutine.
//
// What a lane can reach without the peer's help it does; everything else goes by
// messages, which the peer's worker carries out when it is progressed.
type Rkey struct {
	ep   *Endpoint
	key  proto.Rkey
	ways []rkeyWay

	// The ways for each kind of operation, nil for messages. Puts and gets of at
	// least putFrom and getFrom bytes go without copying.
	putCopy, putZcopy *rkeyWay
	getCopy, getZcopy *rkeyWay
	amo32, amo64      *rkeyWay
	putFrom, getFrom  int
	shortPut          int // largest put that is one short call, 0 for none
	shortGet          int // largest get that is one copying call

	closed     bool
	prev, next *Rkey // in Worker.keys, while it is open
}

// rkeyWay is a lane that reaches the memory directly.
type rkeyWay struct {
	lane    uint8
	mdIndex uint8 // of md in the context
	md      uct.MemoryDomain
	attr    *uct.IfaceAttr
	key     *uct.Rkey // nil where none is needed
	name    string

	// Most bytes of a call, 0 where the lane has none of its kind.
	putShort, putBcopy, getBcopy int
}

// putMost is the longest put that copies.
func (w *rkeyWay) putMost() int { return max(w.putShort, w.putBcopy) }

// never is a size that nothing reaches.
const never = math.MaxInt

// UnpackRkey reads the packed key of a peer's memory (ucp_ep_rkey_unpack). The
// bytes are untrusted and not kept. Keys of domains that no lane leads to are
// skipped; a key that makes no sense gives ucs.ErrInvalidParam. It takes
// FeatureRMA, FeatureAMO32 or FeatureAMO64.
func (ep *Endpoint) UnpackRkey(packed []byte) (*Rkey, error) {
	if ep.w.ctx.params.Features&(FeatureRMA|FeatureAMO32|FeatureAMO64) == 0 {
		return nil, fmt.Errorf("ucp: remote key in a context without one-sided operations: %w", ucs.ErrInvalidParam)
	}
	if err := ep.usable(); err != nil {
		return nil, err
	}
	_, n, err := proto.ParseRkey(packed)
	if err != nil {
		return nil, err
	}
	own := bytes.Clone(packed[:n])
	k := &Rkey{ep: ep}
	// It may be a message in memory that a peer has changed meanwhile.
	if k.key, _, err = proto.ParseRkey(own); err != nil {
		return nil, err
	}
	if t, ok := ucs.MemoryTypeFromWire(k.key.MemType); !ok || t != ucs.MemoryHost {
		return nil, fmt.Errorf("ucp: remote key of memory of type %d: %w", k.key.MemType, ucs.ErrUnsupported)
	}
	for i := range ep.lanes {
		if err := k.addWay(uint8(i)); err != nil {
			k.Close()
			return nil, err
		}
	}
	k.choose()
	k.enlist()
	return k, nil
}

// enlist notes an open key with its worker, delist that it is closed.
func (k *Rkey) enlist() {
	w := k.ep.w
	if k.next = w.keys; k.next != nil {
		k.next.prev = k
	}
	w.keys = k
}

func (k *Rkey) delist() {
	w := k.ep.w
	if k.next != nil {
		k.next.prev = k.prev
	}
	if k.prev != nil {
		k.prev.next = k.next
	} else if w.keys == k {
		w.keys = k.next
	}
}

// closeKeys closes the keys that are still open.
func (w *Worker) closeKeys() error {
	var first error
	for w.keys != nil {
		if err := w.keys.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// addWay notes a lane if it opens the memory.
func (k *Rkey) addWay(lane uint8) error {
	l := &k.ep.lanes[lane]
	md := k.ep.w.mds[l.iface.md]
	way := rkeyWay{lane: lane, mdIndex: uint8(l.iface.md), md: md, attr: l.iface.attr, name: l.iface.attr.Resource.String()}
	blob, has := k.key.Key(l.peerMD)
	if md.Attr().Flags&uct.MDFlagNeedRkey != 0 {
		if !has {
			return nil
		}
		key, err := md.UnpackRkey(blob)
		switch {
		case errors.Is(err, ucs.ErrInvalidParam):
			return fmt.Errorf("ucp: remote key for %s: %w", way.name, err)
		case err != nil:
			log.Debug("memory of the peer is out of reach", zap.String("lane", way.name), zap.Error(err))
			return nil
		}
		way.key = key
	}
	if way.attr.Flags.Has(uct.IfacePutShort) {
		way.putShort = way.attr.Put.MaxShort
	}
	if way.attr.Flags.Has(uct.IfacePutBcopy) {
		way.putBcopy = way.attr.Put.MaxBcopy
	}
	if way.attr.Flags.Has(uct.IfaceGetBcopy) {
		way.getBcopy = way.attr.Get.MaxBcopy
	}
	k.ways = append(k.ways, way)
	return nil
}

// choose decides which way each kind of operation takes.
func (k *Rkey) choose() {
	features := k.ep.w.ctx.params.Features
	k.putFrom, k.getFrom = never, never
	if features&FeatureRMA != 0 {
		k.choosePut()
		k.chooseGet()
	}
	k.amo32 = k.best(func(w *rkeyWay) bool { return features&FeatureAMO32 != 0 && allAtomics(w.attr.Atomic32) })
	k.amo64 = k.best(func(w *rkeyWay) bool { return features&FeatureAMO64 != 0 && allAtomics(w.attr.Atomic64) })
}

func (k *Rkey) choosePut() {
	k.putCopy = k.best(func(w *rkeyWay) bool { return w.putMost() > 0 })
	k.putZcopy = k.best(func(w *rkeyWay) bool { return w.zcopy(uct.IfacePutZcopy) })
	if k.putCopy != nil {
		k.shortPut = min(k.putCopy.putShort, copyPiece)
	}
	z := k.putZcopy
	if z == nil {
		return
	}
	switch {
	case k.putCopy != nil:
		k.putFrom = copyLimit(k.putCopy.putMost())
	case z.lane == amLane:
		// A put in one message is answered as fast as a write would be, and done
		// in the call.
		k.putFrom = k.ep.cfg.maxBcopy - proto.PutSize + 1
	default:
		k.putFrom = 1
	}
	k.putFrom = max(k.zcopyFrom(k.putFrom), z.attr.Put.MinZcopy)
	k.shortPut = min(k.shortPut, k.putFrom-1)
}

func (k *Rkey) chooseGet() {
	k.getCopy = k.best(func(w *rkeyWay) bool { return w.getBcopy > 0 })
	k.getZcopy = k.best(func(w *rkeyWay) bool { return w.zcopy(uct.IfaceGetZcopy) })
	if k.getCopy != nil {
		k.shortGet = min(k.getCopy.getBcopy, copyPiece)
	}
	if k.getZcopy == nil {
		return
	}
	k.getFrom = 1
	if k.getCopy != nil {
		k.getFrom = copyLimit(k.getCopy.getBcopy)
	}
	k.getFrom = max(k.zcopyFrom(k.getFrom), k.getZcopy.attr.Get.MinZcopy)
	k.shortGet = min(k.shortGet, k.getFrom-1)
}

// copyLimit is the size from which zero-copy is preferred to copies of n bytes.
func copyLimit(n int) int {
	if n == uct.Unlimited {
		return never
	}
	return n + 1
}

// zcopyFrom is the user's threshold, or auto.
func (k *Rkey) zcopyFrom(auto int) int {
	switch t := threshold(k.ep.w.ctx.settings.ZcopyThresh); t {
	case proto.ThreshAuto:
		return auto
	case proto.ThreshInf:
		return never
	default:
		return int(t)
	}
}

// zcopy reports whether a way can do without copies, by itself or with memory
// that is registered for the purpose.
func (w *rkeyWay) zcopy(flag uct.IfaceFlags) bool {
	f := w.md.Attr().Flags
	return w.attr.Flags.Has(flag) && (f&uct.MDFlagNeedMemh == 0 || f&uct.MDFlagRegister != 0)
}

// best returns the way that moves a page soonest among those that fit.
func (k *Rkey) best(fits func(*rkeyWay) bool) *rkeyWay {
	_, ppn := k.ep.w.ctx.estimates()
	var best *rkeyWay
	least := math.Inf(1)
	for i := range k.ways {
		w := &k.ways[i]
		p := &w.attr.Perf
		cost := p.Latency.C + p.SendOverhead
		if bw := p.Bandwidth(ppn); bw > 0 {
			cost += 4096 / bw
		}
		if fits(w) && cost < least {
			best, least = w, cost
		}
	}
	return best
}

// allAtomics reports whether a lane has every operation: UCP uses all or none.
func allAtomics(o uct.AtomicOps) bool {
	const post, fetch = 1<<uct.AtomicSwap - 1, 1<<(uct.AtomicCSwap+1) - 1
	return o.Post&post == post && o.Fetch&fetch == fetch
}

// Close releases the key. All operations that use it must be done. A second
// Close, or one after that of the worker, does nothing.
func (k *Rkey) Close() error {
	if k.closed {
		return nil
	}
	var first error
	for i := range k.ways {
		if w := &k.ways[i]; w.key != nil {
			if err := w.md.ReleaseRkey(w.key); err != nil && first == nil {
				first = err
			}
		}
	}
	k.delist()
	*k = Rkey{ep: k.ep, key: k.key, closed: true}
	return first
}

// Compare orders keys: negative, zero or positive. It is a total order of what
// the keys contain; keys of one endpoint that compare equal open the same
// memory.
func (k *Rkey) Compare(other *Rkey) int {
	if c := cmp.Compare(k.key.MDMap, other.key.MDMap); c != 0 {
		return c
	}
	if c := cmp.Compare(k.key.MemType, other.key.MemType); c != 0 {
		return c
	}
	for md, key := range k.key.Keys {
		theirs, _ := other.key.Key(md)
		if c := bytes.Compare(key, theirs); c != 0 {
			return c
		}
	}
	return 0
}

// Ptr returns n bytes at an address of the peer as memory of this process, valid
// until the key or its worker is closed. It takes a lane through shared memory:
// ucs.ErrUnreachable without one, ucs.ErrInvalidAddr for an address outside of
// what the key opens.
func (k *Rkey) Ptr(raddr uint64, n int) ([]byte, error) {
	if k.closed || n < 0 {
		return nil, ucs.ErrInvalidParam
	}
	for i := range k.ways {
		w := &k.ways[i]
		if w.key == nil {
			continue
		}
		b, err := w.md.RkeyPtr(w.key, raddr, n)
		if err == nil || !errors.Is(err, ucs.ErrUnsupported) {
			return b, err
		}
	}
	return nil, fmt.Errorf("ucp: no lane of endpoint %s maps the peer's memory: %w", k.ep.describe(), ucs.ErrUnreachable)
}

// String says which way each kind of operation takes.
func (k *Rkey) String() string {
	if k.closed {
		return "closed"
	}
	name := func(w *rkeyWay) string {
		if w == nil {
			return "messages"
		}
		return w.name
	}
	ranges := func(what string, copied, zcopy *rkeyWay, from int) string {
		switch {
		case zcopy == nil || from == never:
			return what + " " + name(copied)
		case from <= 1:
			return what + " " + zcopy.name + " zcopy"
		}
		return fmt.Sprintf("%s %s, from %d %s zcopy", what, name(copied), from, zcopy.name)
	}
	return strings.Join([]string{
		ranges("put", k.putCopy, k.putZcopy, k.putFrom),
		ranges("get", k.getCopy, k.getZcopy, k.getFrom),
		"atomic32 " + name(k.amo32),
		"atomic64 " + name(k.amo64),
	}, "; ")
}
