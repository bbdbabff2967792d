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
		p.put(&wr[i])
		if p.err != nil {
			break
		}
	}
	return p.Ring()
}

// put begins a request and adds what belongs to it.
func (p *Post) put(wr *SendWR) {
	w := &p.wr
	switch wr.Opcode {
	case WRRDMAWriteWithImm:
		w.Imm = wr.Imm
		fallthrough
	case WRRDMAWrite, WRRDMARead:
		w.RemoteAddr, w.RKey = wr.RemoteAddr, wr.RKey
	case WRSendWithImm:
		w.Imm = wr.Imm
	case WRAtomicCmpAndSwp:
		w.RemoteAddr, w.RKey, w.CompareAdd, w.Swap = wr.RemoteAddr, wr.RKey, wr.CompareAdd, wr.Swap
	case WRAtomicFetchAndAdd:
		w.RemoteAddr, w.RKey, w.CompareAdd, w.Swap = wr.RemoteAddr, wr.RKey, wr.CompareAdd, 0
	case WRSendWithInv:
		w.Imm = uint32(wr.InvalidateKey)
	case WRLocalInv:
		p.LocalInv(wr.ID, wr.Flags, wr.InvalidateKey)
		return
	case WRBindMW:
		p.putBind(wr)
		return
	}
	list := wr.SGList
	if wr.Flags&SendInline != 0 {
		list = nil
	}
	p.begin(wr.ID, wr.Opcode, wr.Flags, list)
	if p.last.trait&needsAddress != 0 {
		p.To(wr.AH, wr.RemoteQPN, wr.RemoteQKey)
	}
	if wr.Flags&SendInline == 0 {
		return
	}
	if p.last.trait&noInline != 0 {
		p.fail(errInlineWhat)
	}
	for _, b := range wr.Inline {
		p.Inline(b)
	}
}

func (p *Post) putBind(wr *SendWR) {
	var b MWBind
	if wr.Bind != nil {
		b = *wr.Bind
	}
	p.BindMW(wr.ID, wr.Flags, b)
}
