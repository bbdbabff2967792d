package ucp

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Rkey gives the operations of the endpoint that unpacked it access to memory of the peer.
// It must stay open while operations use it, and be closed before its worker; Worker.Close
// closes the remaining keys, which then give no access. It belongs to the endpoint's
// goroutine.
//
// A lane that can access the memory without the peer's help does so. All other operations
// are sent as messages, which the peer's worker carries out when it is progressed. As in C,
// these messages do not name a key, and neither does tcp: the peer checks that some key
// opens the memory to its peers for this kind of access. Direct accesses stay within the
// memory that the key opens.
type Rkey struct {
	_ noCopy

	ep    *Endpoint
	key   proto.Rkey
	lanes []rkeyLane

	// The lane for each kind of operation, nil if no lane is capable of it.
	putShort, putBcopy, putZcopy *rkeyLane
	getBcopy, getZcopy           *rkeyLane
	amo32, amo64                 *rkeyLane

	tables   *proto.RMATables // choose the protocol by size; nil until there are lanes
	shortPut int              // largest put that is one short call, -1 for none
	shortGet int              // largest get that is one copying call, -1 for none

	closed bool
	member list.Member[Rkey] // in rmaState.keys, while the key is open
}

// rkeyLane is a lane that accesses the memory of a key directly.
type rkeyLane struct {
	lane    uint8
	mdIndex uint8 // index of md in the context
	md      uct.MemoryDomain
	attr    *uct.IfaceAttr
	key     *uct.Rkey // nil if the domain needs no key
	name    string
}

// UnpackRkey reads the packed key of a peer's memory (ucp_ep_rkey_unpack). The bytes are
// untrusted and not kept. Keys of domains that no lane leads to are skipped; a malformed
// key gives ucs.ErrInvalidParam. It needs FeatureRMA, FeatureAMO32 or FeatureAMO64.
func (ep *Endpoint) UnpackRkey(packed []byte) (*Rkey, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.UnpackRkey", ep == nil)
	}
	ep.w.owner.acquire()
	k, err := ep.w.rma.unpackRkey(ep, packed)
	ep.w.owner.release()
	return k, err
}

func (rm *rmaState) unpackRkey(ep *Endpoint, packed []byte) (*Rkey, error) {
	if ep.w.ctx.params.Features&(FeatureRMA|FeatureAMO32|FeatureAMO64) == 0 {
		return nil, fmt.Errorf("ucp: UnpackRkey needs FeatureRMA, FeatureAMO32 or FeatureAMO64: %w", ucs.ErrInvalidParam)
	}
	if err := ep.usable(); err != nil {
		return nil, err
	}
	_, n, err := proto.ParseRkey(packed)
	if err != nil {
		return nil, err
	}
	own := bytes.Clone(packed[:n])
	k := &Rkey{ep: ep, shortPut: -1, shortGet: -1}
	// packed may be in memory that a peer can change, so the copy is parsed again.
	if k.key, _, err = proto.ParseRkey(own); err != nil {
		return nil, err
	}
	if t, ok := ucs.MemoryTypeFromWire(k.key.MemType); !ok || t != ucs.MemoryHost {
		return nil, fmt.Errorf("ucp: remote key of unsupported memory type %d: %w", k.key.MemType, ucs.ErrUnsupported)
	}
	k.member.Value = k
	ep.w.rma.keys.Add(&k.member)
	if ep.needs&needLanes != 0 {
		return k, nil // resolveKeys does the rest when there are lanes
	}
	if err := k.resolve(); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

// resolve finds the lanes that can access the memory directly, and chooses one for each kind of
// operation.
func (k *Rkey) resolve() error {
	for i := range k.ep.lanes {
		if err := k.addLane(uint8(i)); err != nil {
			return err
		}
	}
	k.choose()
	for _, w := range []*rkeyLane{k.putShort, k.putBcopy, k.putZcopy, k.getBcopy, k.getZcopy, k.amo32, k.amo64} {
		if w != nil && w.key != nil && w.md.Attr().Flags&uct.MDFlagNeedRkey != 0 {
			k.ep.flow().bypassed = true
		}
	}
	return nil
}

// resolveKeys resolves the keys that were unpacked before the endpoint had lanes. A key that a lane
// refuses as malformed is closed, and operations that need it fail.
func (rm *rmaState) resolveKeys(ep *Endpoint) {
	for m := ep.w.rma.keys.First(); m != nil; {
		k, next := m.Value, m.Next()
		if k.ep == ep && k.tables == nil {
			if err := k.resolve(); err != nil {
				ep.w.ctx.log.Debug("invalid remote key, which was unpacked before its endpoint was connected", zap.String("endpoint", ep.describe()), zap.Error(err))
				k.close()
			}
		}
		m = next
	}
}

// closeKeys closes the keys that are still open.
func (w *Worker) closeKeys() error {
	var first error
	for !w.rma.keys.Empty() {
		if err := w.rma.keys.First().Value.close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// rkeyLaneOf returns the rkeyLane for a lane, without a key.
func (rm *rmaState) rkeyLaneOf(ep *Endpoint, lane uint8) rkeyLane {
	i := ep.lanes[lane].iface
	return rkeyLane{lane: lane, mdIndex: uint8(i.md), md: ep.w.mds[i.md], attr: i.attr, name: i.attr.Resource.String()}
}

// addLane adds a lane to the key's ways, if the lane can access the memory directly. It returns an
// error if the key is malformed.
func (k *Rkey) addLane(lane uint8) error {
	way := k.ep.w.rma.rkeyLaneOf(k.ep, lane)
	md := way.md
	blob, has := k.key.Key(k.ep.cfg.chosen.Lanes[lane].DstMD)
	if md.Attr().Flags&uct.MDFlagNeedRkey != 0 {
		if !has {
			return nil
		}
		key, err := k.ep.w.rndv.unpackKey(k.ep, md, blob)
		switch {
		case errors.Is(err, ucs.ErrInvalidParam):
			return fmt.Errorf("ucp: remote key for %s: %w", way.name, err)
		case err != nil:
			k.ep.w.ctx.log.Debug("a memory domain cannot access memory of the peer", zap.String("lane", way.name), zap.Error(err))
			return nil
		}
		way.key = key
	}
	k.lanes = append(k.lanes, way)
	return nil
}

// choose selects the lane for each kind of operation.
func (k *Rkey) choose() {
	k.tables = k.ep.w.rma.rmaTables(k.ep, k)
	way := func(i int) *rkeyLane {
		if i < 0 {
			return nil
		}
		return &k.lanes[i]
	}
	r := k.tables.Routes()
	k.putShort, k.putBcopy, k.putZcopy = way(r.PutShort), way(r.PutBcopy), way(r.PutZcopy)
	k.getBcopy, k.getZcopy = way(r.GetBcopy), way(r.GetZcopy)
	k.amo32, k.amo64 = way(r.Atomic32), way(r.Atomic64)
	k.shortPut, k.shortGet = -1, -1
	if k.ep.w.ctx.params.Features&FeatureRMA == 0 || k.ep.w.usage != nil {
		return // with UCX_PROTO_INFO=used every operation is counted
	}
	if k.putShort != nil {
		k.shortPut = min(k.tables.Put(proto.DataContig).MaxFirst(proto.ProtoPutShort), datatype.Piece)
	}
	if k.getBcopy != nil {
		k.shortGet = min(k.tables.Get(proto.DataContig).MaxFirst(proto.ProtoGetBcopy), datatype.Piece, k.getBcopy.attr.Get.MaxBcopy)
	}
}

// allAtomics reports whether a lane has every atomic operation: UCP uses either all of a lane or
// none.
func allAtomics(o uct.AtomicOps) bool {
	const post, fetch = 1<<uct.AtomicSwap - 1, 1<<(uct.AtomicCSwap+1) - 1
	return o.Post&post == post && o.Fetch&fetch == fetch
}

// Close releases the key. All operations that use it must be done; for atomic operations
// without a result, which are done in the call, that takes a flush. A second Close, or one
// after that of the worker, does nothing.
func (k *Rkey) Close() error {
	if k.missing() {
		return errMissing("Rkey.Close", k == nil)
	}
	k.ep.w.owner.acquire()
	err := k.close()
	k.ep.w.owner.release()
	return err
}

func (k *Rkey) close() error {
	if k.closed {
		return nil
	}
	var first error
	for i := range k.lanes {
		if w := &k.lanes[i]; w.key != nil {
			if err := w.md.ReleaseRkey(w.key); err != nil && first == nil {
				first = err
			}
		}
	}
	k.member.Remove()
	// k.key and k.ep stay: Compare reads the key without acquiring the worker.
	k.lanes, k.tables = nil, nil
	k.putShort, k.putBcopy, k.putZcopy, k.getBcopy, k.getZcopy, k.amo32, k.amo64 = nil, nil, nil, nil, nil, nil, nil
	k.shortPut, k.shortGet, k.closed = -1, -1, true
	return first
}

// Compare orders keys by their contents: the result is negative, zero or positive, and the
// order is total. Keys of one endpoint that compare equal open the same memory.
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

// Ptr returns n bytes at an address of the peer as memory of this process, valid until the
// key or its worker is closed. It needs a shared-memory lane: without one the error is
// ucs.ErrUnreachable, and for an address outside the key's memory ucs.ErrInvalidAddr.
func (k *Rkey) Ptr(raddr uint64, n int) ([]byte, error) {
	if k.missing() {
		return nil, errMissing("Rkey.Ptr", k == nil)
	}
	k.ep.w.owner.acquireRead()
	defer k.ep.w.owner.releaseRead()
	if k.closed || n < 0 {
		return nil, fmt.Errorf("ucp: Rkey.Ptr of %d bytes, key closed: %v: %w", n, k.closed, ucs.ErrInvalidParam)
	}
	for i := range k.lanes {
		w := &k.lanes[i]
		if w.key == nil {
			continue
		}
		b, err := w.md.RkeyPtr(w.key, raddr, n)
		if err == nil || !errors.Is(err, ucs.ErrUnsupported) {
			return b, err
		}
	}
	return nil, k.ep.w.ends.withEndpointName(k.ep, fmt.Errorf("no lane maps the peer's memory: %w", ucs.ErrUnreachable))
}

// String describes which lane each kind of operation uses, by size.
func (k *Rkey) String() string {
	k.ep.w.owner.acquireRead()
	defer k.ep.w.owner.releaseRead()
	switch {
	case k.closed:
		return "closed"
	case k.tables == nil:
		return "not connected yet"
	}
	var b strings.Builder
	for i, t := range k.tables.Explain(proto.DataContig) {
		b.WriteString([...]string{"put", "; get", "; atomic32", "; atomic64"}[i])
		last := ""
		for n, r := range t.Ranges {
			way := r.Config
			switch r.Proto {
			case proto.ProtoPutAM, proto.ProtoGetAM, proto.ProtoAtomicAM:
				way = "messages"
			case proto.ProtoPutZcopy, proto.ProtoGetZcopy:
				way += " zcopy"
			}
			switch {
			case n == 0:
				b.WriteString(" " + way)
			case way != last:
				fmt.Fprintf(&b, ", from %d %s", r.Min, way)
			}
			last = way
		}
	}
	return b.String()
}
