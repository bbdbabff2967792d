package ucp

import (
	"bytes"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// A rendezvous whose offer contains a key for memory that this process can map: the data is copied
// directly from the sender's memory to its destination, and the sender is told with an ATS
// (src/ucp/rndv/rndv_rkey_ptr.c).
//
//	RTS ──► map, once for all messages from that memory
//	        copy a piece … progress … copy a piece
//	   ◄── ATS
//
// One piece of a long message is copied in a round of progress, so that other messages go on.

// rndvPtr copies the data; rndvTell then sends the ATS.
type rndvPtr struct{ basics }

func (rndvPtr) about() protocolInfo {
	return protocolInfo{name: "rndv copy from mapped memory", kind: kindRead}
}

// stepTurn is the step of a message that is copied from the worker's copying queue, one piece a
// round.
const stepTurn = 1

// progress copies a message of one piece in the call if nothing else is in the copying queue. Other
// messages are queued there, and stay at its head until they are done: messages are received one
// after the other.
func (rndvPtr) progress(r *Request) error {
	w, f := r.w, r.fetch
	if r.step != stepTurn && (w.copying.head != nil || f.size > w.pieceSize) {
		r.step = stepTurn
		w.copying.push(r)
		return nil
	}
	n := min(w.pieceSize, f.size-r.offset)
	a := f.attached
	src, err := w.mds[a.md].RkeyPtr(a.key, f.source+uint64(r.offset), n)
	var failed error // of the receiver's datatype
	if err == nil {
		failed, err = r.w.rndv.unpackMapped(r, src)
	}
	r.offset += n
	switch {
	case failed != nil:
		r.ep.w.rndv.sendATS(r.ep, proto.RequestID(r.peerID), f.size, ucs.OK) // the error is the receiver's own
		r.finish(failed)
	case err == nil && r.offset < f.size:
		w.copying.unpop(r)
	default:
		r.w.rndv.detach(r)
		r.w.rndv.fetched(r, err)
	}
	return nil
}

// release ends the use of the mapping.
func (rndvPtr) release(r *Request) {
	if r.fetch.attached != nil {
		r.w.rndv.detach(r)
	}
}

// unpackMapped unpacks the bytes at src, mapped memory that the peer may remove at any time. failed
// is the error of the receiver's datatype; err is that of a fault in the mapped memory.
func (rv *rndvState) unpackMapped(r *Request, src []byte) (failed, err error) {
	defer fault.End(fault.Begin(), mapped{}, src, &err)
	return r.data.unpackAt(src, r.offset), nil
}

// mapped is the fault handler for mapped memory that a sender may remove.
type mapped struct{}

// Fault implements fault.Owner.
func (mapped) Fault(addr uint64, mem []byte) error {
	if !fault.Within(addr, mem) {
		return nil
	}
	return statuserr.Errorf(ucs.ErrConnectionReset, "ucp: the sender has removed its memory: fault at %#x", addr)
}

// unpackKey unpacks a key that the peer sent. The bytes are untrusted. Where a key could name
// memory of any process, only the peer's process is accepted.
func (rv *rndvState) unpackKey(ep *Endpoint, md uct.MemoryDomain, packed []byte) (*uct.Rkey, error) {
	d, ok := md.(uct.ProcessKeys)
	switch {
	case !ok:
		return md.UnpackRkey(packed)
	case ep.process == 0:
		return nil, fmt.Errorf("ucp: remote key of %s: no lane identifies the process that sent it: %w", md.Attr().Name, ucs.ErrUnreachable)
	}
	return d.UnpackRkeyOf(ep.process, packed)
}

// mappedKey is memory of a peer that is mapped in this process. It stays mapped for later messages
// until the peer reuses its name for other memory, the endpoint is closed, or many others were used
// since.
type mappedKey struct {
	ep      *Endpoint   // the endpoint that used it last
	process uct.Process // the peer's process
	md      uint8
	packed  []byte // the domain's packed key
	key     *uct.Rkey
	use     int  // number of requests that copy from it
	gone    bool // to be unmapped when use is 0
}

const (
	// minMappedKeys and maxMappedKeys bound the mapped keys that a worker keeps while they are
	// unused. Between these bounds it keeps two for each endpoint. Mapping memory anew for each
	// message would take longer than the message itself.
	minMappedKeys = 64
	maxMappedKeys = 1024

	// maxLooks is how many unused mapped keys are checked for each new one, whether the peer has
	// freed the memory.
	maxLooks = 4
)

// mapKey maps the n bytes at addr of the peer if one of the domains in packed, a packed key, opens
// them all, and counts a use. The bytes of packed are untrusted: an invalid key maps nothing, and
// the message takes another protocol. The result is then nil.
func (rv *rndvState) mapKey(ep *Endpoint, packed []byte, addr uint64, n int) *mappedKey {
	w := rv.w
	k, _, err := proto.ParseRkey(packed)
	if err != nil {
		return nil
	}
	if t, ok := ucs.MemoryTypeFromWire(k.MemType); !ok || t != ucs.MemoryHost {
		return nil
	}
	for i := range ep.cfg.maps {
		m := &ep.cfg.maps[i]
		key, ok := k.Key(m.peerMD)
		if !ok {
			continue
		}
		a, err := rv.mapOfferedKey(ep, m.md, key)
		if err == nil {
			_, err = w.mds[a.md].RkeyPtr(a.key, addr, n)
		}
		if err == nil {
			a.use++
			return a
		}
		rv.mapKeyFailed(m, err)
	}
	return nil
}

//go:noinline
func (rv *rndvState) mapKeyFailed(m *mapping, err error) {
	w := rv.w
	w.ctx.log.Debug("memory of the peer is not mapped", zap.String("worker", w.name),
		zap.String("domain", m.iface.attr.Resource.String()), zap.Error(err))
}

// mapOfferedKey returns the mapped key for a packed key of the domain md, and moves it to the head
// of the list. It maps the memory unless that is mapped already.
func (rv *rndvState) mapOfferedKey(ep *Endpoint, md uint8, packed []byte) (*mappedKey, error) {
	w := rv.w
	for i, a := range rv.attached {
		if a.md != md || a.process != ep.process || !bytes.Equal(a.packed, packed) {
			continue
		}
		if c, ok := w.mds[md].(uct.RkeyChecker); !ok || !c.RkeyCurrent(a.key) {
			rv.forgetMappedKey(i)
			break
		}
		copy(rv.attached[1:i+1], rv.attached[:i])
		rv.attached[0] = a
		a.ep = ep
		return a, nil
	}
	// The peer may change the message that contains packed. Later keys must be compared with
	// exactly the bytes that were mapped.
	packed = bytes.Clone(packed)
	key, err := rv.unpackKey(ep, w.mds[md], packed)
	if err != nil {
		return nil, err
	}
	rv.trimMappedKeys()
	a := &mappedKey{ep: ep, process: ep.process, md: md, packed: packed, key: key}
	rv.attached = slices.Insert(rv.attached, 0, a)
	return a, nil
}

// maxMappedKeys returns how many mapped keys the worker keeps.
func (rv *rndvState) maxMappedKeys() int {
	w := rv.w
	return min(max(2*w.endpoints.Len(), minMappedKeys), maxMappedKeys)
}

// trimMappedKeys makes room for a new mapped key, starting with the least recently used. It also
// removes those that it checks whose memory the peer has freed.
func (rv *rndvState) trimMappedKeys() {
	w := rv.w
	for i, looks := len(rv.attached)-1, 0; i >= 0; i-- {
		full := len(rv.attached) >= rv.maxMappedKeys()
		if !full && looks == maxLooks {
			return
		}
		a := rv.attached[i]
		if a.use > 0 {
			continue
		}
		looks++
		if c, ok := w.mds[a.md].(uct.RkeyChecker); full || ok && c.RkeyAbandoned(a.key) {
			rv.forgetMappedKey(i)
		}
	}
}

// forgetMappedKey takes a mapped key out of the list, and unmaps it now or after its last use.
func (rv *rndvState) forgetMappedKey(i int) {
	a := rv.attached[i]
	rv.attached = slices.Delete(rv.attached, i, i+1)
	a.gone = true
	rv.unmapKey(a)
}

// forgetMappedKeys forgets the mapped keys that an endpoint used last.
func (rv *rndvState) forgetMappedKeys(ep *Endpoint) {
	for i := len(rv.attached) - 1; i >= 0; i-- {
		if rv.attached[i].ep == ep {
			rv.forgetMappedKey(i)
		}
	}
}

func (rv *rndvState) unmapKey(a *mappedKey) {
	w := rv.w
	if a.gone && a.use == 0 {
		// The key was unpacked here and is released once, so there is no error to expect.
		_ = w.mds[a.md].ReleaseRkey(a.key)
		a.key = nil
	}
}

// detach ends the use of a mapped key by r.
func (rv *rndvState) detach(r *Request) {
	a := r.fetch.attached
	r.fetch.attached = nil
	a.use--
	r.w.rndv.unmapKey(a)
}
