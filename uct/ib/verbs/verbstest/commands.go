//go:build linux

package verbstest

import (
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// driverData returns the driver-specific input of a request and the buffer for the driver's answer.
func driverData(r *uverbs.Request) (d uhw) {
	if a := r.Attr(abi.UVERBS_ATTR_UHW_IN); a != nil {
		d.in = a.Bytes
	}
	if a := r.Attr(abi.UVERBS_ATTR_UHW_OUT); a != nil {
		d.out = a.Bytes
	}
	return d
}

// invoke answers a command sent by INVOKE_WRITE.
func (f *file) invoke(r *uverbs.Request) syscall.Errno {
	spec := abi.LookupCommand(uint32(u64(r.Attr(abi.UVERBS_ATTR_WRITE_CMD).Bytes)))
	if spec == nil {
		return syscall.EOPNOTSUPP
	}
	if !f.drv.has(spec.ID) {
		return syscall.EOPNOTSUPP
	}
	var in, out []byte
	if a := r.Attr(abi.UVERBS_ATTR_CORE_IN); a != nil {
		in = a.Bytes
	}
	if a := r.Attr(abi.UVERBS_ATTR_CORE_OUT); a != nil {
		out = a.Bytes
	}
	d := driverData(r)
	if len(in) < int(spec.In.Size()) || spec.Out != nil && len(out) < int(spec.Out.Size()) {
		return syscall.ENOSPC
	}
	if !f.context {
		return syscall.EINVAL
	}
	if e := f.k.faults.Take(spec.Name); e != 0 {
		return e
	}
	switch spec.ID {
	case abi.IB_USER_VERBS_CMD_QUERY_DEVICE:
		store(out, f.k.attr().Base)
		return 0
	case abi.IB_USER_VERBS_CMD_FLAG_EXTENDED | abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE:
		if load[abi.ExQueryDevice](in).CompMask != 0 {
			return syscall.EINVAL
		}
		store(out, f.k.attr())
		f.drv.device(d)
		return 0
	case abi.IB_USER_VERBS_CMD_ALLOC_PD:
		store(out, abi.AllocPdResp{PdHandle: f.add(&pd{})})
		f.drv.newPD(d)
		return 0
	case abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
		m, errno := f.newEventPipe(len(abi.Bytes(&abi.CompEventDesc{})))
		if errno != 0 {
			return errno
		}
		f.channels[m.user] = m
		store(out, abi.CreateCompChannelResp{Fd: uint32(m.user)})
		return 0
	case abi.IB_USER_VERBS_CMD_ALLOC_MW:
		m := load[abi.AllocMw](in)
		p, ok := find[*pd](f, m.PdHandle)
		if !ok {
			return syscall.ENOENT
		}
		if e := f.drv.newMW(m.MwType); e != 0 {
			return e
		}
		w := &mw{pd: p, typ: m.MwType, index: f.k.nextKey}
		f.k.nextKey++
		w.rkey = w.index << 8
		f.k.mws[w.index] = w
		p.refs++
		store(out, abi.AllocMwResp{MwHandle: f.add(w), Rkey: w.rkey})
		return 0
	case abi.IB_USER_VERBS_CMD_REG_MR:
		return f.regMR(load[abi.RegMr](in), out)
	case abi.IB_USER_VERBS_CMD_CREATE_AH:
		return f.createAH(load[abi.CreateAh](in), out, d)
	case abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
		return f.reqNotify(load[abi.ReqNotifyCq](in))
	case abi.IB_USER_VERBS_CMD_RESIZE_CQ:
		return f.resizeCQ(load[abi.ResizeCq](in), out, d)
	case abi.IB_USER_VERBS_CMD_MODIFY_QP:
		return f.modifyQP(load[abi.ModifyQp](in))
	case abi.IB_USER_VERBS_CMD_QUERY_QP:
		return f.queryQP(load[abi.QueryQp](in), out)
	case abi.IB_USER_VERBS_CMD_POST_SEND:
		return f.postSend(load[abi.PostSend](in))
	case abi.IB_USER_VERBS_CMD_ATTACH_MCAST, abi.IB_USER_VERBS_CMD_DETACH_MCAST:
		return f.multicast(load[abi.AttachMcast](in), spec.ID == abi.IB_USER_VERBS_CMD_ATTACH_MCAST)
	case abi.IB_USER_VERBS_CMD_REREG_MR:
		return f.reregMR(load[abi.ReregMr](in), out)
	case abi.IB_USER_VERBS_CMD_MODIFY_SRQ:
		return f.modifySRQ(load[abi.ModifySrq](in), d)
	case abi.IB_USER_VERBS_CMD_QUERY_SRQ:
		s, ok := find[*srq](f, load[abi.QuerySrq](in).SrqHandle)
		if !ok {
			return syscall.ENOENT
		}
		store(out, abi.QuerySrqResp{MaxWr: s.maxWR, MaxSge: s.maxSGE, SrqLimit: s.limit})
		return 0
	}
	return syscall.EOPNOTSUPP
}

// modifySRQ sets the limit or the size of a shared receive queue.
func (f *file) modifySRQ(m abi.ModifySrq, d uhw) syscall.Errno {
	const (
		size  = 1 << 0 // enum ib_srq_attr_mask, ib_verbs.h
		limit = 1 << 1
	)
	s, ok := find[*srq](f, m.SrqHandle)
	if !ok {
		return syscall.ENOENT
	}
	if m.AttrMask&limit != 0 && m.SrqLimit > s.maxWR ||
		m.AttrMask&size != 0 && (m.MaxWr == 0 || int(m.MaxWr) > f.k.cfg.Limits.SRQWR || m.MaxWr < s.limit) {
		return syscall.EINVAL
	}
	if m.AttrMask&size != 0 {
		if errno := f.drv.resizeSRQ(s, m.MaxWr, d); errno != 0 {
			return errno
		}
	}
	if m.AttrMask&limit != 0 {
		s.limit = m.SrqLimit
	}
	return 0
}

// multicast attaches a queue pair to a multicast group or detaches it.
func (f *file) multicast(m abi.AttachMcast, attach bool) syscall.Errno {
	q, ok := find[*qp](f, m.QpHandle)
	if !ok {
		return syscall.ENOENT
	}
	if q.typ != abi.IB_UVERBS_QPT_UD || !isMulticast(m.Gid) || !attach && !q.groups[m.Gid] {
		return syscall.EINVAL
	}
	if q.groups == nil {
		q.groups = make(map[[16]byte]bool)
	}
	if attach {
		q.groups[m.Gid] = true
	} else {
		delete(q.groups, m.Gid)
	}
	return 0
}

func (f *file) createAH(m abi.CreateAh, out []byte, d uhw) syscall.Errno {
	if _, ok := find[*pd](f, m.PdHandle); !ok {
		return syscall.ENOENT
	}
	to := abi.QpDest{Dgid: m.Attr.Grh.Dgid, SgidIndex: m.Attr.Grh.SgidIndex, HopLimit: m.Attr.Grh.HopLimit, Dlid: m.Attr.Dlid,
		Sl: m.Attr.Sl, IsGlobal: m.Attr.IsGlobal, PortNum: m.Attr.PortNum}
	w, ok := f.k.newPath(&to)
	if !ok {
		return syscall.EINVAL
	}
	if e := f.resolve(&w); e != 0 {
		return e
	}
	p, ok := find[*pd](f, m.PdHandle) // resolve releases the lock: look the domain up again
	if !ok {
		return syscall.ENOENT
	}
	a := &ah{pd: p, num: f.k.nextAH, path: w}
	if e := f.drv.newAH(a, d); e != 0 {
		return e
	}
	f.k.nextAH++
	f.k.ahs[a.num] = a
	p.refs++
	store(out, abi.CreateAhResp{AhHandle: f.add(a)})
	return 0
}

func (f *file) reqNotify(m abi.ReqNotifyCq) syscall.Errno {
	c, ok := find[*cq](f, m.CqHandle)
	if !ok {
		return syscall.ENOENT
	}
	f.k.net.retryWaiting() // completions up to now arrive before the arming
	if m.SolicitedOnly == 0 {
		c.armed = armedNext
	} else {
		c.armed = max(c.armed, armedSolicited)
	}
	return 0
}

func (f *file) resizeCQ(m abi.ResizeCq, out []byte, d uhw) syscall.Errno {
	c, ok := find[*cq](f, m.CqHandle)
	if !ok {
		return syscall.ENOENT
	}
	if m.Cqe == 0 || int(m.Cqe) > f.k.cfg.Limits.CQE {
		return syscall.EINVAL
	}
	if errno := f.drv.resizeCQ(c, m.Cqe, d); errno != 0 {
		return errno
	}
	store(out, abi.ResizeCqResp{Cqe: c.cqe})
	return 0
}

// Bits of the attribute mask of MODIFY_QP; enum ib_qp_attr_mask, ib_verbs.h.
const (
	maskState       = 1 << 0
	maskSQDNotify   = 1 << 2
	maskAccess      = 1 << 3
	maskPkeyIndex   = 1 << 4
	maskPort        = 1 << 5
	maskQkey        = 1 << 6
	maskAV          = 1 << 7
	maskPathMTU     = 1 << 8
	maskTimeout     = 1 << 9
	maskRetry       = 1 << 10
	maskRNR         = 1 << 11
	maskRQPSN       = 1 << 12
	maskMaxRd       = 1 << 13
	maskMinRNR      = 1 << 15
	maskSQPSN       = 1 << 16
	maskMaxDestRd   = 1 << 17
	maskDestQPN     = 1 << 20
	maskUnsupported = 1<<14 | 1<<18 | 1<<19 | 1<<25 // other paths, capabilities, rates
)

// needed returns the attributes that a state change must set, by the type of the queue pair; ok is
// false if the change is not allowed.
func needed(typ uint32, from, to uint8) (mask uint32, ok bool) {
	rc, ud := typ == abi.IB_UVERBS_QPT_RC, typ == abi.IB_UVERBS_QPT_UD
	switch {
	case to == stateReset, to == stateErr:
		return 0, true
	case from == stateReset && to == stateInit && ud:
		return maskPkeyIndex | maskPort | maskQkey, true
	case from == stateReset && to == stateInit:
		return maskPkeyIndex | maskPort | maskAccess, true
	case from == stateInit && to == stateInit:
		return 0, true
	case from == stateInit && to == stateRTR:
		switch {
		case rc:
			return maskAV | maskPathMTU | maskDestQPN | maskRQPSN | maskMaxDestRd | maskMinRNR, true
		case ud:
			return 0, true
		}
		return maskAV | maskPathMTU | maskDestQPN | maskRQPSN, true
	case from == stateRTR && to == stateRTS:
		if rc {
			return maskTimeout | maskRetry | maskRNR | maskSQPSN | maskMaxRd, true
		}
		return maskSQPSN, true
	case from == stateRTS && (to == stateRTS || to == stateSQD), from == stateSQD && (to == stateRTS || to == stateSQD),
		from == stateSQE && to == stateRTS:
		return 0, true
	}
	return 0, false
}

func (f *file) modifyQP(m abi.ModifyQp) syscall.Errno {
	q, ok := find[*qp](f, m.QpHandle)
	if !ok {
		return syscall.ENOENT
	}
	from, to := q.attr.QpState, q.attr.QpState
	if m.AttrMask&maskState != 0 {
		to = m.QpState
	}
	l := &f.k.cfg.Limits
	mask, ok := needed(q.typ, from, to)
	if !ok || m.AttrMask&mask != mask || m.AttrMask&maskUnsupported != 0 ||
		m.AttrMask&maskPathMTU != 0 && (m.PathMtu < 1 || m.PathMtu > maxMTU) ||
		m.AttrMask&maskMaxRd != 0 && int(m.MaxRdAtomic) > l.RdAtomic || m.AttrMask&maskMaxDestRd != 0 && int(m.MaxDestRdAtomic) > l.RdAtomic {
		return syscall.EINVAL
	}
	num, pkey := q.attr.PortNum, q.attr.PkeyIndex
	if m.AttrMask&maskPort != 0 {
		num = m.PortNum
	}
	if m.AttrMask&maskPkeyIndex != 0 {
		pkey = m.PkeyIndex
	}
	if p := f.k.port(uint64(num)); p == nil && num != 0 || p != nil && int(pkey) >= len(p.PKeys) ||
		p == nil && m.AttrMask&maskPort != 0 {
		return syscall.EINVAL
	}
	if m.AttrMask&maskAV != 0 {
		w, ok := f.k.newPath(&m.Dest)
		if !ok || m.Dest.PortNum != num {
			return syscall.EINVAL
		}
		if e := f.resolve(&w); e != 0 {
			return e
		}
		if q, ok = find[*qp](f, m.QpHandle); !ok {
			return syscall.ENOENT
		}
		q.attr.Dest, q.path = m.Dest, w
	}
	q.attr.PkeyIndex = pkey
	set := func(bit uint32, to, from *uint8) {
		if m.AttrMask&bit != 0 {
			*to = *from
		}
	}
	set32 := func(bit uint32, to, from *uint32) {
		if m.AttrMask&bit != 0 {
			*to = *from
		}
	}
	a := &q.attr
	set(maskPort, &a.PortNum, &m.PortNum)
	set(maskPathMTU, &a.PathMtu, &m.PathMtu)
	set(maskTimeout, &a.Timeout, &m.Timeout)
	set(maskRetry, &a.RetryCnt, &m.RetryCnt)
	set(maskRNR, &a.RnrRetry, &m.RnrRetry)
	set(maskMaxRd, &a.MaxRdAtomic, &m.MaxRdAtomic)
	set(maskMaxDestRd, &a.MaxDestRdAtomic, &m.MaxDestRdAtomic)
	set(maskMinRNR, &a.MinRnrTimer, &m.MinRnrTimer)
	set32(maskAccess, &a.QpAccessFlags, &m.QpAccessFlags)
	set32(maskQkey, &a.Qkey, &m.Qkey)
	set32(maskRQPSN, &a.RqPsn, &m.RqPsn)
	set32(maskSQPSN, &a.SqPsn, &m.SqPsn)
	set32(maskDestQPN, &a.DestQpNum, &m.DestQpNum)
	switch {
	case to == stateReset:
		q.reset()
	case from == stateReset && to == stateInit:
		q.sq.begin()
	case to == stateErr:
		q.fail()
	}
	a.QpState = to
	f.k.net.retryWaiting()
	if to == stateSQD && from == stateRTS && m.AttrMask&maskSQDNotify != 0 && m.EnSqdAsyncNotify != 0 {
		f.event(eventSQDrained, q.user) // everything that can be sent has been sent
	}
	return 0
}

func (f *file) queryQP(m abi.QueryQp, out []byte) syscall.Errno {
	q, ok := find[*qp](f, m.QpHandle)
	if !ok {
		return syscall.ENOENT
	}
	a, c := &q.attr, f.drv.caps(q)
	r := abi.QueryQpResp{
		Dest: a.Dest, MaxSendWr: c.MaxSendWr, MaxRecvWr: c.MaxRecvWr, MaxSendSge: c.MaxSendSge,
		MaxRecvSge: c.MaxRecvSge, MaxInlineData: c.MaxInlineData, Qkey: a.Qkey, RqPsn: a.RqPsn, SqPsn: a.SqPsn,
		DestQpNum: a.DestQpNum, QpAccessFlags: a.QpAccessFlags, QpState: a.QpState, CurQpState: a.QpState,
		PathMtu: a.PathMtu, MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic, MinRnrTimer: a.MinRnrTimer,
		PortNum: a.PortNum, PkeyIndex: a.PkeyIndex, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RnrRetry: a.RnrRetry,
	}
	if q.sigAll {
		r.SqSigAll = 1
	}
	store(out, r)
	return 0
}

// postSend handles POST_SEND, by which a program rings the doorbell of a queue pair.
func (f *file) postSend(m abi.PostSend) syscall.Errno {
	q, ok := find[*qp](f, m.QpHandle)
	if !ok {
		return syscall.EINVAL
	}
	if m.WrCount != 0 || m.SgeCount != 0 || m.WqeSize < 56 || q.attr.QpState < stateRTS {
		return syscall.EINVAL
	}
	f.k.net.ring(q)
	return 0
}
