//go:build linux

package verbs

import "github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"

// PostSend posts work requests in order with one doorbell and returns the number posted;
// ibv_post_send. The error is that of the first request that was not posted (ucs.ErrNoResource if
// the queue is full), or that of the doorbell. After a doorbell error the next call that posts a
// request, or that has no requests, rings the doorbell again. PostSend is equivalent to Begin, the
// methods of Post, and Ring.
//
// The caller may reuse wr and what it points to when PostSend returns, except the memory that
// SGList refers to.
func (q *QP) PostSend(wr []SendWR) (int, error) {
	p := q.Begin()
	plain := p.ops.Load() & p.fastOps
	for i := range wr {
		w := &wr[i]
		if plain>>w.Opcode&1 == 0 {
			if p.put(w); p.err != nil {
				return p.Ring()
			}
			continue
		}
		// The request is complete here: nothing is added to it later, and no work for it is
		// left when the next request begins.
		list, length, flags := w.SGList, uint64(0), w.Flags
		most := uint64(provider.MaxLength)
		if flags&SendInline != 0 {
			list, most = nil, uint64(p.maxInline)
			if len(w.Inline) == 1 { // the usual case
				length = uint64(len(w.Inline[0]))
			} else {
				for _, b := range w.Inline {
					length += uint64(len(b))
				}
			}
			if length == 0 {
				flags &^= SendInline
			}
		} else {
			for i := range list {
				length += uint64(list[i].Length)
			}
		}
		if flags&^sendFlags != 0 || len(list) > p.maxSGE || length > most {
			p.refuseData(w, len(list))
			return p.Ring()
		}
		p.wr.ID, p.wr.Opcode, p.wr.Flags, p.wr.Length = w.ID, w.Opcode, flags, uint32(length)
		p.wr.RemoteAddr, p.wr.RKey, p.wr.Imm = w.RemoteAddr, w.RKey, w.Imm
		from, to, ok := p.sq.Begin(&p.wr, list)
		if !ok {
			p.full()
			return p.Ring()
		}
		p.n++
		if flags&SendInline == 0 {
			continue
		}
		dst := p.mem[from:to]
		if length > uint64(len(dst)) {
			p.last = request{from: from, at: from, end: to}
			p.inline(w)
			p.finish()
			continue
		}
		if len(w.Inline) == 1 {
			copy(dst, w.Inline[0])
			continue
		}
		for _, b := range w.Inline {
			dst = dst[copy(dst, b):]
		}
	}
	if p.n == 0 || p.bound != nil {
		return p.Ring()
	}
	n := p.n
	p.n = 0
	return n, p.sq.Ring(0)
}

// put adds a request that is not on the fast path of PostSend, because it has further operands (an
// address handle, a window, a key), because its operation restricts its data, or because it cannot
// be posted.
//
//go:noinline
func (p *Post) put(w *SendWR) {
	switch {
	case w.Opcode == WRLocalInv:
		p.LocalInv(w.ID, w.Flags, w.InvalidateKey)
		return
	case w.Opcode == WRBindMW && w.Bind != nil:
		p.BindMW(w.ID, w.Flags, *w.Bind)
		return
	case w.Opcode == WRBindMW:
		p.BindMW(w.ID, w.Flags, MWBind{})
		return
	}
	if w.Opcode == WRSendWithInv {
		p.wr.Imm = uint32(w.InvalidateKey)
	} else {
		p.wr.RemoteAddr, p.wr.RKey, p.wr.Imm = w.RemoteAddr, w.RKey, w.Imm
		p.wr.CompareAdd, p.wr.Swap = w.CompareAdd, w.Swap
		if w.Opcode == WRAtomicFetchAndAdd {
			p.wr.Swap = 0
		}
	}
	p.begin(w.ID, w.Opcode, w.Flags)
	if p.qpTraits&needsAddress != 0 {
		p.To(w.AH, w.RemoteQPN, w.RemoteQKey)
	}
	if w.Flags&SendInline == 0 {
		for i := range w.SGList {
			p.SGE(w.SGList[i])
		}
		if p.last.trait&needs != 0 {
			p.missingPart()
		}
		p.last.forget()
		return
	}
	if p.last.trait&noInline != 0 {
		p.fail(errInlineWhat)
	}
	p.inline(w)
	p.finish()
}

// inline adds all inline data of w.
func (p *Post) inline(w *SendWR) {
	for _, b := range w.Inline {
		p.Inline(b)
	}
}

// refuseData sets the error of a request on the fast path of PostSend that has unknown flags or too
// much data. pieces is its number of scatter/gather elements.
//
//go:noinline
func (p *Post) refuseData(w *SendWR, pieces int) {
	switch {
	case w.Flags&^sendFlags != 0:
		p.err = errFlags
	case w.Flags&SendInline != 0:
		p.err = errInlineLong
	case pieces > p.maxSGE:
		p.err = provider.ErrTooManySGE
	default:
		p.err = provider.ErrTooLong
	}
}
