//go:build linux

package verbstest

import (
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// methods maps each supported method to its function. The other methods of the table fail as on a
// kernel that is too old for them.
var methods = map[*abi.MethodSpec]func(*file, *uverbs.Request) syscall.Errno{
	abi.Lookup(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE):           (*file).invoke,
	abi.Lookup(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT):            (*file).getContext,
	abi.Lookup(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT):             (*file).queryPort,
	abi.Lookup(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_TABLE):        (*file).queryGIDTable,
	abi.Lookup(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_ENTRY):        (*file).queryGIDEntry,
	abi.Lookup(abi.UVERBS_OBJECT_ASYNC_EVENT, abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC): (*file).allocAsync,
	abi.Lookup(abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY):                 (*file).destroyAny,
	abi.Lookup(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_MR_DESTROY):                 (*file).destroyAny,
	abi.Lookup(abi.UVERBS_OBJECT_MW, abi.UVERBS_METHOD_MW_DESTROY):                 (*file).destroyAny,
	abi.Lookup(abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY):                 (*file).destroyAny,
	abi.Lookup(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE):                  (*file).createCQ,
	abi.Lookup(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY):                 (*file).destroyAny,
	abi.Lookup(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE):                  (*file).createQP,
	abi.Lookup(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY):                 (*file).destroyAny,
	abi.Lookup(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE):                (*file).createSRQ,
	abi.Lookup(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_DESTROY):               (*file).destroyAny,
	abi.Lookup(abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC):           (*file).allocUAR,
	abi.Lookup(abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_DESTROY):         (*file).destroyAny,
}

// answer copies b to an output attribute, if the request has that attribute.
func answer(r *uverbs.Request, id uint16, b []byte) {
	if a := r.Attr(id); a != nil {
		copy(a.Bytes, b)
	}
}

func answerU32(r *uverbs.Request, id uint16, v uint32) {
	var b [4]byte
	putU32(b[:], v)
	answer(r, id, b[:])
}

func answerU64(r *uverbs.Request, id uint16, v uint64) {
	var b [8]byte
	putU64(b[:], v)
	answer(r, id, b[:])
}

// object returns the object whose handle is in an attribute. It fails with EINVAL if the attribute
// is missing, and with ENOENT if the handle is not that of a T.
func object[T any](f *file, r *uverbs.Request, id uint16) (o T, errno syscall.Errno) {
	a := r.Attr(id)
	if a == nil {
		return o, syscall.EINVAL
	}
	o, ok := find[T](f, uint32(a.Raw.Data))
	if !ok {
		return o, syscall.ENOENT
	}
	return o, 0
}

func (f *file) getContext(r *uverbs.Request) syscall.Errno {
	if f.context {
		return syscall.EINVAL
	}
	if e := f.drv.context(driverData(r)); e != 0 {
		return e
	}
	f.context = true
	answerU32(r, abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, vectors)
	answerU64(r, abi.UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, abi.IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS)
	return 0
}

func (f *file) allocAsync(r *uverbs.Request) syscall.Errno {
	m, errno := f.newEventPipe(len(abi.Bytes(&abi.AsyncEventDesc{})))
	if errno != 0 {
		return errno
	}
	f.events = m
	r.Attr(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE).Raw.Data = uint64(m.user)
	return 0
}

func (f *file) queryPort(r *uverbs.Request) syscall.Errno {
	p := f.k.port(u64(r.Attr(abi.UVERBS_ATTR_QUERY_PORT_PORT_NUM).Bytes))
	if p == nil {
		return syscall.EINVAL
	}
	const down, disabled, active, linkUp, infiniBand, ethernet, grhRequired = 1, 3, 4, 5, 1, 2, 1
	a := abi.QueryPortRespEx{LegacyResp: abi.QueryPortResp{
		PortCapFlags: 0x1010000, MaxMsgSz: maxMsgSize, GidTblLen: uint32(len(p.GIDs)), PkeyTblLen: uint16(len(p.PKeys)), State: down,
		MaxMtu: maxMTU, ActiveMtu: p.MTU, MaxVlNum: 1, ActiveWidth: p.Width, ActiveSpeed: p.Speed, PhysState: disabled,
		LinkLayer: ethernet, Flags: grhRequired,
	}}
	if p.InfiniBand {
		a.LegacyResp.LinkLayer, a.LegacyResp.Flags, a.LegacyResp.Lid, a.LegacyResp.Lmc = infiniBand, 0, p.LID, p.LMC
	}
	if p.active {
		a.LegacyResp.State, a.LegacyResp.PhysState = active, linkUp
	}
	answer(r, abi.UVERBS_ATTR_QUERY_PORT_RESP, abi.Bytes(&a))
	return 0
}

func (f *file) queryGIDEntry(r *uverbs.Request) syscall.Errno {
	p, index := f.k.port(u64(r.Attr(abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT).Bytes)), u64(r.Attr(abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX).Bytes)
	if p == nil || index >= uint64(len(p.GIDs)) || u32(r.Attr(abi.UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS).Bytes) != 0 {
		return syscall.EINVAL
	}
	e, ok := p.entry(uint32(index))
	if !ok {
		return syscall.ENODATA
	}
	answer(r, abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, abi.Bytes(&e))
	return 0
}

func (f *file) queryGIDTable(r *uverbs.Request) syscall.Errno {
	out := r.Attr(abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES).Bytes
	size := len(abi.Bytes(&abi.GidEntry{}))
	if u64(r.Attr(abi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE).Bytes) != uint64(size) {
		return syscall.EINVAL
	}
	n := 0
	for _, p := range f.k.ports {
		for i := range p.GIDs {
			e, ok := p.entry(uint32(i))
			if !ok {
				continue
			}
			if len(out) < (n+1)*size {
				return syscall.EINVAL
			}
			copy(out[n*size:], abi.Bytes(&e))
			n++
		}
	}
	answerU64(r, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, uint64(n))
	return 0
}

// destroyAny serves all destroy methods. The first attribute is the handle of the object. The
// second, if the method has one, returns how many events of the object the user has read, because
// the user waits until it has acknowledged as many. Unread events are withdrawn.
func (f *file) destroyAny(r *uverbs.Request) syscall.Errno {
	h := uint32(r.Attr(r.Spec.Attrs[0].ID).Raw.Data)
	var kind uint16
	var user uint64
	switch o := f.objects[h].(type) {
	case *pd:
		kind = abi.UVERBS_OBJECT_PD
	case *mr:
		kind = abi.UVERBS_OBJECT_MR
	case *mw:
		kind = abi.UVERBS_OBJECT_MW
	case *ah:
		kind = abi.UVERBS_OBJECT_AH
	case *cq:
		kind, user = abi.UVERBS_OBJECT_CQ, o.user
	case *qp:
		kind, user = abi.UVERBS_OBJECT_QP, o.user
	case *srq:
		kind, user = abi.UVERBS_OBJECT_SRQ, o.user
	case *uar:
		kind = o.kind()
	}
	if kind != r.Spec.Object {
		return syscall.ENOENT
	}
	c, _ := f.objects[h].(*cq)
	if e := f.destroy(h); e != 0 {
		return e
	}
	if c != nil {
		answer(r, 1, abi.Bytes(&abi.DestroyCqResp{CompEventsReported: c.read(), AsyncEventsReported: f.withdrawEvents(kind, user)}))
	} else {
		answerU32(r, 1, f.withdrawEvents(kind, user))
	}
	return 0
}

// allocUAR answers UAR_OBJ_ALLOC of mlx5_ib, which allocates a doorbell page as an object.
func (f *file) allocUAR(r *uverbs.Request) syscall.Errno {
	x, ok := f.drv.(*mlx5File)
	if !ok {
		return syscall.EPROTONOSUPPORT
	}
	u, errno := x.allocUAR(u64(r.Attr(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE).Bytes))
	if errno != 0 {
		return errno
	}
	answerU64(r, abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, uint64(u.offset))
	answerU32(r, abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, pageSize)
	answerU32(r, abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, u.id)
	r.Attr(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE).Raw.Data = uint64(f.add(u))
	return 0
}

func (f *file) createCQ(r *uverbs.Request) syscall.Errno {
	cqe := u32(r.Attr(abi.UVERBS_ATTR_CREATE_CQ_CQE).Bytes)
	if cqe == 0 || int(cqe) > f.k.cfg.Limits.CQE || u32(r.Attr(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR).Bytes) >= vectors {
		return syscall.EINVAL
	}
	flags := uint32(0)
	if a := r.Attr(abi.UVERBS_ATTR_CREATE_CQ_FLAGS); a != nil {
		flags = u32(a.Bytes)
	}
	if flags&^f.k.kind.cqFlags() != 0 {
		return syscall.EOPNOTSUPP
	}
	c := &cq{f: f, user: u64(r.Attr(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE).Bytes), overruns: flags&cqIgnoreOverrun != 0}
	c.desc.CqHandle = c.user
	if a := r.Attr(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL); a != nil {
		m := f.channels[int(int64(a.Raw.Data))]
		if m == nil {
			return syscall.EBADF
		}
		c.channel = m
	}
	if errno := f.drv.newCQ(c, cqe, driverData(r)); errno != 0 {
		return errno
	}
	answerU32(r, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, c.cqe)
	r.Attr(abi.UVERBS_ATTR_CREATE_CQ_HANDLE).Raw.Data = uint64(f.add(c))
	return 0
}

func (f *file) createSRQ(r *uverbs.Request) syscall.Errno {
	p, errno := object[*pd](f, r, abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE)
	if errno != 0 {
		return errno
	}
	wr, sge := u32(r.Attr(abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR).Bytes), u32(r.Attr(abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE).Bytes)
	limit := u32(r.Attr(abi.UVERBS_ATTR_CREATE_SRQ_LIMIT).Bytes)
	l := &f.k.cfg.Limits
	if wr == 0 || int(wr) > l.SRQWR || int(sge) > min(l.SGE, maxSRQSGE) || limit > wr {
		return syscall.EINVAL
	}
	if u64(r.Attr(abi.UVERBS_ATTR_CREATE_SRQ_TYPE).Bytes) != abi.IB_UVERBS_SRQT_BASIC {
		return syscall.EOPNOTSUPP
	}
	if f.k.srqs >= l.SRQs {
		return syscall.ENOMEM
	}
	s := &srq{f: f, pd: p, num: f.next, user: u64(r.Attr(abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE).Bytes), maxSGE: max(sge, 1), limit: limit}
	if errno = f.drv.newSRQ(s, wr, driverData(r)); errno != 0 {
		return errno
	}
	p.refs++
	f.k.srqs++
	h := f.add(s)
	answerU32(r, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, s.maxWR)
	answerU32(r, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, s.maxSGE)
	answerU32(r, abi.UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, s.num)
	r.Attr(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE).Raw.Data = uint64(h)
	return 0
}

// unsupportedTypes are names of unsupported queue pair types. If one is requested, the refusal is
// logged with the name.
var unsupportedTypes = map[uint32]string{
	abi.IB_UVERBS_QPT_RAW_PACKET: "raw packet", abi.IB_UVERBS_QPT_XRC_INI: "XRC initiator", abi.IB_UVERBS_QPT_XRC_TGT: "XRC target",
	abi.IB_UVERBS_QPT_DRIVER: "DC",
}

func (f *file) createQP(r *uverbs.Request) syscall.Errno {
	q := &qp{f: f, typ: uint32(u64(r.Attr(abi.UVERBS_ATTR_CREATE_QP_TYPE).Bytes))}
	if name := unsupportedTypes[q.typ]; name != "" {
		f.k.net.say(f.k.cfg.Name + ": a queue pair of type " + name + " is refused")
	}
	if q.typ != abi.IB_UVERBS_QPT_RC && q.typ != abi.IB_UVERBS_QPT_UC && q.typ != abi.IB_UVERBS_QPT_UD {
		return syscall.EOPNOTSUPP
	}
	var errno [3]syscall.Errno
	q.pd, errno[0] = object[*pd](f, r, abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE)
	q.send, errno[1] = object[*cq](f, r, abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE)
	q.recv, errno[2] = object[*cq](f, r, abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE)
	for _, e := range errno {
		if e != 0 {
			return e
		}
	}
	if r.Attr(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE) != nil {
		if q.srq, errno[0] = object[*srq](f, r, abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE); errno[0] != 0 {
			return errno[0]
		}
	}
	if a := r.Attr(abi.UVERBS_ATTR_CREATE_QP_FLAGS); a != nil {
		if u32(a.Bytes)&^abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0 {
			return syscall.EOPNOTSUPP
		}
		q.sigAll = u32(a.Bytes) != 0
	}
	q.cap = load[abi.QpCap](r.Attr(abi.UVERBS_ATTR_CREATE_QP_CAP).Bytes)
	if l := &f.k.cfg.Limits; int(q.cap.MaxSendWr) > l.WR || int(q.cap.MaxRecvWr) > l.WR {
		return syscall.EINVAL
	}
	if len(f.k.qps) >= f.k.cfg.Limits.QPs {
		return syscall.ENOMEM
	}
	q.num = f.k.nextQPN
	if e := f.drv.newQP(q, driverData(r)); e != 0 {
		return e
	}
	f.k.nextQPN++
	if q.srq != nil {
		q.srq.refs++
	}
	q.pd.refs++
	q.send.refs++
	q.recv.refs++
	q.user = u64(r.Attr(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE).Bytes)
	f.k.qps[q.num] = q
	f.k.order = append(f.k.order, q)
	q.handle = f.add(q)
	answer(r, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, abi.Bytes(&q.cap))
	answerU32(r, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, q.num)
	r.Attr(abi.UVERBS_ATTR_CREATE_QP_HANDLE).Raw.Data = uint64(q.handle)
	return 0
}
