package verbs

// PostSend posts work requests in their order, rings the device's bell once for
// all and returns how many are in the queue; ibv_post_send. An error is that of
// the request behind these: ucs.ErrNoResource if the queue is full; or that of the
// bell: the next call that puts something into the queue, or has no requests, rings
// it again. It is a Post that is begun, filled and rung.
//
// wr and what it points to belong to the caller again, but for the memory that
// SGList names.
func (q *QP) PostSend(wr []SendWR) (int, error) {
	p := q.Begin()
	for i := range wr {
		if p.err != nil {
			break
		}
		w, list := &wr[i], wr[i].SGList
		if w.Flags&SendInline != 0 {
			list = nil
		}
		switch w.Opcode {
		case WRRDMAWriteWithImm:
			p.wr.Imm = w.Imm
			fallthrough
		case WRRDMAWrite, WRRDMARead:
			p.wr.RemoteAddr, p.wr.RKey = w.RemoteAddr, w.RKey
		case WRSendWithImm:
			p.wr.Imm = w.Imm
		case WRAtomicCmpAndSwp:
			p.wr.RemoteAddr, p.wr.RKey, p.wr.CompareAdd, p.wr.Swap = w.RemoteAddr, w.RKey, w.CompareAdd, w.Swap
		case WRAtomicFetchAndAdd:
			p.wr.RemoteAddr, p.wr.RKey, p.wr.CompareAdd, p.wr.Swap = w.RemoteAddr, w.RKey, w.CompareAdd, 0
		case WRSendWithInv:
			p.wr.Imm = uint32(w.InvalidateKey)
		case WRLocalInv, WRBindMW:
			p.putWindow(w)
			continue
		}
		p.begin(w.ID, w.Opcode, w.Flags, list)
		if p.last.trait&needsAddress != 0 {
			p.To(w.AH, w.RemoteQPN, w.RemoteQKey)
		}
		if w.Flags&SendInline == 0 {
			continue
		}
		if p.last.trait&noInline != 0 {
			p.fail(errInlineWhat)
		}
		for _, b := range w.Inline {
			p.Inline(b)
		}
	}
	return p.Ring()
}

// putWindow begins what is about windows and has no data.
//
//go:noinline
func (p *Post) putWindow(wr *SendWR) {
	switch {
	case wr.Opcode == WRLocalInv:
		p.LocalInv(wr.ID, wr.Flags, wr.InvalidateKey)
	case wr.Bind != nil:
		p.BindMW(wr.ID, wr.Flags, *wr.Bind)
	default:
		p.BindMW(wr.ID, wr.Flags, MWBind{})
	}
}
