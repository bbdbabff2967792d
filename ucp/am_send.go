package ucp

import (
	"context"
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// callAMSend says which flags and parameters a send of an active message takes.
var callAMSend = callRule{"an active message", opFlagsAll, paramBuffer | paramOnSend | paramMemoryType | paramMemory | paramAMFlags}

// AMSend sends an active message: the handler for id at the peer's worker gets header, of
// at most WorkerAttr.MaxAMHeader bytes, and the data buf. Done means that both may be
// reused, not that the handler has run. With AMSendCopyHeader the header may be reused when
// the call returns. If the data is sent by rendezvous (AMSendRndv, or because of its
// length), the request ends with the handler's result: an error if the handler has refused
// the data. A message for an id without a handler is dropped without notice to the sender,
// except that a rendezvous is refused with ucs.ErrInvalidParam.
//
// Messages of one endpoint that fit in one packet, and offers of data by rendezvous, are handled
// in the order in which they were sent; in ThreadModeMulti this holds for the messages of one
// goroutine. The same holds among messages of several packets. A message of one packet that was
// sent after a message of several packets may be handled before the latter, as in C 1.22.
func (ep *Endpoint) AMSend(id uint16, header, buf []byte, p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.AMSend", ep == nil)
	}
	w := ep.w
	if len(header) > 0 || p != nil && (p.AMFlags != 0 || !p.plainSend()) || !w.owner.acquireFast() {
		return ep.w.am.amSend(ep, id, header, buf, p)
	}
	if len(buf) > int(ep.shortAM) {
		r, err := ep.beginAMSend(id, nil, buf, p)
		w.owner.release()
		return r, err
	}
	r := w.pool.spare // used only if the send is still in flight after the call
	err := ep.ue.AMShort(uct.AMID(proto.IDAMSingle), uint64(id), buf, 0, &r.comp)
	if err == nil {
		w.stats.EagerShort++
		w.stats.AMSends++
		w.owner.release()
		return nil, nil
	}
	r, err = ep.amSentShort(err, id, buf, p)
	w.owner.release()
	return r, err
}

// AMSendWait sends an active message as AMSend does and waits until header and buf may be
// reused, or, for a rendezvous, until the peer's handler is done with the data. If ctx ends
// first, header and buf are treated as TagSendWait treats its buffer. AMSendWait does not
// wait for a peer that does not read its replies: see the package comment.
func (ep *Endpoint) AMSendWait(ctx context.Context, id uint16, header, buf []byte, flags AMSendFlags) error {
	if ep.missing() {
		return errMissing("Endpoint.AMSendWait", ep == nil)
	}
	c, err := ep.w.waitingCall(startAMSend)
	if err != nil {
		return err
	}
	c.ep, c.amID, c.header, c.buf = ep, id, header, buf
	c.use, c.p = memoryRead, &c.params
	c.p.AMFlags = flags
	return c.wait(ctx)
}

// amSend is AMSend for all cases: if another goroutine owns the worker, the call is delegated.
func (as *amState) amSend(ep *Endpoint, id uint16, header, buf []byte, p *RequestParams) (*Request, error) {
	w := ep.w
	if !w.owner.tryAcquire() {
		if err := w.am.checkAMHeader(header); err != nil {
			return nil, err
		}
		c := w.newCall(startAMSend).with(p)
		c.ep, c.amID, c.buf, c.rule = ep, id, buf, &callAMSend
		switch {
		case len(header) == 0:
			c.detached = p == nil && len(buf) <= smallBytes
		case p == nil || p.AMFlags&AMSendCopyHeader == 0:
			c.header = header
		default:
			c.header = append(c.small[:0], header...) // allocates if the header is longer than c.small
		}
		return c.delegate()
	}
	r, err := ep.beginAMSend(id, header, buf, p)
	w.owner.release()
	return r, err
}

func startAMSend(c *call) (*Request, error) {
	return c.ep.beginAMSend(c.amID, c.header, c.buf, c.p)
}

// beginAMSend starts a send of any kind. The caller owns the worker.
func (ep *Endpoint) beginAMSend(id uint16, header, buf []byte, p *RequestParams) (*Request, error) {
	if len(header) == 0 && len(buf) <= int(ep.shortAM) && (p == nil || p.plainSend()) {
		w := ep.w
		r := w.pool.spare
		err := ep.ue.AMShort(uct.AMID(proto.IDAMSingle), uint64(id), buf, 0, &r.comp)
		if err == nil {
			w.stats.EagerShort++
			w.stats.AMSends++
			return nil, nil
		}
		return ep.amSentShort(err, id, buf, p)
	}
	return ep.w.am.describeAMSend(ep, id, header, buf, p)
}

// amSentShort continues a short send for which the transport has returned err: ucs.InProgress if
// the message is not sent yet, another error if the transport has not taken it.
func (ep *Endpoint) amSentShort(err error, id uint16, buf []byte, p *RequestParams) (*Request, error) {
	w := ep.w
	if err != ucs.InProgress {
		return ep.w.am.describeAMSend(ep, id, nil, buf, p) // queues the message, or returns the error of the call
	}
	r := w.pool.spare
	w.pool.spare = w.pool.getRequest()
	w.stats.EagerShort++
	w.stats.AMSends++
	r.toward(ep)
	r.form, r.proto = plainAM, eagerShort{}
	if p != nil {
		r.state |= stateParams
		r.onSend, r.userData = p.OnSend, p.UserData
	}
	return r, nil
}

func (as *amState) describeAMSend(ep *Endpoint, id uint16, header, buf []byte, p *RequestParams) (*Request, error) {
	w := ep.w
	if !w.am.on {
		return nil, w.lacks("AMSend", FeatureAM)
	}
	if err := w.am.checkAMHeader(header); err != nil {
		return nil, err
	}
	if err := ep.usable(); err != nil {
		return nil, err
	}
	if err := callAMSend.check(buf, p); err != nil {
		return nil, err
	}
	r, err := w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	if p == nil {
		p = &noParams
	}
	err = r.data.initSend(buf, &p.Buffer)
	if err == nil {
		err = p.checkMemory(w.ctx, &r.data)
	}
	if err != nil {
		w.pool.dropRequest(r)
		return nil, err
	}
	r.w.rights.give(r, p.Memory)
	if r.am == nil {
		r.am = new(amRequest)
	}
	r.am.id, r.am.flags, r.am.header = id, p.AMFlags, header
	req, err := ep.sendMessage(r, amFormOf(p.AMFlags), p.Flags)
	if req != nil && p.AMFlags&AMSendCopyHeader != 0 && req.state&stateDone == 0 {
		r.am.copyHeader(&w.buffers)
	}
	return req, err
}

// checkAMHeader refuses headers that are too long for some transport of the worker.
func (as *amState) checkAMHeader(header []byte) error {
	if len(header) <= as.maxHeader {
		return nil
	}
	return fmt.Errorf("ucp: header of %d bytes, the limit is %d: %w", len(header), as.maxHeader, ucs.ErrInvalidParam)
}

// maxAMHeader returns the length, in bytes, of the longest header of an application that fits
// into one packet of any transport of the worker: behind an offer with the keys of all memory
// domains, and in the first fragment of a message (ucp_worker_set_max_am_header in
// src/ucp/core/ucp_worker.c).
func (as *amState) maxAMHeader() int {
	w := as.w
	offer := proto.RndvRTSSize + proto.MinRkeySize + 1 // 1 byte in which C UCX names the system device
	for _, md := range w.mds {
		offer += 1 + md.Attr().RkeyPackedSize
	}
	own := max(offer, proto.AMHeaderSize+proto.AMFirstFooterSize)
	most := -1
	for _, i := range w.ifaces {
		if i.attr.Flags.Has(uct.IfaceAMBcopy) {
			if n := max(i.attr.AM.MaxBcopy-own, 0); most < 0 || n < most {
				most = n
			}
		}
	}
	return max(most, 0)
}

// The tail of a packet, which is what stands behind the data of an active message: the
// application's header, in the first or only packet, and then the footer of the packet. In
// zero-copy sends both are one more entry of the list of memory, after the data, as in C
// (ucp_am_eager_zcopy_add_footer in src/ucp/am/eager.inl).

// tail describes what stands behind the data in a kind of packet.
type tail struct {
	headed    bool // the application's header is part of it
	footer    int  // size of the footer in bytes
	putFooter func(r *Request, dst []byte) int
}

// tailSize returns the length of a tail in bytes.
func (as *amState) tailSize(r *Request, t *tail) int {
	if t.headed {
		return len(r.am.header) + t.footer
	}
	return t.footer
}

// putTail writes a tail at the start of dst and returns its length.
func (as *amState) putTail(r *Request, t *tail, dst []byte) (n int) {
	if t.headed {
		n = copy(dst, r.am.header)
	}
	if t.footer > 0 {
		n += t.putFooter(r, dst[n:])
	}
	return n
}

// gatherTail adds the tail of a packet to the first n entries of the request's list of memory,
// and returns the new number of entries. The footer of a later packet is the beginning of the
// footer of the first one, so one piece of memory serves all packets.
func (as *amState) gatherTail(r *Request, n int, t *tail) int {
	size := as.tailSize(r, t)
	if size == 0 {
		return n
	}
	start := 0
	if !t.headed {
		start = len(r.am.header)
	} else {
		as.putTail(r, t, r.am.tail)
	}
	r.iov[n] = uct.IOV{Data: r.am.tail[start : start+size]}
	return n + 1
}

// fitsHeader refuses a header that does not fit into a packet for this peer, whose packets may be
// smaller than those of other peers.
func (as *amState) fitsHeader(r *Request) error {
	n := len(r.am.header)
	if n == 0 {
		return nil
	}
	most := r.ep.cfg.maxBcopy - max(proto.RndvRTSSize+r.ep.cfg.keys.size, proto.AMHeaderSize+proto.AMFirstFooterSize+1)
	if n > most {
		return fmt.Errorf("ucp: header of %d bytes, the peer's limit is %d: %w", n, most, ucs.ErrExceedsLimit)
	}
	return nil
}

// fitsKey reports whether an offer has room for the header and for the remote key of the memory
// that holds the data.
func (as *amState) fitsKey(r *Request) bool {
	return proto.RndvRTSSize+len(r.region.Rkey)+len(r.am.header) <= r.ep.cfg.maxBcopy
}

// tailClass returns the data class of a message that needs one list entry for its tail:
// DataGeneric if the application's list leaves none.
func (as *amState) tailClass(r *Request, c proto.DataClass) proto.DataClass {
	if c == proto.DataIOV && len(r.data.list) >= r.ep.cfg.maxIOV {
		return proto.DataGeneric
	}
	return c
}

// withTail corrects the protocol p that the tables have chosen for size bytes, which include the
// header. For a zero-copy protocol it allocates the memory of the tail.
func (as *amState) withTail(r *Request, p proto.Protocol, tables *proto.MessageTables, size int) proto.Protocol {
	switch {
	case r.form.offered:
		return proto.ProtoRndvAM
	case p == proto.ProtoEagerShort && len(r.am.header) > 0, p.EagerZcopy() && !as.takeTail(r, p):
		p = tables.Table(proto.DataGeneric, r.mode).Lookup(size)
	}
	if p.EagerMulti() && r.data.length == 0 { // only the header is long: one packet is enough
		return proto.ProtoEagerBcopy
	}
	return p
}

// takeTail allocates the memory of the tail for the zero-copy protocol p. It reports false if the
// transport takes too few list entries or too small packets for the tail.
func (as *amState) takeTail(r *Request, p proto.Protocol) bool {
	packet := &r.form.only
	if p.EagerMulti() {
		packet = &r.form.first
	}
	n := as.tailSize(r, &packet.tail)
	if n == 0 {
		return true
	}
	if r.ep.cfg.maxIOV < 2 || packet.size+n >= r.ep.cfg.maxZcopy {
		return false
	}
	r.am.tail = r.w.buffers.Get(n)[:n]
	return true
}

// tailHandles registers the memory of the tail for a lane whose transport needs memory handles,
// and reports whether the lane can send it. The handles of the data must have been made before.
func (as *amState) tailHandles(r *Request, lane uint8) bool {
	if !r.form.active || len(r.am.tail) == 0 || !r.ep.cfg.needMemh || int(lane) >= len(r.ep.lanes) {
		return true
	}
	md := r.w.mds[r.ep.lanes[lane].iface.md]
	return md.Attr().Flags&uct.MDFlagNeedMemh == 0 || r.w.rights.memory(r).register(md, r.am.tail, uct.AccessLocalRead)
}
