package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/uct"
)

// This file contains the protocols that access the peer's memory directly, over the lanes that the
// key has for them.

// direct is embedded in the protocols that access the peer's memory directly.
type direct struct{ basics }

// release ends the counting of an operation in pieces (pieceFlow).
func (direct) release(r *Request) { r.unsplit() }

// putShort writes one piece after the other, each in one short call of the transport.
type putShort struct{ direct }

func (putShort) about() protocolInfo {
	return protocolInfo{name: "put short", kind: kindAccess, needs: needFence}
}

func (putShort) progress(r *Request) error {
	most := r.access.route.attr.Put.MaxShort
	return r.w.rma.inPieces(r, func(n int) error { return r.w.rma.putShortPiece(r, min(n, most)) })
}

// putCopy writes one piece after the other, each copied into the transport's buffer.
type putCopy struct{ direct }

func (putCopy) about() protocolInfo {
	return protocolInfo{name: "put copy-in", kind: kindAccess, needs: needFence}
}

func (putCopy) progress(r *Request) error { return r.w.rma.inPieces(r, r.putCopyPiece) }

// pack copies the piece at the request's offset.
func (putCopy) pack(r *Request, dst []byte) int {
	return packData(r, dst[:min(len(dst), r.frag)], r.offset)
}

// putShortPiece writes the next n bytes in one call.
func (rm *rmaState) putShortPiece(r *Request, n int) error {
	a := r.access
	err := r.ep.remote(r.lane).PutShort(r.data.Buf[r.offset:r.offset+n], a.addr+uint64(r.offset), a.route.key)
	if err == nil {
		r.offset += n
	}
	return err
}

// putCopyPiece writes up to n of the next bytes in one call.
func (r *Request) putCopyPiece(n int) error {
	a := r.access
	r.frag = min(n, a.route.attr.Put.MaxBcopy)
	packed, err := r.ep.remote(r.lane).PutBcopy(r.hooks(), r.frag, a.addr+uint64(r.offset), a.route.key)
	if err != nil {
		return err
	}
	if packed < r.frag {
		return r.packedNothing(r.offset + packed)
	}
	r.offset += r.frag
	return nil
}

// putZcopy hands the application's memory to the transport.
type putZcopy struct{ direct }

func (putZcopy) about() protocolInfo {
	return protocolInfo{name: "put zero-copy", kind: kindAccess, needs: needFence}
}

func (putZcopy) progress(r *Request) error {
	a := r.access
	r.splitRails(a.shares.Lanes())
	for ; int(r.step) < a.shares.Lanes(); r.step++ {
		end := r.w.rma.takeRail(r)
		ue, l := r.ep.remote(r.lane), &a.route.attr.Put
		for r.offset < end {
			n := r.w.rma.gatherFor(r, l, end)
			r.comp.Count++
			err := ue.PutZcopy(r.iov[:n], a.addr+uint64(r.offset), a.route.key, &r.comp)
			if err := r.fragmentSent(err); err != nil {
				return err
			}
		}
	}
	r.unsplit()
	r.comp.Done(nil)
	return nil
}

// onRails spreads the request over the lanes of the key by shares. It returns false, and changes
// nothing, if the request cannot have the memory handles that these lanes want.
func (rm *rmaState) onRails(r *Request, shares *proto.LaneShares, access uct.Access) bool {
	ways := r.access.key.lanes
	for step := range shares.Lanes() {
		i, from, to := shares.Part(step, r.data.Length)
		if from < to && !r.w.rights.handles(r, ways[i].md, int(ways[i].mdIndex), access) {
			return false
		}
	}
	r.access.lanes, r.access.shares, r.step = ways, shares, 0
	return true
}

// takeRail selects the lane of the current step and returns the offset at which its part ends.
func (rm *rmaState) takeRail(r *Request) (end int) {
	a := r.access
	i, _, end := a.shares.Part(int(r.step), r.data.Length)
	a.route, r.lane = &a.lanes[i], a.lanes[i].lane
	return end
}

// gatherFor lists the memory of the next zero-copy call of a direct operation, from the request's
// offset up to end and within the limits l. It returns the number of entries in r.iov.
func (rm *rmaState) gatherFor(r *Request, l *uct.RMALimits, end int) int {
	list := r.w.rights.iovec(r)
	var n int
	n, r.frag = r.data.Gather(list[:min(max(l.MaxIOV, 1), len(list))], r.offset, min(end-r.offset, l.MaxZcopy))
	if r.mem != nil && len(r.mem.handles) > 0 {
		r.mem.addTo(r.iov[:n], r.access.route.md)
	}
	return n
}

// getCopy reads one piece after the other. Pieces arrive in order. At most datatype.Piece bytes are
// copied in one round of progress; the rest is copied in later rounds.
type getCopy struct{ direct }

func (getCopy) about() protocolInfo {
	return protocolInfo{name: "get copy-out", kind: kindAccess, needs: needFence}
}

func (getCopy) progress(r *Request) error {
	ue, a := r.ep.remote(r.lane), r.access
	for copied := 0; r.offset < r.data.Length; {
		if copied >= datatype.Piece {
			r.requeue()
			return nil
		}
		r.frag = min(r.data.Length-r.offset, a.route.attr.Get.MaxBcopy, datatype.Piece-copied)
		r.comp.Count++
		err := ue.GetBcopy(r.hooks(), r.frag, a.addr+uint64(r.offset), a.route.key, &r.comp)
		if err == nil {
			copied += r.frag
		}
		if err := r.fragmentSent(err); err != nil {
			return err
		}
	}
	r.comp.Done(nil)
	return nil
}

func (getCopy) unpack(r *Request, src []byte) {
	a := r.access
	src = src[:min(len(src), r.data.Length-a.arrived)]
	unpackData(r, src, a.arrived) // cannot fail: the datatype is not generic
	a.arrived += len(src)
}

// getZcopy lets the transport read directly into the application's memory.
type getZcopy struct{ direct }

func (getZcopy) about() protocolInfo {
	return protocolInfo{name: "get zero-copy", kind: kindAccess, needs: needFence}
}

func (getZcopy) progress(r *Request) error {
	a := r.access
	r.splitRails(a.shares.Lanes())
	for ; int(r.step) < a.shares.Lanes(); r.step++ {
		end := r.w.rma.takeRail(r)
		ue, l := r.ep.remote(r.lane), &a.route.attr.Get
		for r.offset < end {
			n := r.w.rma.gatherFor(r, l, end)
			r.comp.Count++
			err := ue.GetZcopy(r.iov[:n], a.addr+uint64(r.offset), a.route.key, &r.comp)
			if err := r.fragmentSent(err); err != nil {
				return err
			}
		}
	}
	r.unsplit()
	r.comp.Done(nil)
	return nil
}

// Puts and gets that the CPU copies directly to or from the peer's memory, and puts by messages,
// occupy the CPU for the time of the copy. Long operations are divided into pieces of
// datatype.Piece bytes, one in each round of progress, so that other operations go on meanwhile.
// Several such operations are served in rotation.

// inPieces calls copyUpTo for the bytes that one round of progress may copy, until none is left; a
// call copies at most n bytes. Then it requeues the request, or ends it after the last byte.
func (rm *rmaState) inPieces(r *Request, copyUpTo func(n int) error) error {
	for end := r.offset + datatype.Piece; r.offset < r.data.Length; {
		if r.offset >= end {
			r.requeue()
			return nil
		}
		if err := copyUpTo(min(r.data.Length, end) - r.offset); err != nil {
			return err
		}
	}
	r.finish(nil)
	return nil
}
