//go:build linux

package rdmacmtest

import (
	"net/netip"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
)

// state is the state of an ID.
type state int

const (
	stateIdle state = iota
	stateBound
	stateAddr      // the address is resolved
	stateRoute     // the route is resolved
	stateListening //
	stateAsking    // a request has been sent
	stateAsked     // a request has been received
	stateAnswered  // the request has been accepted
	stateAnswer    // the answer has been received
	stateConnected
	stateEnding // a disconnect request has been sent
	stateEnded  // a disconnect request, or its answer, has been received
)

// id is a struct rdma_cm_id.
type id struct {
	f        *file
	handle   uint32
	uid      uint64 // 0 until a request is accepted: until then the ID gets no events
	ps       uint16
	typ      uint8
	state    state
	src, dst netip.AddrPort
	bound    bool // src has its own port
	reuse    bool
	tos      uint8
	timeout  uint8
	backlog  uint32 // room for further requests
	reported uint32
	peer     *id // the ID at the other side of a handshake, nil if it is gone
	psn      uint32
	param    cmabi.ConnParam // the parameters that this ID has sent
}

// device reports whether an address has chosen the device.
func (i *id) device() bool {
	return i.src.IsValid() && !i.src.Addr().IsUnspecified()
}

// event queues an event and returns it, so that the caller can add the peer's data.
func (i *id) event(event uint32, status int) *cmabi.EventResp { return i.push(event, status, nil) }

func (i *id) push(what uint32, status int, request *id) *cmabi.EventResp {
	e := &event{id: i, request: request, resp: cmabi.EventResp{Uid: i.uid, Id: i.handle, Event: what, Status: uint32(int32(status))}}
	if i.uid != 0 {
		i.f.push(e)
	}
	return &e.resp
}

// say puts a peer's data into an event, padded with zeros to the length of the message.
func (i *id) say(r *cmabi.EventResp, from *id, p *cmabi.ConnParam, room uint8) {
	if i.typ == abi.IB_UVERBS_QPT_UD {
		u := cmabi.UdParam{QpNum: p.QpNum, Qkey: qkey, PrivateData: p.PrivateData, PrivateDataLen: room}
		if from != nil && from.src.IsValid() {
			u.AhAttr = ahTo(i.src.Addr(), from.src.Addr().As16())
		}
		copy(r.Param[:], cmabi.Bytes(&u))
		return
	}
	c := *p
	c.PrivateDataLen, c.Valid = room, 0
	c.ResponderResources, c.InitiatorDepth = p.InitiatorDepth, p.ResponderResources // from the receiver's point of view
	copy(r.Param[:], cmabi.Bytes(&c))
}

// bind binds an ID to a local address.
func (i *id) bind(a netip.AddrPort) syscall.Errno {
	if i.state != stateIdle || !a.IsValid() {
		return syscall.EINVAL
	}
	if !a.Addr().IsUnspecified() && gidIndex(a.Addr()) == 0 {
		return syscall.ENODEV
	}
	if a.Port() == 0 {
		a = netip.AddrPortFrom(a.Addr(), i.f.k.nextPort)
		i.f.k.nextPort++
	}
	if e := i.taken(a, i.reuse); e != 0 {
		return e
	}
	i.bound = true
	i.src, i.state = a, stateBound
	return 0
}

// taken returns an errno if another ID has an address, else 0; cma_check_port,
// drivers/infiniband/core/cma.c. IDs accepted at the address do not count.
func (i *id) taken(a netip.AddrPort, reuse bool) syscall.Errno {
	for _, o := range i.f.k.ids {
		switch {
		case o == i || !o.bound || o.ps != i.ps || o.src.Port() != a.Port() || reuse && o.reuse:
		case o.src.Addr().IsUnspecified() || a.Addr().IsUnspecified():
			return syscall.EADDRNOTAVAIL
		case o.src.Addr() == a.Addr():
			return syscall.EADDRINUSE
		}
	}
	return 0
}

func (i *id) resolve(src, dst netip.AddrPort) syscall.Errno {
	if i.state > stateBound || !dst.IsValid() {
		return syscall.EINVAL
	}
	if i.state == stateIdle {
		if !src.IsValid() {
			src = netip.AddrPortFrom(dst.Addr(), 0)
			if gidIndex(dst.Addr()) == 0 {
				src = netip.AddrPortFrom(gids[1], 0)
			}
		}
		if e := i.bind(src); e != 0 {
			return e
		}
	}
	i.dst = dst
	if gidIndex(dst.Addr()) == 0 { // the neighbor does not answer
		i.event(cmabi.RDMA_CM_EVENT_ADDR_ERROR, -int(syscall.ETIMEDOUT))
		return 0
	}
	i.state = stateAddr
	i.event(cmabi.RDMA_CM_EVENT_ADDR_RESOLVED, 0)
	return 0
}

// advance moves an ID to the next state; it always succeeds in the right state.
func (i *id) advance(from, to state, event uint32) syscall.Errno {
	if i.state != from {
		return syscall.EINVAL
	}
	i.state = to
	i.event(event, 0)
	return 0
}

func (i *id) listen(backlog uint32) syscall.Errno {
	if i.state != stateBound {
		return syscall.EINVAL
	}
	if e := i.taken(i.src, false); e != 0 {
		return e // only one of the IDs that share an address may listen
	}
	const most = 1024
	if backlog == 0 || backlog > most {
		backlog = most
	}
	i.state, i.backlog = stateListening, backlog
	return 0
}

// destroy destroys an ID and notifies its peer.
func (i *id) destroy() {
	k := i.f.k
	delete(k.ids, i.handle)
	for h, g := range k.groups {
		if g.i == i {
			delete(k.groups, h)
		}
	}
	for _, e := range i.f.drop(func(e *event) bool { return e.id == i }) {
		if e.request != nil {
			e.request.destroy()
		}
	}
	p := i.peer
	if p == nil {
		return
	}
	i.peer, p.peer = nil, nil
	switch i.state {
	case stateAsked:
		p.refused(rejConsumer, &cmabi.ConnParam{}, 0)
	case stateAnswer, stateAnswered, stateConnected, stateEnding, stateEnded:
		if p.state == stateConnected || p.state == stateEnding {
			p.state = stateEnded
			p.event(cmabi.RDMA_CM_EVENT_DISCONNECTED, 0)
		} else if p.state != stateEnded {
			p.refused(rejConsumer, &cmabi.ConnParam{}, 0)
		}
	}
}

// Values in the results of INIT_QP_ATTR and QUERY_ROUTE, and in events.
const (
	mtu4096 = 5
	qkey    = 0x01234567 // RDMA_UDP_QKEY, rdma/rdma_cm.h
)

func (i *id) queryAddr(data []byte) syscall.Errno {
	var r cmabi.QueryAddrResp
	r.SrcSize, r.DstSize = putSockaddr(r.SrcAddr[:], i.src), putSockaddr(r.DstAddr[:], i.dst)
	if i.device() {
		r.NodeGuid, r.PortNum = bigEndian64(NodeGUID), 1
	}
	store(data, r)
	return 0
}

func (i *id) queryRoute(data []byte) syscall.Errno {
	var r cmabi.QueryRouteResp
	putSockaddr(r.SrcAddr[:], i.src)
	putSockaddr(r.DstAddr[:], i.dst)
	if i.device() {
		r.NodeGuid, r.PortNum = bigEndian64(NodeGUID), 1
	}
	if i.state >= stateRoute && i.state != stateListening {
		r.NumPaths = 1
		r.IbRoute[0] = cmabi.UserPathRec{Sgid: i.src.Addr().As16(), Dgid: i.dst.Addr().As16(), Mtu: mtu4096, HopLimit: 1, Pkey: 0xffff,
			TrafficClass: i.tos}
	}
	store(data, r)
	return 0
}

// ahTo returns the address vector from a local address to a GID.
func ahTo(from netip.Addr, to [16]byte) abi.AhAttr {
	return abi.AhAttr{Grh: abi.GlobalRoute{Dgid: to, SgidIndex: uint8(gidIndex(from)), HopLimit: 1}, IsGlobal: 1, PortNum: 1}
}

// initQPAttr answers rdma_init_qp_attr; the masks are those of cm_init_qp_*_attr,
// drivers/infiniband/core/cm.c.
func (i *id) initQPAttr(want uint32, data []byte) syscall.Errno {
	const (
		state, access, pkey, port, key, av, mtu = 1 << 0, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8
		timeout, retry, rnr, rqPSN, rdAtomic    = 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13
		minRNR, sqPSN, destRdAtomic, destQPN    = 1 << 15, 1 << 16, 1 << 17, 1 << 20
		stateINIT, stateRTR, stateRTS           = 1, 2, 3
	)
	if !i.device() {
		return syscall.EINVAL
	}
	r := cmabi.QpAttr{QpState: want, PortNum: 1, Qkey: qkey}
	switch {
	case i.typ == abi.IB_UVERBS_QPT_UD && want == stateINIT:
		r.QpAttrMask = state | pkey | port | key
	case want == stateINIT:
		r.QpAttrMask = state | pkey | port | access
		if i.peer != nil && i.state >= stateAsked {
			r.QpAccessFlags = abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_READ | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
		}
	case i.peer == nil || i.state < stateAsked || i.typ == abi.IB_UVERBS_QPT_UD:
		return syscall.EINVAL
	case want == stateRTR:
		r.QpAttrMask = state | av | mtu | destQPN | rqPSN | destRdAtomic | minRNR
		r.AhAttr = ahTo(i.src.Addr(), i.peer.src.Addr().As16())
		r.AhAttr.Grh.TrafficClass = i.tos
		r.PathMtu, r.DestQpNum, r.RqPsn, r.MinRnrTimer = mtu4096, i.peer.param.QpNum, i.peer.psn, 12
		r.MaxDestRdAtomic = i.peer.param.InitiatorDepth
	case want == stateRTS:
		r.QpAttrMask = state | timeout | retry | rnr | sqPSN | rdAtomic
		r.SqPsn, r.Timeout, r.RetryCnt, r.RnrRetry = i.psn, 18, 7, i.peer.param.RnrRetryCount
		if i.timeout != 0 {
			r.Timeout = i.timeout
		}
		r.MaxRdAtomic = i.peer.param.ResponderResources
	default:
		return syscall.EINVAL
	}
	store(data, r)
	return 0
}
