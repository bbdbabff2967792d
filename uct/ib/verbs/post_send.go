//go:build linux

package verbs

import "github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"

// PostSend posts work requests in order with one doorbell and returns the number that are
// in the queue; ibv_post_send. An error is that of the request after these,
// ucs.ErrNoResource if the queue is full; or that of the doorbell, in which case the next
// call that adds to the queue, or has no requests, rings it again. PostSend is a Post that
// is begun, filled and rung.
//
// Afterwards wr and what it points to belong to the caller again, except the memory that
// SGList refers to.
func (q *QP) PostSend(wr []SendWR) (int, error) {
	p := q.Begin()
	plain := p.ops.Load() & p.plain
	for i := range wr {
		w := &wr[i]
		if plain>>w.Opcode&1 == 0 {
			if p.put(w); p.err != nil {
				return p.Ring()
			}
			continue
		}
		// All of it is known now: nothing is added to it, and nothing is left to do for
		// it when the next begins.
		list, length, flags := w.SGList, uint64(0), w.Flags
		most := uint64(provider.MaxLength)
		if flags&SendInline != 0 {
			list, most = nil, uint64(p.room)
			if len(w.Inline) == 1 { // what most have
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
		if flags&^sendFlags != 0 || len(list) > p.most || length > most {
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

// put writes a request of which there is more to say than operands and data, or that
// cannot have all of them, or cannot be posted.
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
	if p.own&needsAddress != 0 {
		p.To(w.AH, w.RemoteQPN, w.RemoteQKey)
	}
	if w.Flags&SendInline == 0 {
		for i := range w.SGList {
			p.SGE(w.SGList[i])
		}
		if p.last.trait&needs != 0 {
			p.unmet()
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

// inline adds all inline data.
func (p *Post) inline(w *SendWR) {
	for _, b := range w.Inline {
		p.Inline(b)
	}
}

// refuseData refuses a plain request that can be posted, but not so.
//
//go:noinline
func (p *Post) refuseData(w *SendWR, pieces int) {
	switch {
	case w.Flags&^sendFlags != 0:
		p.err = errFlags
	case w.Flags&SendInline != 0:
		p.err = errInlineLong
	case pieces > p.most:
		p.err = provider.ErrManySGE
	default:
		p.err = provider.ErrTooLong
	}
}
