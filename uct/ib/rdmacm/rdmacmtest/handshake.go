//go:build linux

package rdmacmtest

import (
	"net/netip"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
)

// Room for private data in the messages, in bytes; ib_cm.h, less struct cma_hdr in requests.
const (
	roomREQ, roomREP, roomREJ = 56, 196, 148
	roomSIDRREQ, roomSIDRREP  = 180, 136
)

// Reasons for a refusal; enum ib_cm_rej_reason and ib_cm_sidr_status, ib_cm.h.
const (
	rejNoListener, rejConsumer, rejVendor = 8, 28, 35
	sidrNoListener, sidrReject            = 1, 2
)

func (i *id) room(rc, ud uint8) uint8 {
	if i.datagrams() {
		return ud
	}
	return rc
}

func (i *id) datagrams() bool { return i.typ == abi.IB_UVERBS_QPT_UD }

// connect sends a request.
func (i *id) connect(p *cmabi.ConnParam) syscall.Errno {
	room := i.room(roomREQ, roomSIDRREQ)
	if i.state != stateRoute || p.Valid == 0 || p.PrivateDataLen > room {
		return syscall.EINVAL
	}
	i.state, i.param = stateAsking, *p
	l := i.listener()
	if l == nil {
		i.refused(rejNoListener, &cmabi.ConnParam{}, 0)
		return 0
	}
	if l.backlog == 0 {
		i.refused(rejConsumer, &cmabi.ConnParam{}, 0)
		return 0
	}
	l.backlog--
	c := l.f.newID(0, l.ps, l.typ)
	c.state, c.src, c.dst, c.peer, i.peer = stateAsked, i.dst, i.src, i, c
	if i.f.k.forged.IsValid() {
		c.dst = netip.AddrPortFrom(i.f.k.forged, i.src.Port())
	}
	c.tos = i.tos // the answer uses the type of service of the request
	r := l.push(cmabi.RDMA_CM_EVENT_CONNECT_REQUEST, 0, c)
	r.Id = c.handle
	l.say(r, nil, p, room)
	return 0
}

// listener returns the ID that listens at i's destination, nil if there is none.
func (i *id) listener() *id {
	for _, l := range i.f.k.ids {
		if l.state == stateListening && l.ps == i.ps && l.src.Port() == i.dst.Port() &&
			(l.src.Addr() == i.dst.Addr() || l.src.Addr().IsUnspecified()) {
			return l
		}
	}
	return nil
}

// refused reports to an ID that its request has been refused.
func (i *id) refused(reason int, p *cmabi.ConnParam, room uint8) {
	i.state = stateEnded
	if !i.datagrams() {
		i.say(i.event(cmabi.RDMA_CM_EVENT_REJECTED, reason), nil, p, room)
		return
	}
	status := sidrReject
	if reason == rejNoListener {
		status = sidrNoListener
	}
	i.say(i.event(cmabi.RDMA_CM_EVENT_UNREACHABLE, status), nil, p, room)
}

// accept answers a request.
func (i *id) accept(uid uint64, p *cmabi.ConnParam) syscall.Errno {
	room := i.room(roomREP, roomSIDRREP)
	if i.state != stateAsked || i.peer == nil || p.PrivateDataLen > room {
		return syscall.EINVAL
	}
	i.uid, i.param = uid, *p
	if i.datagrams() {
		i.state, i.peer.state = stateConnected, stateConnected
		i.peer.say(i.peer.event(cmabi.RDMA_CM_EVENT_ESTABLISHED, 0), i, p, room)
		i.peer.peer, i.peer = nil, nil // a datagram handshake leaves no connection
		return 0
	}
	i.state, i.peer.state = stateAnswered, stateAnswer
	i.peer.say(i.peer.event(cmabi.RDMA_CM_EVENT_CONNECT_RESPONSE, 0), i, p, room)
	return 0
}

// establish confirms the answer.
func (i *id) establish() syscall.Errno {
	if i.state != stateAnswer || i.peer == nil {
		return syscall.EINVAL
	}
	i.state = stateConnected
	if i.peer.state == stateAnswered { // else notify has already reported it
		i.peer.state = stateConnected
		i.peer.event(cmabi.RDMA_CM_EVENT_ESTABLISHED, 0)
	}
	return 0
}

func (i *id) reject(c cmabi.Reject) syscall.Errno {
	room := i.room(roomREJ, roomSIDRREP)
	if i.state != stateAsked && i.state != stateAnswer || i.peer == nil || c.PrivateDataLen > room {
		return syscall.EINVAL
	}
	reason := rejConsumer
	switch c.Reason {
	case 0, rejConsumer:
	case rejVendor:
		reason = rejVendor
	default:
		return syscall.EINVAL
	}
	p := i.peer
	i.state, i.peer, p.peer = stateEnded, nil, nil
	p.refused(reason, &cmabi.ConnParam{PrivateData: c.PrivateData}, room)
	return 0
}

// disconnect ends the connection, or confirms that the peer has ended it.
func (i *id) disconnect() syscall.Errno {
	switch i.state {
	case stateConnected:
		i.state = stateEnding
		if i.peer == nil {
			return 0
		}
		i.peer.state = stateEnded
		i.peer.event(cmabi.RDMA_CM_EVENT_DISCONNECTED, 0)
	case stateEnded:
		if p := i.peer; p != nil && p.state == stateEnding {
			p.state = stateEnded
			p.event(cmabi.RDMA_CM_EVENT_DISCONNECTED, 0)
		}
	default:
		return syscall.EINVAL
	}
	return 0
}

// notify reports that data has arrived before the establishment was reported.
func (i *id) notify() syscall.Errno {
	switch i.state {
	case stateAnswered:
		i.state = stateConnected
		i.event(cmabi.RDMA_CM_EVENT_ESTABLISHED, 0)
		return 0
	case stateConnected:
		return 0
	}
	return syscall.EINVAL
}
