package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// What stands behind the data of an active message: the user's header, in the first or
// only packet, and then the footer of the packet. Where the data is not copied both go
// as one more piece of memory behind it, as in C (ucp_am_eager_zcopy_add_footer in
// src/ucp/am/eager.inl).

// tail is what comes behind the data of a kind of packet.
type tail struct {
	headed    bool // the user's header
	footer    int  // bytes of the footer
	putFooter func(r *Request, dst []byte) int
}

// tailSize is how long a tail is.
func (r *Request) tailSize(t *tail) int {
	if t.headed {
		return len(r.am.header) + t.footer
	}
	return t.footer
}

// putTail writes it.
func (r *Request) putTail(t *tail, dst []byte) (n int) {
	if t.headed {
		n = copy(dst, r.am.header)
	}
	if t.footer > 0 {
		n += t.putFooter(r, dst[n:])
	}
	return n
}

// gatherTail adds the tail of a packet to the n entries of the request's list. The
// footer of all packets but the first is the beginning of the first one's, so that one
// piece of memory does for all.
func (r *Request) gatherTail(n int, t *tail) int {
	size := r.tailSize(t)
	if size == 0 {
		return n
	}
	start := 0
	if !t.headed {
		start = len(r.am.header)
	} else {
		r.putTail(t, r.am.tail)
	}
	r.iov[n] = uct.IOV{Data: r.am.tail[start : start+size]}
	return n + 1
}

// fitsHeader refuses a header that does not fit into a packet for this peer, which may
// take less than others.
func (r *Request) fitsHeader() error {
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

// fitsKey reports whether the offer has room for the key of the memory that the message
// is in.
func (r *Request) fitsKey() bool {
	return proto.RndvRTSSize+len(r.region.Rkey)+len(r.am.header) <= r.ep.cfg.maxBcopy
}

// tailClass is the shape of the data where there has to be a place in the list for the
// tail.
func (r *Request) tailClass(c proto.DataClass) proto.DataClass {
	if c == proto.DataIOV && len(r.data.list) >= r.ep.cfg.maxIOV {
		return proto.DataGeneric
	}
	return c
}

// withTail is what becomes of the choice of a protocol for size bytes, headers
// included. A message without copies gets the memory for its tail.
func (r *Request) withTail(p proto.Protocol, tables *proto.MessageTables, size int) proto.Protocol {
	switch {
	case r.form.offered:
		return proto.ProtoRndvAM
	case p == proto.ProtoEagerShort && len(r.am.header) > 0, p.EagerZcopy() && !r.takeTail(p):
		p = tables.Table(proto.DataGeneric, r.mode).Lookup(size)
	}
	if p.EagerMulti() && r.data.length == 0 { // it is the header that is long
		return proto.ProtoEagerBcopy
	}
	return p
}

// takeTail takes the memory for the tail, if the transport takes one.
func (r *Request) takeTail(p proto.Protocol) bool {
	packet := &r.form.only
	if p.EagerMulti() {
		packet = &r.form.first
	}
	n := r.tailSize(&packet.tail)
	if n == 0 {
		return true
	}
	if r.ep.cfg.maxIOV < 2 || packet.size+n >= r.ep.cfg.maxZcopy {
		return false
	}
	r.am.tail = r.w.buffers.Get(n)[:n]
	return true
}

// tailHandles sees to it that a lane has a handle of the tail's memory, if it wants
// one. The data comes first.
func (r *Request) tailHandles(lane uint8) bool {
	if !r.form.active || len(r.am.tail) == 0 || !r.ep.cfg.needMemh || int(lane) >= len(r.ep.lanes) {
		return true
	}
	md := r.w.mds[r.ep.lanes[lane].iface.md]
	return md.Attr().Flags&uct.MDFlagNeedMemh == 0 || r.memory().register(md, r.am.tail, uct.AccessLocalRead)
}
