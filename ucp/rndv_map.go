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

// A rendezvous whose offer has a key for memory that can be mapped here: the data
// is copied straight out of the sender's memory, to wherever it goes, and the
// sender told by an ATS (src/ucp/rndv/rndv_rkey_ptr.c).
//
//	RTS ──► map, once for all messages from that memory
//	        copy a piece … progress … copy a piece
//	   ◄── ATS
//
// Of a long message one piece is copied in a round of progress, so that other
// messages go on.

// rndvPtr copies; rndvTell then lets go of the sender.
type rndvPtr struct{ basics }

func (rndvPtr) about() protocolInfo {
	return protocolInfo{name: "rndv copy from mapped memory", kind: kindRead}
}

// stepTurn is the step of a message that is copied a piece a round.
const stepTurn = 1

// progress copies a message of one piece in the call if it is the only one. Longer
// ones stay at the head of those that take turns: messages are received one after
// the other.
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
		r.ep.w.rndv.sendATS(r.ep, proto.RequestID(r.peerID), f.size, ucs.OK) // the sender is not to blame
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

// unpackMapped stores what is at src, memory of the peer, which may take it away
// at any time. failed is the error of a datatype.
func (rv *rndvState) unpackMapped(r *Request, src []byte) (failed, err error) {
	defer fault.End(fault.Begin(), mapped{}, src, &err)
	return r.data.unpackAt(src, r.offset), nil
}

// mapped is the owner of memory that a sender may take away.
type mapped struct{}

// Fault implements fault.Owner.
func (mapped) Fault(addr uint64, mem []byte) error {
	if !fault.Within(addr, mem) {
		return nil
	}
	return statuserr.Errorf(ucs.ErrConnectionReset, "ucp: the sender has removed its memory: fault at %#x", addr)
}

// unpackKey unpacks a key that the peer sent. The bytes are untrusted. Where a key
// could name memory of another process, it must be that of the peer's.
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

// mappedKey is memory of a peer, mapped here. It stays mapped for the next
// message: until the peer gives its name to other memory, the endpoint is
// closed, or many others were used later.
type mappedKey struct {
	ep      *Endpoint   // that used it last
	process uct.Process // the peer's
	md      uint8
	packed  []byte // the domain's key
	key     *uct.Rkey
	use     int  // requests that copy from it
	gone    bool // to be unmapped after them
}

const (
	// minMappedKeys and maxMappedKeys bound those that a worker keeps without using
	// them. In between there are two for each endpoint: to map memory anew for each
	// message takes longer than any message that is offered.
	minMappedKeys = 64
	maxMappedKeys = 1024

	// maxLooks is how many of them are looked at for each new one: has the peer
	// freed the memory?
	maxLooks = 4
)

// mapKey maps the n bytes at addr of the peer if one of the domains in packed, a
// packed key, opens them all. It counts a use. The bytes are untrusted: what
// makes no sense maps nothing, and the message takes another way.
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

// mapOfferedKey returns the mapped key of a key, the latest first.
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
	// The peer may change the message that packed is in: what later keys are
	// compared with must be what was mapped.
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

// maxMappedKeys is how many mapped keys the worker keeps.
func (rv *rndvState) maxMappedKeys() int {
	w := rv.w
	return min(max(2*w.endpoints.Len(), minMappedKeys), maxMappedKeys)
}

// trimMappedKeys makes room for a new mapped key, at the end of those that were
// not used for long.
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

// forgetMappedKey takes a mapped key out of the list, and unmaps it when nobody
// uses it.
func (rv *rndvState) forgetMappedKey(i int) {
	a := rv.attached[i]
	rv.attached = slices.Delete(rv.attached, i, i+1)
	a.gone = true
	rv.unmapKey(a)
}

// forgetMappedKeys forgets those of an endpoint.
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
		// It is a key of ours, released once.
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
